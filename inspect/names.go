package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// CutNumbers splits a name at its numbers, such as numbers of layers. texts has one
// element more than numbers. Digits with a leading zero, or more than nine, are text.
func CutNumbers(name string) (texts []string, numbers []int64) {
	start := 0
	for i := 0; i < len(name); {
		j := i
		for j < len(name) && name[j] >= '0' && name[j] <= '9' {
			j++
		}

		if j == i || j-i > 9 || (name[i] == '0' && j-i > 1) {
			i = max(j, i+1)
			continue
		}
		n := int64(0)
		for _, c := range name[i:j] {
			n = 10*n + int64(c-'0')
		}
		texts = append(texts, name[start:i])
		numbers = append(numbers, n)
		start, i = j, j
	}
	return append(texts, name[start:]), numbers
}

// JoinNumbers joins names that differ only in their numbers to one name with ranges:
// {0-31}, or {3-31/4} with steps of 4. all has the numbers of each name; texts is from
// CutNumbers.
func JoinNumbers(texts []string, all [][]int64) string {
	var b strings.Builder
	for i, text := range texts {
		b.WriteString(text)
		if i == len(texts)-1 {
			break
		}
		values := make([]int64, len(all))
		for j := range all {
			values[j] = all[j][i]
		}
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) == 1 {
			fmt.Fprint(&b, values[0])
			continue
		}
		b.WriteByte('{')
		for j := 0; j < len(values); {
			k, step := j, int64(1)
			if j+2 < len(values) && values[j+2]-values[j+1] == values[j+1]-values[j] {
				step = values[j+1] - values[j]
			}
			for k+1 < len(values) && values[k+1] == values[k]+step {
				k++
			}
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, values[j])
			if k > j {
				fmt.Fprintf(&b, "-%d", values[k])
			}
			if step > 1 {
				fmt.Fprintf(&b, "/%d", step)
			}
			j = k + 1
		}
		b.WriteByte('}')
	}
	return b.String()
}

// CompareNames orders names as people do: layer 9 before layer 10.
func CompareNames(a, b string) int {
	pa, na := CutNumbers(a)
	pb, nb := CutNumbers(b)
	for i := range min(len(pa), len(pb)) {
		if c := cmp.Compare(pa[i], pb[i]); c != 0 {
			return c
		}
		if i < len(na) && i < len(nb) {
			if c := cmp.Compare(na[i], nb[i]); c != 0 {
				return c
			}
		}
	}
	return cmp.Or(cmp.Compare(len(pa), len(pb)), cmp.Compare(a, b))
}
