package rten

import (
	"cmp"
	"sort"
)

// A fileRange is a part of the file, and whose it is: the index of a constant,
// or -1.
type fileRange struct {
	off, end int64
	constant int
}

func sortRanges(list []fileRange) {
	sort.Slice(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.end, b.end),
			cmp.Compare(a.constant, b.constant)) < 0
	})
}

// overlapping sorts the ranges and groups those that overlap.
func overlapping(list []fileRange) (groups [][]fileRange) {
	sortRanges(list)
	for i := 0; i < len(list); {
		j, end := i+1, list[i].end
		for ; j < len(list) && list[j].off < end; j++ {
			end = max(end, list[j].end)
		}
		groups = append(groups, list[i:j])
		i = j
	}
	return groups
}
