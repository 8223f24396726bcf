package primitiv

import (
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
)

// comparePaths finds duplicate paths and those below another one, among parameters in any
// order. Where the file has them in the order of the reference, model compared
// neighbours.
func (p *parser) comparePaths() error {
	path := func(rec uint32) []string { return p.r.pathOf(&p.r.records[rec]) }
	slices.SortStableFunc(p.r.byPath,
		func(a, b uint32) int { return slices.Compare(path(a), path(b)) })
	var drop []int // indexes in byPath
	for i := 1; i < len(p.r.byPath); i++ {
		a, b := path(p.r.byPath[i-1]), path(p.r.byPath[i])
		start := p.r.records[p.r.byPath[i]].start
		p.where = where{parameter: int64(i), path: b}
		var err error
		switch {
		case slices.Equal(a, b): // the reference keeps the last
			err = p.duplicate(start, "a second parameter of that path")
			drop = append(drop, i-1)
		case isBelow(b, a):
			err = p.r.warnings.Add(p.malformed(start, "path",
				"it is below the parameter %s: no model has both",
				quote.Name(strings.Join(a, "."))))
		}
		if err != nil {
			return err
		}
	}
	if len(drop) > 0 {
		p.dropParameters(drop)
	}
	return nil
}

// dropParameters removes parameters, of which drop has the indexes in byPath, with their
// statistics.
func (p *parser) dropParameters(drop []int) {
	gone := make(map[int]bool, len(drop))
	for _, i := range drop {
		gone[int(p.r.byPath[i])] = true
	}
	p.r.byPath = without(p.r.byPath, drop)
	place := make([]uint32, len(p.r.records)) // where a record goes
	kept, removed := p.r.records[:0], false
	for i, rec := range p.r.records {
		if !rec.isStat {
			removed = gone[i]
		}
		if !removed {
			place[i] = uint32(len(kept))
			kept = append(kept, rec)
		}
	}
	p.r.records = kept
	for i, rec := range p.r.byPath {
		p.r.byPath[i] = place[rec]
	}
}

// repeated returns the indexes of names that were there before, in ascending order.
func repeated(n int, name func(i int) string) (again []int) {
	if n < 2 {
		return nil
	}
	table, dup := names.Build(n, name)
	if dup < 0 {
		return nil
	}
	for i := dup; i < n; i++ {
		if table.Lookup(name(i)) != i {
			again = append(again, i)
		}
	}
	return again
}

// without removes the entries at the indexes drop, which is ascending.
func without[T any](s []T, drop []int) []T {
	i := -1
	return slices.DeleteFunc(s, func(T) bool {
		i++
		if len(drop) == 0 || drop[0] != i {
			return false
		}
		drop = drop[1:]
		return true
	})
}
