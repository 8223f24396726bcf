package tensorfile

import (
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A Format is one of the file formats that this library knows. The zero value is
// none of them.
type Format uint8

// The formats, in the order in which [Detect] tries them, except RTen, which it tries
// last.
const (
	ZTensor Format = iota + 1
	PTD
	PTE
	RTen
	Primitiv
	Safetensors
	NPY
	NPZ
	GGUF
	Torch
	PTN
	ONNX
	numFormats
)

// A formatRow is what this package knows of a format.
type formatRow struct {
	name, ext, title string
	reads, writes    []string // versions, in the words of Reader.Version
	detect           func(r io.ReaderAt, size int64) bool
	open             func(in *format.Input) (Reader, error)
	is               func(r Reader) bool // r is the Reader of the format
	caps             func(version string) Caps
	// write is nil where files are not made of tensors.
	write func(w io.Writer, o *WriterOptions) (Writer, error)
	edit  func(r Reader) Edit // nil where files are not edited
}

// formats is indexed by Format.
var formats = [numFormats]formatRow{
	ZTensor: reads(ztensor.NewReader, ztensor.Detect, writes(ztensor.NewWriter, completeZTensor,
		edits(ztensor.NewEdit, formatRow{
			name: "ztensor", ext: ".zt", title: "zTensor", caps: ztensorCaps,
			reads:  []string{"0.1", "1.0", "1.1", "1.2", "2"},
			writes: []string{"2", "1.0"}}))),
	PTD: reads(ptd.NewReader, ptd.Detect, writes(ptd.NewWriter, nil,
		edits(ptd.NewEdit, formatRow{
			name: "ptd", ext: ".ptd", title: "ExecuTorch tensor data", caps: ptdCaps,
			reads: []string{"0"}, writes: []string{"0"}}))),
	PTE: reads(pte.NewReader, pte.Detect, edits(pte.NewEdit, formatRow{
		name: "pte", ext: ".pte", title: "ExecuTorch program", caps: pteCaps,
		reads: []string{"0"}, writes: []string{"0"}})),
	RTen: reads(rten.NewReader, rten.Detect, writes(rten.NewWriter, completeRTen,
		edits(rten.NewEdit, formatRow{
			name: "rten", ext: ".rten", title: "RTen model", caps: rtenCaps,
			reads: []string{"1", "2"}, writes: []string{"2", "1"}}))),
	Primitiv: reads(primitiv.NewReader, primitiv.Detect, writes(primitiv.NewWriter, nil,
		edits(primitiv.NewEdit, formatRow{
			name: "primitiv", ext: ".primitiv", title: "primitiv", caps: primitivCaps,
			reads: []string{"0.1"}, writes: []string{"0.1"}}))),
	Safetensors: reads(safetensors.NewReader, safetensors.Detect,
		writes(safetensors.NewWriter, completeSafetensors, edits(safetensors.NewEdit, formatRow{
			name: "safetensors", ext: ".safetensors", title: "safetensors",
			caps: safetensorsCaps, reads: []string{""}, writes: []string{""}}))),
	NPY: reads(npy.NewReader, npy.Detect, writes(npy.NewWriter, nil, formatRow{
		name: "npy", ext: ".npy", title: "NumPy array", caps: npyCaps,
		reads: []string{"1.0", "2.0", "3.0"}, writes: []string{"1.0"}})),
	NPZ: reads(npz.NewReader, npz.Detect, writes(npz.NewWriter, nil,
		edits(npz.NewEdit, formatRow{
			name: "npz", ext: ".npz", title: "NumPy archive", caps: npzCaps,
			reads: []string{""}, writes: []string{""}}))),
	GGUF: reads(gguf.NewReader, gguf.Detect, writes(gguf.NewWriter, completeGGUF,
		edits(gguf.NewEdit, formatRow{
			name: "gguf", ext: ".gguf", title: "GGUF", caps: ggufCaps,
			reads: []string{"1", "2", "3"}, writes: []string{"3"}}))),
	Torch: reads(torch.NewReader, torch.Detect, formatRow{
		name: "torch", ext: ".pt", title: "PyTorch checkpoint", caps: torchCaps,
		reads: []string{"zip", "unpacked", "torchscript", "legacy", "pt2", "dcp"}}),
	PTN: reads(ptn.NewReader, ptn.Detect, edits(ptn.NewEdit, formatRow{
		name: "ptn", ext: ".ptn", title: "ExecuTorch package", caps: ptnCaps,
		reads: []string{"1"}})),
	ONNX: reads(onnx.NewReader, onnx.Detect, formatRow{
		name: "onnx", ext: ".onnx", title: "ONNX model", caps: onnxCaps,
		reads: []string{"3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"}}),
}

// row returns the row of a format, without anything for values that are not constants.
func (f Format) row() *formatRow {
	if f >= numFormats {
		f = 0
	}
	return &formats[f]
}

// reads completes the row of a format that a package reads.
func reads[R Reader](newReader func(io.ReaderAt, int64, *tensor.ReadOptions) (R, error),
	detect func(io.ReaderAt, int64) bool, row formatRow) formatRow {
	row.detect = detect
	row.is = func(r Reader) bool { _, ok := r.(R); return ok }
	row.open = func(in *format.Input) (Reader, error) {
		r, err := newReader(in, in.Size(), &in.Options)
		if err != nil {
			return nil, err // not r: a nil pointer in an interface is not nil
		}
		return r, nil
	}
	return row
}

// Formats returns all formats, in the order of their constants.
func Formats() []Format {
	all := make([]Format, 0, numFormats-1)
	for f := ZTensor; f < numFormats; f++ {
		all = append(all, f)
	}
	return all
}

// String returns the word for the format in JSON and on the command line, such
// as "ztensor"; "unknown" for the zero value.
func (f Format) String() string {
	switch {
	case f == 0:
		return "unknown"
	case f >= numFormats:
		return fmt.Sprintf("Format(%d)", uint8(f))
	}
	return formats[f].name
}

// Ext returns the usual extension of a file's name, with its dot; "" for the zero value.
// It is for naming new files: [Detect] ignores names.
func (f Format) Ext() string {
	return f.row().ext
}

// Title returns the name of the format for people.
func (f Format) Title() string {
	if f >= numFormats {
		return f.String()
	}
	return formats[f].title
}

// Reads lists the versions of the format that this library reads, in the words
// of [File.Version]; nil when it reads none.
func (f Format) Reads() []string {
	return slices.Clone(f.row().reads)
}

// Writes lists the versions of the format that this library writes.
func (f Format) Writes() []string {
	return slices.Clone(f.row().writes)
}

// ParseFormat reads a name as [Format.String] writes it; zt and zTensor also name
// [ZTensor].
func ParseFormat(s string) (Format, error) {
	if s == "zt" || s == "zTensor" {
		return ZTensor, nil
	}
	for f := ZTensor; f < numFormats; f++ {
		if s == formats[f].name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("tensorfile: no format is named %s", naming.Quote(s))
}

// MarshalText writes the name. The zero value and values that are not constants
// fail.
func (f Format) MarshalText() ([]byte, error) {
	if f == 0 || f >= numFormats {
		return nil, fmt.Errorf("tensorfile: %v has no name", f)
	}
	return []byte(f.String()), nil
}

// UnmarshalText accepts what [ParseFormat] accepts.
func (f *Format) UnmarshalText(text []byte) error {
	v, err := ParseFormat(string(text))
	if err == nil {
		*f = v
	}
	return err
}

// Caps say what a format can represent, so that a caller knows before writing what would
// be lost. They describe tensors as this library writes them: a format without DTypes is
// not written from tensors.
type Caps struct {
	// DTypes are the dtypes; nil if the format is only read.
	DTypes []tensor.DType
	// Orders are the orders in memory.
	Orders Orders
	// Names are the names of tensors.
	Names Names
	// MaxTensors is the maximum number of tensors in a file. MaxRank, MaxDim and
	// MaxElements are limits of one tensor. 0 is no limit but the range of int64.
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
	// TensorAttributes: each tensor may have attributes of its own.
	TensorAttributes bool
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
	if caps := f.row().caps; caps != nil {
		return caps(version)
	}
	return Caps{}
}

func ztensorCaps(version string) Caps {
	isNew := version == "" || version == ztensor.Version2
	c := Caps{DTypes: ztensorTypes(isNew), ZeroDims: true, Sparse: true, Blocks: isNew,
		Extras: !isNew, Attributes: true, TensorAttributes: isNew}
	if isNew {
		c.MaxRank = 64
	}
	return c
}

func ptdCaps(string) Caps {
	return Caps{DTypes: executorchTypes(), Orders: AnyOrder, MaxRank: 255, MaxDim: 1<<31 - 1,
		ZeroDims: true, Blobs: true}
}

func pteCaps(string) Caps { return Caps{Orders: AnyOrder, Blobs: true, Program: true} }

func ptnCaps(string) Caps { return Caps{Program: true} }

func rtenCaps(string) Caps {
	return Caps{DTypes: []tensor.DType{tensor.I8, tensor.I32, tensor.U8, tensor.F32},
		Names: MayRepeat, MaxDim: 1<<32 - 1, ZeroDims: true, Program: true}
}

func primitivCaps(string) Caps {
	return Caps{DTypes: []tensor.DType{tensor.F32}, Orders: OnlyColumnMajor, Names: Paths,
		MaxRank: 8, MaxElements: 1<<30 - 1, MaxDim: 1<<30 - 1}
}

func safetensorsCaps(string) Caps {
	return Caps{DTypes: safetensors.DTypes(), ZeroDims: true, Attributes: true}
}

func npyCaps(string) Caps {
	return Caps{DTypes: npy.DTypes(), Orders: RowOrColumnMajor, Names: OneName, MaxTensors: 1,
		MaxRank: 64, ZeroDims: true}
}

func npzCaps(string) Caps {
	return Caps{DTypes: npz.DTypes(), Orders: RowOrColumnMajor, Names: Members, MaxRank: 64,
		ZeroDims: true}
}

func ggufCaps(string) Caps {
	return Caps{DTypes: gguf.DTypes(), Names: ShortText, MaxRank: gguf.MaxRank, ZeroDims: true,
		Blocks: true, Attributes: true}
}

func torchCaps(string) Caps { return Caps{Attributes: true} }

func onnxCaps(string) Caps {
	return Caps{Names: MayRepeat, MaxRank: 64, ZeroDims: true, Sparse: true, Program: true,
		Attributes: true}
}

// ztensorTypes returns the dtypes of version 1.0, or of version 2, which spells more as
// logical types.
func ztensorTypes(isNew bool) []tensor.DType {
	all := []tensor.DType{
		tensor.Bool, tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.U8, tensor.U16,
		tensor.U32, tensor.U64,
		tensor.F16, tensor.BF16, tensor.F32, tensor.F64,
	}
	if isNew {
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
