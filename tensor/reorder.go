package tensor

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/memory"
	"github.com/tensorfile/tensorfile/internal/naming"
)

// Reordered returns a dense copy of t with its elements in another order in memory; nil
// means row-major. The shape stays. The copy is the caller's; if t already has the order,
// the result shares t's data. It fails with ErrDType for dtypes of less than a byte, and
// with errors.ErrUnsupported for tensors that are not dense. It takes twice the tensor in
// memory, and checks a digest.
func Reordered(t *Tensor, order Order) (*Tensor, error) {
	if err := dense(t); err != nil {
		return nil, err
	}
	rank := len(t.Shape)
	if !order.Valid(rank) {
		return nil, fmt.Errorf("%w: order %v is not a permutation of %d dimensions", ErrMalformed,
			[]int(order), rank)
	}
	out := *t
	out.Order = order
	if order.RowMajor() {
		out.Order = nil
	}
	width := int64(t.DType.Size())
	if width == 0 {
		if !t.DType.Known() {
			return nil, fmt.Errorf("%w: tensor %s is of unknown dtype", errors.ErrUnsupported,
				naming.Quote(t.Name))
		}
		return nil, fmt.Errorf("%w: %v has elements of less than a byte", ErrDType, t.DType)
	}
	from, ok1 := t.Order.Strides(t.Shape)
	to, ok2 := order.Strides(t.Shape)
	if !ok1 || !ok2 {
		out.Data = Blob{} // only a zero dimension next to uncountable ones gets here
		return &out, nil
	}
	if sameWalk(t.Shape, from, to) {
		return &out, nil
	}
	src, ok := t.Data.Memory()
	if !ok {
		var err error
		if src, err = t.Data.readChecked(); err != nil {
			return nil, err
		}
	}
	dst := make([]byte, len(src))
	memory.CopyStrided(dst, to, src, from, t.Shape, width)
	out.Data = BlobOf(dst)
	return &out, nil
}

// sameWalk reports whether two orders put every element in the same place:
// dimensions of one element do not count, and a tensor without elements has
// none to place.
func sameWalk(s Shape, a, b []int64) bool {
	for i, d := range s {
		if d == 0 {
			return true
		}
		if d > 1 && a[i] != b[i] {
			for j := range s {
				if s[j] == 0 {
					return true
				}
			}
			return false
		}
	}
	return true
}
