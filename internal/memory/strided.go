package memory

import (
	"cmp"
	"slices"
)

// CopyStrided copies the elements of an array of that shape, width bytes each, from src
// to dst. Strides count elements. No dimension may be 0. The two fastest
// dimensions, one of each side, are walked in square tiles, so that both sides
// use whole cache lines.
func CopyStrided(dst []byte, to []int64, src []byte, from []int64, shape []int64, width int64) {
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
	if in < 0 {
		copyElement(dst, src, 0, 0, width)
		return
	}
	var outer []int // all the others, in the order of the destination
	for d := range rank {
		if d != in && d != out && shape[d] > 1 {
			outer = append(outer, d)
		}
	}
	slices.SortFunc(outer, func(a, b int) int { return cmp.Compare(to[b], to[a]) })
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
