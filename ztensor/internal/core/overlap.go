package core

import (
	"cmp"
	"iter"
	"slices"
)

// An Extent is where bytes lie in a file.
type Extent struct{ Off, Length int64 }

func (e Extent) compare(o Extent) int {
	return cmp.Or(cmp.Compare(e.Off, o.Off), cmp.Compare(e.Length, o.Length))
}

// Disjoint reports whether no two of the extents share a byte. It may answer
// false where they are the same, or not where a writer would put them: that is
// for overlaps to tell. It is made for files of many tensors: an extent is one
// word, of the blocks of 64 bytes that it begins at and takes.
func Disjoint(n int, extents iter.Seq[Extent]) bool {
	const block, most = 64, 1<<32 - 1
	words := make([]uint64, 0, n)
	for e := range extents {
		first, blocks := e.Off/block, (e.Length+block-1)/block
		if e.Off%block != 0 || first > most || blocks > most {
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

// Overlaps calls report with two indices whose extents share some of their
// bytes but are not the same, each second index at most once, until report
// answers false.
func Overlaps(all []Extent, report func(i, j int) bool) {
	order := make([]int, 0, len(all))
	for i, e := range all {
		if e.Length > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(all[i].Off, all[j].Off) })
	far := -1 // the one that reaches furthest so far
	for _, i := range order {
		e := all[i]
		if far >= 0 && e.Off < all[far].Off+all[far].Length && e != all[far] && !report(far, i) {
			return
		}
		if far < 0 || e.Off+e.Length > all[far].Off+all[far].Length {
			far = i
		}
	}
}
