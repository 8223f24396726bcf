package ztensor

import (
	"cmp"
	"iter"
	"slices"
)

// An extent is where bytes lie in a file.
type extent struct{ off, length int64 }

func (e extent) compare(o extent) int {
	return cmp.Or(cmp.Compare(e.off, o.off), cmp.Compare(e.length, o.length))
}

// disjoint reports whether no two of the extents share a byte. It may answer
// false where they are the same, or not where a writer would put them: that is
// for overlaps to tell. It is made for files of many tensors: an extent is one
// word, of the blocks of 64 bytes that it begins at and takes.
func disjoint(n int, extents iter.Seq[extent]) bool {
	const block, most = 64, 1<<32 - 1
	words := make([]uint64, 0, n)
	for e := range extents {
		first, blocks := e.off/block, (e.length+block-1)/block
		if e.off%block != 0 || first > most || blocks > most {
			return false
		}
		if blocks > 0 {
			words = append(words, uint64(first)<<32|uint64(blocks))
		}
	}
	slices.Sort(words)
	end := uint64(0)
	for _, w := range words {
		if w>>32 < end {
			return false
		}
		end = w>>32 + w&most
	}
	return true
}

// overlaps calls report with two indices whose extents share some of their
// bytes but are not the same, each second index at most once, until report
// answers false.
func overlaps(all []extent, report func(i, j int) bool) {
	order := make([]int, 0, len(all))
	for i, e := range all {
		if e.length > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(all[i].off, all[j].off) })
	far := -1 // the one that reaches furthest so far
	for _, i := range order {
		e := all[i]
		if far >= 0 && e.off < all[far].off+all[far].length && e != all[far] && !report(far, i) {
			return
		}
		if far < 0 || e.off+e.length > all[far].off+all[far].length {
			far = i
		}
	}
}
