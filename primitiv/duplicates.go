package primitiv

import (
	"slices"

	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// comparePaths finds duplicate paths and those below another one, among parameters in any
// order.
func (p *parser) comparePaths() error {
	var values []*entry
	for _, e := range p.r.entries {
		if !e.isStat {
			values = append(values, e)
		}
	}
	slices.SortStableFunc(values, func(a, b *entry) int { return slices.Compare(a.path, b.path) })
	removed := map[*entry]bool{}
	for i := 1; i < len(values); i++ {
		a, b := values[i-1], values[i]
		p.where = where{value: b}
		var err error
		switch {
		case slices.Equal(a.path, b.path): // the reference keeps the last
			err = p.duplicate(b.start, "a second parameter of that path")
			removed[a] = true
		case isBelow(b.path, a.path):
			err = p.r.warnings.Add(p.fail(tensor.ErrMalformed, b.start, "path",
				"it is below the parameter %s: no model has both", quote.Name(a.tensor.Name)))
		}
		if err != nil {
			return err
		}
	}
	if len(removed) > 0 {
		remove := false
		p.r.entries = slices.DeleteFunc(p.r.entries, func(e *entry) bool {
			if !e.isStat {
				remove = removed[e]
			}
			return remove
		})
	}
	return nil
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
