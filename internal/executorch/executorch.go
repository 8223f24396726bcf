// Package executorch is what packages ptd and pte share: the meaning of ExecuTorch's
// scalar types, and the arithmetic of segments.
package executorch

import (
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// dtypes is indexed by ScalarType, PyTorch's numbering. Of the packed types the runtime
// counts one byte for every element.
var dtypes = [...]tensor.DType{
	tensor.U8, tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.F16, tensor.F32, tensor.F64,
	tensor.C32, tensor.C64, tensor.C128, tensor.Bool, tensor.QI8, tensor.QU8, tensor.QI32, tensor.BF16,
	tensor.QU4x2, tensor.QU2x4, tensor.Bits1x8, tensor.Bits2x4, tensor.Bits4x2, tensor.Bits8, tensor.Bits16,
	tensor.F8E5M2, tensor.F8E4M3FN, tensor.F8E5M2FNUZ, tensor.F8E4M3FNUZ, tensor.U16, tensor.U32, tensor.U64,
}

// DType returns what a scalar type stands for; Unknown for a number that ExecuTorch
// gives no meaning to.
func DType(scalar int8) tensor.DType {
	if scalar < 0 || int(scalar) >= len(dtypes) {
		return tensor.Unknown
	}
	return dtypes[scalar]
}

// ScalarType returns the number for d, and whether there is one: float8_e8m0fnu, float6
// and float4 have none.
func ScalarType(d tensor.DType) (int8, bool) {
	i := slices.Index(dtypes[:], d)
	return int8(i), i >= 0
}

// maxAlignment bounds what alignments may combine to.
const maxAlignment = 1 << 40

// LCM returns the least common multiple of two positive alignments, and whether it is
// of a size that a file can have.
func LCM(a, b int64) (int64, bool) {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	m, ok := align.Mul(a/x, b)
	return m, ok && m <= maxAlignment
}

// Place returns where a segment of size bytes goes that comes after end and is aligned
// to two alignments, where it ends, and what both combine to. It is false beyond 2^63
// bytes.
func Place(end, size, a, b int64) (off, newEnd, alignment int64, ok bool) {
	if alignment, ok = LCM(a, b); !ok {
		return 0, 0, 0, false
	}
	if off, ok = align.Up(end, alignment); !ok {
		return 0, 0, 0, false
	}
	newEnd, ok = align.Add(off, size)
	return off, newEnd, alignment, ok && size >= 0
}
