package tensor

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
)

// A Shape is the number of elements along each dimension. The empty shape, nil
// included, is the shape of a scalar.
type Shape []int64

// Elements returns the product of the dimensions: 1 for a scalar, 0 if a dimension is 0.
// It returns false when a dimension is negative or the product passes int64.
func (s Shape) Elements() (n int64, ok bool) {
	for _, d := range s {
		if d < 0 {
			return 0, false
		}
	}
	if slices.Contains(s, 0) {
		return 0, true
	}
	n = 1
	for _, d := range s {
		if n, ok = align.Mul(n, d); !ok {
			return 0, false
		}
	}
	return n, true
}

// Equal reports whether both have the same dimensions. nil equals Shape{}.
func (s Shape) Equal(t Shape) bool { return slices.Equal(s, t) }

// String writes [2, 3]; a scalar is [].
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.FormatInt(d, 10))
	}
	b.WriteByte(']')
	return b.String()
}

// MarshalJSON writes a list of the dimensions, which is [] for a scalar.
func (s Shape) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]int64(s))
}

// An Order lists the dimensions from the slowest to the fastest in memory. nil
// and [0 1 2 …] are row-major, the reversed list is column-major, [0 2 3 1] is
// channels-last. ExecuTorch calls it dim_order.
type Order []int

// RowMajor reports whether the last dimension varies fastest and the first
// slowest.
func (o Order) RowMajor() bool {
	for i, d := range o {
		if d != i {
			return false
		}
	}
	return true
}

// Equal reports whether o and p are the same order; nil is row-major.
func (o Order) Equal(p Order) bool {
	return slices.Equal(o, p) || o.RowMajor() && p.RowMajor()
}

// ColumnMajor returns the order of a tensor of that rank whose first dimension
// varies fastest. It is nil, row-major, below rank 2, where both are the same.
func ColumnMajor(rank int) Order {
	if rank < 2 {
		return nil
	}
	o := make(Order, rank)
	for i := range o {
		o[i] = rank - 1 - i
	}
	return o
}

// Valid reports whether o is nil or a permutation of 0 … rank-1.
func (o Order) Valid(rank int) bool {
	if o == nil {
		return true
	}
	if len(o) != rank {
		return false
	}
	seen := make([]bool, rank)
	for _, d := range o {
		if d < 0 || d >= rank || seen[d] {
			return false
		}
		seen[d] = true
	}
	return true
}

// Strides returns how many elements apart adjacent elements along each dimension
// are. It returns false when o does not fit s or s has no countable elements.
// Where a dimension is 0 the strides are the strides of the same shape with 1 in its
// place.
func (o Order) Strides(s Shape) (strides []int64, ok bool) {
	if !o.Valid(len(s)) {
		return nil, false
	}
	if _, ok := s.Elements(); !ok {
		return nil, false
	}
	strides = make([]int64, len(s))
	step := int64(1)
	for i := len(s) - 1; i >= 0; i-- {
		d := i
		if o != nil {
			d = o[i]
		}
		strides[d] = step
		if step, ok = align.Mul(step, max(s[d], 1)); !ok {
			return nil, false // only next to a zero: otherwise Elements counted the same product
		}
	}
	return strides, true
}
