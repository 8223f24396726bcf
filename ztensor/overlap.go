package ztensor

import (
	"cmp"
	"math/bits"
	"slices"
)

// overlaps calls report with two indices whose extents share some of their
// bytes but are not the same, each second index at most once, until report
// answers false. Empty extents lie nowhere. The cost is that of a sort.
func overlaps(n int, extent func(i int) (off, length int64), report func(i, j int) bool) {
	order := make([]uint64, 0, n)
	var furthest int64
	for i := range n {
		off, length := extent(i)
		if length > 0 {
			furthest = max(furthest, off)
			order = append(order, uint64(i))
		}
	}
	if width, index := bits.Len64(uint64(furthest)), bits.Len(uint(n)); width+index <= 64 {
		// Offset and index fit one word, which a radix sort puts in order.
		for k, i := range order {
			off, _ := extent(int(i))
			order[k] = uint64(off)<<index | i
		}
		order = radixSort(order, index, index+width)
		for k := range order {
			order[k] &= 1<<index - 1
		}
	} else {
		slices.SortFunc(order, func(i, j uint64) int {
			a, _ := extent(int(i))
			b, _ := extent(int(j))
			return cmp.Compare(a, b)
		})
	}
	far, end := -1, int64(0) // the extent that reaches furthest so far, and its end
	for _, v := range order {
		i := int(v)
		off, length := extent(i)
		if far >= 0 && off < end {
			if o, l := extent(far); o != off || l != length {
				if !report(far, i) {
					return
				}
			}
		}
		if off+length > end {
			far, end = i, off+length
		}
	}
}

// radixSort sorts words by their bits from lo to hi.
func radixSort(a []uint64, lo, hi int) []uint64 {
	const digit = 11
	b := make([]uint64, len(a))
	for ; lo < hi; lo += digit {
		var at [1 << digit]int
		for _, v := range a {
			at[v>>lo&(1<<digit-1)]++
		}
		sum := 0
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, v := range a {
			d := v >> lo & (1<<digit - 1)
			b[at[d]] = v
			at[d]++
		}
		a, b = b, a
	}
	return a
}
