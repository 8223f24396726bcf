package tensor

import (
	"errors"
	"fmt"
)

// Reordered returns a dense copy of t whose elements lie in another order in
// memory; nil means row-major. The shape stays: only the storage changes. The
// copy is in memory and belongs to the caller; where t already has the order,
// the result shares t's data. Types of less than a byte are ErrDType, tensors
// that are not dense errors.ErrUnsupported.
//
// It holds the whole tensor in memory twice while it works.
func Reordered(t *Tensor, order Order) (*Tensor, error) {
	if err := dense(t); err != nil {
		return nil, err
	}
	rank := len(t.Shape)
	if !order.Valid(rank) {
		return nil, fmt.Errorf("%w: order %v is no permutation of %d dimensions", ErrMalformed, []int(order), rank)
	}
	out := *t
	out.Order = order
	if order.RowMajor() {
		out.Order = nil
	}
	width := int64(t.DType.Size())
	if width == 0 {
		if !t.DType.Known() {
			return nil, fmt.Errorf("%w: tensor %s is of unknown element type", errors.ErrUnsupported, Quote(t.Name))
		}
		return nil, fmt.Errorf("%w: %v has elements of less than a byte", ErrDType, t.DType)
	}
	from, ok1 := t.Order.Strides(t.Shape)
	to, ok2 := order.Strides(t.Shape)
	if !ok1 || !ok2 {
		out.Data = Blob{} // only a zero dimension beside uncountable ones gets here
		return &out, nil
	}
	if sameWalk(t.Shape, from, to) {
		return &out, nil
	}
	src, ok := t.Data.Bytes()
	if !ok {
		var err error
		if src, err = t.Data.ReadAll(); err != nil {
			return nil, err
		}
	}
	dst := make([]byte, len(src))
	transpose(dst, src, t.Shape, order, from, to, width)
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

// transpose copies elements of width bytes from one set of strides to another.
// The two fastest dimensions, one of each side, are walked in square tiles, so
// that both sides use whole cache lines.
func transpose(dst, src []byte, shape Shape, order Order, from, to []int64, width int64) {
	rank := len(shape)
	in, out := -1, -1 // the dimensions of more than one element with the smallest strides
	for d := range rank {
		if shape[d] < 2 {
			continue
		}
		if in < 0 || from[d] < from[in] {
			in = d
		}
		if out < 0 || to[d] < to[out] {
			out = d
		}
	}
	var outer []int // all the others, in the order of the destination
	for i := range rank {
		d := i
		if order != nil {
			d = order[i]
		}
		if d != in && d != out && shape[d] > 1 {
			outer = append(outer, d)
		}
	}
	index := make([]int64, len(outer))
	for {
		var so, do int64
		for i, d := range outer {
			so += index[i] * from[d]
			do += index[i] * to[d]
		}
		if in == out {
			for k := range shape[in] {
				copyElement(dst, src, (do+k*to[in])*width, (so+k*from[in])*width, width)
			}
		} else {
			const tile = 32
			for i0 := int64(0); i0 < shape[in]; i0 += tile {
				i1 := min(i0+tile, shape[in])
				for o0 := int64(0); o0 < shape[out]; o0 += tile {
					o1 := min(o0+tile, shape[out])
					for i := i0; i < i1; i++ {
						s, d := so+i*from[in]+o0*from[out], do+i*to[in]+o0*to[out]
						for range o1 - o0 {
							copyElement(dst, src, d*width, s*width, width)
							s += from[out]
							d += to[out]
						}
					}
				}
			}
		}
		i := len(outer) - 1
		for ; i >= 0; i-- {
			if index[i]++; index[i] < shape[outer[i]] {
				break
			}
			index[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

func copyElement(dst, src []byte, d, s, width int64) {
	switch width {
	case 4:
		*(*[4]byte)(dst[d:]) = *(*[4]byte)(src[s:])
	case 2:
		*(*[2]byte)(dst[d:]) = *(*[2]byte)(src[s:])
	case 8:
		*(*[8]byte)(dst[d:]) = *(*[8]byte)(src[s:])
	case 1:
		dst[d] = src[s]
	default:
		copy(dst[d:d+width], src[s:])
	}
}
