package names

import (
	"fmt"
	"testing"
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

func TestDuplicates(t *testing.T) {
	l := []string{"a", "b", "", "b", "a", ""}
	tab, dup := Build(len(l), func(i int) string { return l[i] })
	if dup != 3 {
		t.Errorf("the first name that comes again is at %d", dup)
	}
	if tab.Lookup("a") != 0 || tab.Lookup("b") != 1 || tab.Lookup("") != 2 {
		t.Error("the first of a name must be found")
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	l := list(100)
	tab, _ := Build(len(l), func(i int) string { return l[i] })
	if n := testing.AllocsPerRun(100, func() { tab.Lookup(l[50]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
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
