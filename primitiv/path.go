package primitiv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// isBelow reports whether a path is below that of the submodel or parameter at.
func isBelow(path, at []string) bool {
	return len(path) > len(at) && slices.Equal(path[:len(at)], at)
}

// quotePath writes a path like ["enc" "w"], cut off where it is long.
func quotePath(path []string) string {
	const maxQuoted = 8
	var names []string
	for _, e := range path[:min(len(path), maxQuoted)] {
		names = append(names, naming.Quote(e))
	}
	if len(path) > maxQuoted {
		names = append(names, "…")
	}
	return "[" + strings.Join(names, " ") + "]"
}

// clash reports why two paths, the first not after the second, cannot be in one model.
func clash(a, b []string) error {
	switch {
	case slices.Equal(a, b):
		return fmt.Errorf("%s: two parameters %s: %w", formatName, quotePath(a),
			tensor.ErrDuplicate)
	case isBelow(b, a):
		return fmt.Errorf("%s: %s is below the parameter %s: %w", formatName,
			quotePath(b), quotePath(a), tensor.ErrDuplicate)
	}
	return nil
}

// owners returns for each name the index of the name that it extends by a colon and more,
// as a statistic's does its value's, or -1. Of several the longest counts that extends
// none itself. The first fixed names are values in any case.
func owners(names []string, fixed int) []int {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(names[a], names[b]) })
	owner := make([]int, len(names))
	var values []int // whose names begin the current one, from the shortest
	for _, i := range order {
		name := names[i]
		for len(values) > 0 && !strings.HasPrefix(name, names[values[len(values)-1]]) {
			values = values[:len(values)-1]
		}
		owner[i] = -1
		for _, v := range slices.Backward(values) {
			if n := len(names[v]); i >= fixed && n < len(name) && name[n] == ':' {
				owner[i] = v
				break
			}
		}
		if owner[i] < 0 {
			values = append(values, i)
		}
	}
	return owner
}

// comparePaths finds duplicate paths and those below another one, among parameters in any
// order.
func (p *parser) comparePaths() error {
	var values []*entry
	for _, e := range p.r.entries {
		if !e.IsStatistic {
			values = append(values, e)
		}
	}
	slices.SortStableFunc(values, func(a, b *entry) int { return comparePath(a.Path, b.Path) })
	for i := 1; i < len(values); i++ {
		a, b := values[i-1], values[i]
		p.where = where{name: []byte(b.tensor.Name), value: len(b.tensor.Name)}
		var err error
		switch {
		case slices.Equal(a.Path, b.Path):
			err = p.duplicate(b.start, "a second parameter of that path")
		case isBelow(b.Path, a.Path):
			err = p.r.warnings.Add(p.fail(tensor.ErrMalformed, b.start, "path",
				"it is below the parameter %s: no model has both", naming.Quote(a.tensor.Name)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeated returns the first name of a list that was there before.
func repeated[T any](list []T, name func(x *T) string) (string, bool) {
	seen := make(map[string]bool, len(list))
	for i := range list {
		s := name(&list[i])
		if seen[s] {
			return s, true
		}
		seen[s] = true
	}
	return "", false
}

// comparePath orders paths as the reference does: by their names, one after the other.
func comparePath(a, b []string) int { return slices.CompareFunc(a, b, strings.Compare) }
