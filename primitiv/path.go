package primitiv

import (
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/quote"
)

// A path has a key: one string that no other path has, and keys compare as paths do,
// element by element. That of a path begins those of the paths below it, see below.
const (
	keySeparator = "\x00\x01"
	keyNUL       = "\x00\x02" // a NUL in an element
)

// pathKey returns the key of a path.
func pathKey(path []string) string {
	if len(path) == 1 {
		return keyElement(path[0])
	}
	escaped := path
	for i, e := range path {
		if k := keyElement(e); len(k) != len(e) {
			if &escaped[0] == &path[0] {
				escaped = slices.Clone(path)
			}
			escaped[i] = k
		}
	}
	return strings.Join(escaped, keySeparator)
}

func keyElement(e string) string {
	if strings.IndexByte(e, 0) < 0 {
		return e
	}
	return strings.ReplaceAll(e, "\x00", keyNUL)
}

// nameKey returns the key of the path that a name makes when it is cut at dots.
func nameKey(name string) string { return strings.ReplaceAll(keyElement(name), ".", keySeparator) }

// keyPath returns the path of a key. No path without elements has one.
func keyPath(key string) []string {
	path := strings.Split(key, keySeparator)
	for i, e := range path {
		path[i] = strings.ReplaceAll(e, keyNUL, "\x00")
	}
	return path
}

// keyBelow reports whether the path of key is below that of at, which is not equal to
// it.
func keyBelow(key, at string) bool {
	return len(key) > len(at) && key[:len(at)] == at && strings.HasPrefix(key[len(at):], keySeparator)
}

// below reports whether path is that of the submodel or parameter at, or is below it.
func below(path, at []string) bool {
	return len(path) >= len(at) && slices.Equal(path[:len(at)], at)
}

// quotePath writes a path like ["enc" "w"], cut off where it is long.
func quotePath(path []string) string {
	const maxQuoted = 8
	var b strings.Builder
	for i, e := range path {
		if i == maxQuoted {
			b.WriteString(" …")
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote.Name(e))
	}
	return "[" + b.String() + "]"
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

// keyName returns the path of a key joined with dots.
func keyName(key string) string {
	if strings.IndexByte(key, 0) < 0 {
		return key
	}
	return strings.Join(keyPath(key), ".")
}
