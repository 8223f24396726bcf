package primitiv

import (
	"math/rand/v2"
	"slices"
	"testing"
)

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

func TestOwnersOfStatisticsFollowTheDefinition(t *testing.T) {
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
			same := got[i] == want[i] || got[i] >= 0 && want[i] >= 0 &&
				names[got[i]] == names[want[i]]
			if !same {
				t.Fatalf("%q, fixed %d: %q is owned by %d, want %d", names, fixed, names[i],
					got[i], want[i])
			}
		}
	}
}
