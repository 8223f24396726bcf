package ptd

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A ScalarType is a dtype in PyTorch's numbering, which the file uses.
type ScalarType int8

// DType returns the dtype that s stands for; Unknown for a number that ExecuTorch does
// not define.
func (s ScalarType) DType() tensor.DType { return executorch.DType(int8(s)) }

// String returns the name in the schema, such as FLOAT, or the number.
func (s ScalarType) String() string {
	if name, ok := ptdfb.EnumNamesScalarType[ptdfb.ScalarType(s)]; ok {
		return name
	}
	return strconv.Itoa(int(s))
}

// A Layout says how an entry's bytes are to be read as a dense tensor.
type Layout struct {
	ScalarType ScalarType
	Sizes      []int32 // of each dimension, in logical order; empty for a scalar
	DimOrder   []uint8 // the dimensions from slowest to fastest in memory, as many as Sizes
}

// LayoutOf returns the layout of t. It fails with errors.ErrUnsupported if a .ptd cannot
// hold t: it is not dense, its dtype has no number, a dimension is beyond int32, or there
// are more than 255.
func LayoutOf(t *tensor.Tensor) (*Layout, error) {
	if err := t.Check(); err != nil {
		return nil, errs.Wrap(-1, "", err)
	}
	refuse := func(text string, args ...any) (*Layout, error) {
		return nil, errs.Tensor(t.Name, errors.ErrUnsupported, text, args...)
	}
	s, ok := executorch.ScalarType(t.DType)
	switch {
	case !t.Dense() || len(t.Parts) > 0:
		return refuse("it is not dense")
	case !ok:
		return refuse("the format has no dtype %v", t.DType)
	case len(t.Shape) > math.MaxUint8:
		return refuse("%d dimensions, which a byte cannot count", len(t.Shape))
	}
	for _, n := range t.Shape {
		if n > math.MaxInt32 {
			return refuse("a dimension of %d, beyond int32", n)
		}
	}
	return layoutOf(ScalarType(s), t), nil
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

// elements returns the product of sizes. It is false when a size is negative, or the
// product passes int64. As for ExecuTorch it must not pass uint64 on the way either:
// [2^31-1, 2^31-1, 2^31-1, 0] is no shape, though [0, 2^31-1, 2^31-1, 2^31-1] is.
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

// fieldOrder is the field that checkLayout returns for a wrong order.
const fieldOrder = "dim_order"

// checkLayout checks the layout of a tensor in size bytes. It returns the order, nil for
// row-major, in memory of alloc, and how many of the bytes the tensor has: all if its
// type is unknown. If the layout is wrong it returns the field that is.
func checkLayout[T int32 | int64](s ScalarType, sizes []T, dims []uint8, size int64,
	alloc func(rank int) []int) (order tensor.Order, n int64, field string, err error) {
	fail := func(field, text string, args ...any) (tensor.Order, int64, string, error) {
		return nil, 0, field, fmt.Errorf("%w: %s", tensor.ErrMalformed,
			fmt.Sprintf(text, args...))
	}
	if len(dims) != len(sizes) {
		return fail(fieldOrder, "%d dimensions for %d sizes", len(dims), len(sizes))
	}
	for d, n := range sizes {
		if n < 0 {
			return fail(element("sizes", d), "%d", n)
		}
	}
	order, ok := executorch.Order(dims, len(sizes), alloc)
	if !ok {
		return fail(fieldOrder, "%v is not a permutation", dims)
	}
	dtype := s.DType()
	n, ok = elements(sizes)
	if ok && dtype != tensor.Unknown {
		n, ok = dtype.Bytes(n)
	}
	switch {
	case !ok:
		return fail("sizes", "%v of %v is beyond 2^63 bytes", sizes, dtype)
	case dtype == tensor.Unknown:
		n = size
	case n > size:
		return fail("sizes", "%v of %v takes %d bytes, and there are %d", sizes, dtype, n, size)
	}
	return order, n, "", nil
}
