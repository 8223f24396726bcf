package ptd

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A ScalarType is a dtype in PyTorch's numbering, which the file uses.
type ScalarType int8

// DType is what s stands for; Unknown for a number that ExecuTorch gives no meaning to.
func (s ScalarType) DType() tensor.DType { return executorch.DType(int8(s)) }

// String is the name in the schema, such as FLOAT, or the number.
func (s ScalarType) String() string {
	if name, ok := ptdfb.EnumNamesScalarType[ptdfb.ScalarType(s)]; ok {
		return name
	}
	return strconv.Itoa(int(s))
}

// ScalarTypeOf is the number for d, or an error that wraps tensor.ErrDType:
// float8_e8m0fnu, float6 and float4 have none.
func ScalarTypeOf(d tensor.DType) (ScalarType, error) {
	if s, ok := executorch.ScalarType(d); ok {
		return ScalarType(s), nil
	}
	return 0, fmt.Errorf("%w: ptd has no dtype %v", tensor.ErrDType, d)
}

// A Layout says how an entry's bytes are to be read as a dense tensor.
type Layout struct {
	ScalarType ScalarType
	Sizes      []int32 // of each dimension, in logical order; empty for a scalar
	DimOrder   []uint8 // the dimensions from slowest to fastest in memory, as many as Sizes
}

// LayoutOf describes t, or fails where a .ptd cannot: t is not dense, its type has no
// number, a dimension is beyond int32, there are more than 255.
func LayoutOf(t *tensor.Tensor) (*Layout, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if !t.Dense() || len(t.Parts) > 0 {
		return nil, fmt.Errorf("%w: tensor %s is not dense", errors.ErrUnsupported,
			naming.Quote(t.Name))
	}
	s, err := ScalarTypeOf(t.DType)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", naming.Quote(t.Name), err)
	}
	if len(t.Shape) > math.MaxUint8 {
		return nil, fmt.Errorf("%w: tensor %s has %d dimensions, which a byte cannot count",
			errors.ErrUnsupported, naming.Quote(t.Name), len(t.Shape))
	}
	for _, n := range t.Shape {
		if n > math.MaxInt32 {
			return nil, fmt.Errorf("%w: tensor %s has a dimension of %d, beyond int32",
				errors.ErrUnsupported, naming.Quote(t.Name), n)
		}
	}
	return layoutOf(s, t), nil
}

// layoutOf is the layout of a tensor that has one.
func layoutOf(s ScalarType, t *tensor.Tensor) *Layout {
	l := &Layout{ScalarType: s, Sizes: make([]int32, len(t.Shape)),
		DimOrder: make([]uint8, len(t.Shape))}
	for i, n := range t.Shape {
		l.Sizes[i], l.DimOrder[i] = int32(n), uint8(i)
		if t.Order != nil {
			l.DimOrder[i] = uint8(t.Order[i])
		}
	}
	return l
}

// Bytes is the size of a tensor of this layout. It is false when a size is negative,
// the scalar type is unknown, or the product passes int64. As for ExecuTorch it must
// not pass uint64 on the way either: [2^31-1, 2^31-1, 2^31-1, 0] is no shape, though
// [0, 2^31-1, 2^31-1, 2^31-1] is.
func (l *Layout) Bytes() (int64, bool) {
	n, ok := elements(l.Sizes)
	if !ok || l.ScalarType.DType() == tensor.Unknown {
		return 0, false
	}
	return l.ScalarType.DType().Bytes(n)
}

// elements multiplies sizes as Bytes says.
func elements[T int32 | int64](sizes []T) (int64, bool) {
	total := uint64(1)
	for _, n := range sizes {
		hi, lo := bits.Mul64(total, uint64(n))
		if n < 0 || hi != 0 {
			return 0, false
		}
		total = lo
	}
	return int64(total), total <= math.MaxInt64
}

// check reports what is wrong with the layout of an entry of size bytes.
func (l *Layout) check(size int64) error {
	if len(l.DimOrder) != len(l.Sizes) {
		return fmt.Errorf("%w: dim_order of %d dimensions for %d sizes", tensor.ErrMalformed,
			len(l.DimOrder), len(l.Sizes))
	}
	if _, ok := executorch.Order(l.DimOrder, len(l.Sizes), nil); !ok {
		return fmt.Errorf("%w: dim_order %v is not a permutation", tensor.ErrMalformed, l.DimOrder)
	}
	for _, n := range l.Sizes {
		if n < 0 {
			return fmt.Errorf("%w: size %d", tensor.ErrMalformed, n)
		}
	}
	if l.ScalarType.DType() == tensor.Unknown {
		return nil
	}
	n, ok := l.Bytes()
	if !ok {
		return fmt.Errorf("%w: %v of %v is beyond 2^63 bytes", tensor.ErrMalformed, l.Sizes,
			l.ScalarType)
	}
	if n > size {
		return fmt.Errorf("%w: %v of %v takes %d bytes, the segment has %d", tensor.ErrMalformed,
			l.Sizes, l.ScalarType, n, size)
	}
	return nil
}
