package primitiv

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestPathKeysCompareAsPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	elements := []string{"", "a", "b", "\x00", "\x00\x01", "\x00\x02", "a\x00", "a.", "\x01", "\x02", "\xff", "a\x00\x01b"}
	path := func() []string {
		p := make([]string, 1+r.IntN(3))
		for i := range p {
			p[i] = elements[r.IntN(len(elements))]
		}
		return p
	}
	for range 20_000 {
		a, b := path(), path()
		x, y := pathKey(a), pathKey(b)
		if strings.Compare(x, y) != slices.Compare(a, b) {
			t.Fatalf("%q and %q have keys %q and %q", a, b, x, y)
		}
		if keyBelow(y, x) != (below(b, a) && len(b) > len(a)) {
			t.Fatalf("%q below %q: %v", b, a, keyBelow(y, x))
		}
		if !slices.Equal(keyPath(x), a) {
			t.Fatalf("%q comes back as %q", a, keyPath(x))
		}
	}
	for _, name := range []string{"", ".", "a.b", "a\x00.b", "..a"} {
		if k := nameKey(name); k != pathKey(strings.Split(name, ".")) {
			t.Errorf("%q has key %q", name, k)
		}
	}
}

// ownersByDefinition is what owners does, name by name: values first, from the shortest.
func ownersByDefinition(names []string, fixed int) []int {
	order := make([]int, len(names))
	owner := make([]int, len(names))
	for i := range order {
		order[i], owner[i] = i, -1
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(names[a]) - len(names[b]) })
	for _, i := range order {
		if i < fixed {
			continue
		}
		for _, v := range order {
			n := len(names[v])
			isValue := v < fixed || owner[v] < 0
			if isValue && n < len(names[i]) && names[i][:n] == names[v] && names[i][n] == ':' &&
				(owner[i] < 0 || n > len(names[owner[i]])) {
				owner[i] = v
			}
		}
	}
	return owner
}

func TestOwnersOfStatistics(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		names := make([]string, r.IntN(12))
		for i := range names {
			b := make([]byte, r.IntN(6))
			for j := range b {
				b[j] = ":ab"[r.IntN(3)]
			}
			names[i] = string(b)
		}
		fixed := r.IntN(len(names) + 1)
		got, want := owners(names, fixed), ownersByDefinition(names, fixed)
		for i := range names {
			same := got[i] == want[i] || got[i] >= 0 && want[i] >= 0 && names[got[i]] == names[want[i]]
			if !same {
				t.Fatalf("%q, fixed %d: %q is owned by %d, want %d", names, fixed, names[i], got[i], want[i])
			}
		}
	}
}
