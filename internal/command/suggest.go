package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
)

// sortedKeys lists the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// unknownWord is the error of a word that is not one of some, with the nearest of them.
func unknownWord(flag, what, word string, known []string) error {
	list := strings.Join(known, ", ")
	if s := nearest(word, known); s != "" {
		return fmt.Errorf("%s: no %s is named %q; did you mean %s? (%s)", flag, what, word, s, list)
	}
	return fmt.Errorf("%s: no %s is named %q: %s", flag, what, word, list)
}

// nearest returns the word of known that is written most like word, "" where none is
// alike.
func nearest(word string, known []string) string {
	best, found := 1+len(word)/3, ""
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < best || d == best && found == "" {
			best, found = d, k
		}
	}
	return found
}

// distance is how many letters are inserted, removed, changed or swapped (restricted
// Damerau-Levenshtein).
func distance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// noTensor is the error of a name that a file does not have, with the nearest one.
func noTensor(in *input, name string) error {
	var known []string
	const most = 10_000 // names that are compared
	for n := range in.names() {
		if known = append(known, n); len(known) == most {
			break
		}
	}
	if s := nearest(name, known); s != "" {
		return wrong(escape(s), "no tensor or blob is named %s", quote(name))
	}
	return wrong(tryNames, "no tensor or blob is named %s", quote(name))
}

// parseFormat takes the names of formats, those that people know them by, and their
// extensions.
func parseFormat(flag, name string) (tensorfile.Format, error) {
	switch strings.ToLower(name) {
	case "st", "safetensor":
		name = "safetensors"
	case "zt2":
		name = "ztensor"
	case "numpy":
		name = "npy"
	case "executorch":
		name = "pte"
	}
	if f, err := tensorfile.ParseFormat(strings.ToLower(name)); err == nil {
		return f, nil
	}
	if f := tensorfile.ByName("x." + name); f != 0 {
		return f, nil
	}
	var known []string
	for _, f := range tensorfile.Formats() {
		known = append(known, f.String())
	}
	return 0, unknownWord(flag, "format", name, known)
}
