package naming

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

func list(n int) []string {
	l := make([]string, n)
	for i := range l {
		l[i] = fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i)
	}
	return l
}

func TestEveryNameIsFound(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 5, 1000} {
		l := list(n)
		tab, dup := Build(n, func(i int) string { return l[i] })
		if dup != -1 {
			t.Fatalf("%d names: %d is no duplicate", n, dup)
		}
		for i, s := range l {
			if got := tab.Lookup(s); got != i {
				t.Fatalf("%d names: %q found at %d, not %d", n, s, got, i)
			}
		}
		for _, s := range []string{"", "model", "model.layers.1000000"} {
			if got := tab.Lookup(s); got != -1 {
				t.Fatalf("%q found at %d", s, got)
			}
		}
	}
}

// With as many names as take all bits of an index there is one bit less for the hash;
// the hash of the last index is all ones.
func TestIndicesAndHashesShareASlot(t *testing.T) {
	for _, n := range []int{1<<10 - 1, 1 << 10, 1<<16 - 1} {
		l := list(n)
		tab, dup := Build(n, func(i int) string { return l[i] })
		for i := range l {
			if got := tab.Lookup(l[i]); got != i || dup >= 0 {
				t.Fatalf("%d names: %d found at %d, a duplicate at %d", n, i, got, dup)
			}
		}
		if got := tab.Lookup("none"); got != -1 {
			t.Errorf("%d names: what is not there, at %d", n, got)
		}
	}
}

// Formats with a budget for their index reckon with this size.
func TestEachIsWhatANameTakes(t *testing.T) {
	const n = 100_000
	l := list(n)
	tab, _ := Build(n, func(i int) string { return l[i] })
	if got := 4 * cap(tab.slots); got > Each*n+16<<10 {
		t.Errorf("%d bytes for %d names", got, n)
	}
}

func TestDuplicatesKeepTheFirstPlace(t *testing.T) {
	l := []string{"a", "b", "", "b", "a", ""}
	tab, dup := Build(len(l), func(i int) string { return l[i] })
	if dup != 3 {
		t.Errorf("the first name that comes again is at %d", dup)
	}
	if tab.Lookup("a") != 0 || tab.Lookup("b") != 1 || tab.Lookup("") != 2 {
		t.Error("the first of a name must be found")
	}
}

// Names that collide under the hashes that parsers like to use are as good as any. Only
// names of whose hash a slot's share agrees are asked of the list, so that the
// questions tell how many did.
func TestNamesThatCollideElsewhereAreSpread(t *testing.T) {
	const bits = 14
	// of equal sums and, for "Aa" and "BB", equal polynomials of 31
	twins := func(a, b string) []string {
		l := make([]string, 1<<bits)
		for i := range l {
			for k := range bits {
				l[i] += [...]string{a, b}[i>>k&1]
			}
		}
		return l
	}
	numbered := func(format string) []string {
		l := make([]string, 1<<bits)
		for i := range l {
			l[i] = fmt.Sprintf(format, i)
		}
		return l
	}
	for what, l := range map[string][]string{
		"polynomials of 31": twins("Aa", "BB"),
		"anagrams":          twins("ab", "ba"),
		"a long beginning":  numbered(strings.Repeat("x", 4000) + "%06d"),
		"a long end":        numbered("%06d" + strings.Repeat("x", 4000)),
		"zeros":             numbered("%0200d"),
	} {
		asked := 0
		tab, dup := Build(len(l), func(i int) string { asked++; return l[i] })
		if dup >= 0 {
			t.Fatalf("%s: %d is no duplicate", what, dup)
		}
		if repeated := asked - len(l); repeated > 10 {
			t.Errorf("%s: asked for %d names twice", what, repeated)
		}
		longest, run := 0, 0
		for _, s := range tab.slots {
			if run++; s == 0 {
				run = 0
			}
			longest = max(longest, run)
		}
		if longest > 200 { // some tens, of 16,384
			t.Errorf("%s: %d slots in a row are taken", what, longest)
		}
	}
	l := list(1000)
	name := func(i int) string { return l[i] }
	a, _ := Build(len(l), name)
	b, _ := Build(len(l), name)
	if slices.Equal(a.slots, b.slots) {
		t.Error("two tables put names into the same places: whoever knows one knows all")
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	l := list(100)
	tab, _ := Build(len(l), func(i int) string { return l[i] })
	readtest.AllocatesNothing(t, func() { tab.Lookup(l[50]) })
}

func BenchmarkBuild(b *testing.B) {
	l := list(100_000)
	b.ReportAllocs()
	for b.Loop() {
		Build(len(l), func(i int) string { return l[i] })
	}
}

func BenchmarkLookup(b *testing.B) {
	l := list(100_000)
	tab, _ := Build(len(l), func(i int) string { return l[i] })
	i := 0
	for b.Loop() {
		tab.Lookup(l[i])
		i = (i + 7919) % len(l)
	}
}
