package primitiv

import (
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// isBelow reports whether a path is below the path of the submodel or parameter at.
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
		return errs.New(tensor.ErrDuplicate, "two parameters %s", quotePath(a))
	case isBelow(b, a):
		return errs.New(tensor.ErrDuplicate, "%s is below the parameter %s", quotePath(b),
			quotePath(a))
	}
	return nil
}

// owners returns for each name the index of the name that it extends by a colon and more,
// as a statistic's does its value's, or -1. Among several the longest counts that extends
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

// comparePath orders paths as the reference does: by their names, one after the other.
func comparePath(a, b []string) int { return slices.CompareFunc(a, b, strings.Compare) }
