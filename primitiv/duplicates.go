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
	records := p.r.records
	slices.SortStableFunc(p.r.byPath, func(a, b uint32) int { return strings.Compare(records[a].name, records[b].name) })
	var drop []int // indexes in byPath
	for i := 1; i < len(p.r.byPath); i++ {
		a, b := &records[p.r.byPath[i-1]], &records[p.r.byPath[i]]
		p.where = where{parameter: int64(i), named: true, key: b.name}
		var err error
		switch {
		case a.name == b.name: // the reference keeps the last
			err = p.duplicate(b.start, "a second parameter of that path")
			drop = append(drop, i-1)
		case keyBelow(b.name, a.name):
			err = p.r.warnings.Add(p.malformed(b.start, "path",
				"it is below the parameter %s: no model has both", quote.Name(keyName(a.name))))
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
	gone := make([]bool, len(p.r.records))
	for _, i := range drop {
		gone[p.r.byPath[i]] = true
	}
	p.r.byPath = without(p.r.byPath, drop)
	place := make([]uint32, len(p.r.records)) // where a record goes
	kept := p.r.records[:0]
	for i, rec := range p.r.records {
		if gone[rec.value] {
			continue
		}
		place[i] = uint32(len(kept))
		rec.value = place[rec.value]
		kept = append(kept, rec)
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
