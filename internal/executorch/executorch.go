// Package executorch is what packages ptd, pte and ptn share: the meaning of ExecuTorch's
// scalar types and orders, the arithmetic of segments, and errors of a file.
package executorch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/tensor"
)

// dtypes is indexed by ScalarType, PyTorch's numbering. For packed types the
// runtime counts one byte for every element.
var dtypes = [...]tensor.DType{
	tensor.U8, tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.F16, tensor.F32, tensor.F64,
	tensor.C32, tensor.C64, tensor.C128, tensor.Bool, tensor.QI8, tensor.QU8, tensor.QI32,
	tensor.BF16,
	tensor.QU4x2, tensor.QU2x4, tensor.Bits1x8, tensor.Bits2x4, tensor.Bits4x2, tensor.Bits8,
	tensor.Bits16,
	tensor.F8E5M2, tensor.F8E4M3FN, tensor.F8E5M2FNUZ, tensor.F8E4M3FNUZ, tensor.U16, tensor.U32,
	tensor.U64,
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

// Order returns what a dim_order of rank dimensions says, nil for row-major, and whether
// it is a permutation of the dimensions. alloc returns memory for it; nil is make.
func Order(dims []byte, rank int, alloc func(rank int) []int) (tensor.Order, bool) {
	if len(dims) != rank {
		return nil, false
	}
	if rowMajor(dims) {
		return nil, true
	}
	if alloc == nil {
		alloc = func(n int) []int { return make([]int, n) }
	}
	o := tensor.Order(alloc(rank))
	for i, d := range dims {
		o[i] = int(d)
	}
	return o, o.Valid(rank)
}

// rowMajor reports whether a dim_order is the default one.
func rowMajor(dims []byte) bool {
	for i, d := range dims {
		if int(d) != i {
			return false
		}
	}
	return true
}

// Generation reports whether id is prefix and two letters or digits: the identifier of
// some version of the same format.
func Generation(id, prefix string) bool {
	version, ok := strings.CutPrefix(id, prefix)
	return ok && len(version) == 2 && strings.IndexFunc(version, func(c rune) bool {
		return !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}) < 0
}

// Errorf returns an error of that class about a field of a file, at a byte of it; the
// offset is -1 where there is none.
func Errorf(format string, class error, offset int64, field, text string, args ...any) error {
	return &tensor.FormatError{Format: format, Offset: offset, Field: field,
		Err: fmt.Errorf("%w: "+text, append([]any{class}, args...)...)}
}

// Unverified returns the error of a FlatBuffer that the verifier refused. Byte 0 of the
// buffer is at byte shift of the file.
func Unverified(format string, err error, shift int64) error {
	var e *fb.Error
	if !errors.As(err, &e) {
		return err
	}
	class := tensor.ErrMalformed
	if e.Limit {
		class = tensor.ErrLimit
	}
	return Errorf(format, class, shift+e.Offset, e.Path, "%s", e.Reason)
}
