package rten

import (
	"cmp"
	"slices"
)

// A fileRange is a part of the file, and whose it is: the index of a constant,
// or -1.
type fileRange struct {
	off, end int64
	constant int
}

func sortRanges(list []fileRange) {
	slices.SortFunc(list, func(a, b fileRange) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.end, b.end), cmp.Compare(a.constant, b.constant))
	})
}
