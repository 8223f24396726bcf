package command

import "strings"

// nearest returns the word of known that is written most like word, "" where none is
// alike.
func nearest(word string, known []string) string {
	best, found := max(1, (len(word)+1)/3)+1, ""
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < best {
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
	const maxNames = 10_000 // that are compared
	for n := range in.names() {
		if known = append(known, n); len(known) == maxNames {
			break
		}
	}
	if s := nearest(name, known); s != "" {
		return wrong(escape(s), "no tensor or blob is named %s", quote(name))
	}
	return wrong(tryNames, "no tensor or blob is named %s", quote(name))
}
