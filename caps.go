package tensorfile

import (
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// Caps say what a format can represent, so that a caller knows before writing what would
// be lost. They describe tensors as this library writes them: a format without DTypes is
// not written from tensors.
type Caps struct {
	// DTypes are the dtypes, nil where the format is only read.
	DTypes []tensor.DType
	// Orders are the orders in memory.
	Orders Orders
	// Names are the names of tensors.
	Names Names
	// MaxTensors, MaxRank, MaxDim and MaxElements are limits of one tensor or,
	// the first, of the file; 0 where there is no limit but the range of int64.
	MaxTensors, MaxRank int
	MaxDim, MaxElements int64
	// ZeroDims: a dimension may be 0.
	ZeroDims bool
	// Sparse: tensors with a Scheme and Parts, as zTensor has them.
	Sparse bool
	// Blocks: quantised blocks of ggml, as GGUF has them.
	Blocks bool
	// Extras: parts in addition to the data of a dense tensor.
	Extras bool
	// Blobs: named bytes that are not tensors.
	Blobs bool
	// Attributes of the file: any text under any name.
	Attributes bool
	// Program: more than tensors, so that a file of this format cannot be made
	// from tensors alone without being another thing.
	Program bool
}

// Holds reports whether the format has that dtype.
func (c Caps) Holds(d tensor.DType) bool { return slices.Contains(c.DTypes, d) }

// Orders say which orders of dimensions a format can represent.
type Orders uint8

const (
	RowMajor         Orders = iota // only that
	RowOrColumnMajor               // a flag for the whole tensor
	AnyOrder                       // every permutation
	OnlyColumnMajor                // as in Fortran
)

// String returns the words of docs/formats.md.
func (o Orders) String() string {
	words := [...]string{"row-major", "row- or column-major", "any", "column-major"}
	if int(o) < len(words) {
		return words[o]
	}
	return fmt.Sprintf("Orders(%d)", uint8(o))
}

// Hold reports whether a tensor of that order can be written without moving its
// elements.
func (o Orders) Hold(order tensor.Order, rank int) bool {
	column := slices.Equal(order, tensor.ColumnMajor(rank))
	switch o {
	case AnyOrder:
		return true
	case RowOrColumnMajor:
		return column || order.RowMajor()
	case OnlyColumnMajor:
		return column || rank < 2
	}
	return order.RowMajor()
}

// Names say which names tensors may have.
type Names uint8

const (
	AnyText   Names = iota // UTF-8, each name once
	Paths                  // parts joined by dots; none is the beginning of another
	Members                // of a zip archive: UTF-8 without NUL, each once
	OneName                // the format has none: a single tensor named "data"
	MayRepeat              // UTF-8 or none at all, and more than once
	ShortText              // UTF-8 of at most 63 bytes without NUL, each name once
)

// String returns the words of docs/formats.md.
func (n Names) String() string {
	words := [...]string{"any text, once", "paths", "members of an archive", "none",
		"any text, repeated or none", "up to 63 bytes, once"}
	if int(n) < len(words) {
		return words[n]
	}
	return fmt.Sprintf("Names(%d)", uint8(n))
}

// Caps returns the Caps of the version that is written by default, which [Format.Writes]
// names first.
func (f Format) Caps() Caps { return f.CapsOf("") }

// CapsOf returns the Caps of a version that [Format.Writes] names.
func (f Format) CapsOf(version string) Caps {
	switch f {
	case ZTensor:
		if version == "" {
			version = ztensor.Version2
		}
		c := Caps{DTypes: ztensorTypes(version), ZeroDims: true, Sparse: true,
			Blocks: version == "2",
			Extras: version != "2", Attributes: true}
		if version == "2" {
			c.MaxRank = 64
		}
		return c
	case PTD:
		return Caps{DTypes: executorchTypes(), Orders: AnyOrder, MaxRank: 255, MaxDim: 1<<31 - 1,
			ZeroDims: true, Blobs: true}
	case PTE:
		return Caps{Orders: AnyOrder, Blobs: true, Program: true}
	case PTN:
		return Caps{Program: true}
	case RTen:
		return Caps{
			DTypes: []tensor.DType{tensor.I8, tensor.I32, tensor.U8, tensor.F32},
			Names:  MayRepeat, MaxDim: 1<<32 - 1, ZeroDims: true, Program: true,
		}
	case Primitiv:
		return Caps{
			DTypes: []tensor.DType{tensor.F32}, Orders: OnlyColumnMajor, Names: Paths,
			MaxRank: 8, MaxElements: 1<<30 - 1, MaxDim: 1<<30 - 1,
		}
	case Safetensors:
		return Caps{DTypes: safetensors.DTypes(), ZeroDims: true, Attributes: true}
	case NPY:
		return Caps{DTypes: npy.DTypes(), Orders: RowOrColumnMajor, Names: OneName, MaxTensors: 1,
			MaxRank: 64, ZeroDims: true}
	case NPZ:
		return Caps{DTypes: npz.DTypes(), Orders: RowOrColumnMajor, Names: Members, MaxRank: 64,
			ZeroDims: true}
	case GGUF:
		return Caps{DTypes: gguf.DTypes(), Names: ShortText, MaxRank: gguf.MaxRank, ZeroDims: true,
			Blocks:     true,
			Attributes: true}
	case ONNX:
		return Caps{Names: MayRepeat, MaxRank: 64, ZeroDims: true, Sparse: true, Program: true,
			Attributes: true}
	}
	return Caps{Attributes: f == Torch}
}

// ztensorTypes: 1.0 has the first; 2 spells more as logical types.
func ztensorTypes(version string) []tensor.DType {
	all := []tensor.DType{
		tensor.Bool, tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.U8, tensor.U16,
		tensor.U32, tensor.U64,
		tensor.F16, tensor.BF16, tensor.F32, tensor.F64,
	}
	if version == ztensor.Version2 {
		all = append(all, tensor.C64, tensor.C128, tensor.F8E4M3FN, tensor.F8E5M2,
			tensor.F8E4M3FNUZ, tensor.F8E5M2FNUZ, tensor.F8E8M0FNU, tensor.F4E2M1FN)
	}
	return all
}

// executorchTypes are the dtypes of ExecuTorch's ScalarType: all but the ones below a
// byte, and the scales of MX blocks.
func executorchTypes() []tensor.DType {
	return slices.DeleteFunc(tensor.DTypes(), func(d tensor.DType) bool {
		return d.Size() == 0 || d == tensor.F8E8M0FNU
	})
}
