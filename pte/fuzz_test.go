package pte

import (
	"strings"
	"testing"
)

func seeds(f *testing.F) {
	for _, name := range append([]string{"export-1.5.1-cond.pte", "export-1.5.1-external.pte", "export-1.5.1-strings.pte", "export-1.5.1-stack-traces.pte", "generation-0.7.0-mutable-state.pte"}, goldens...) {
		f.Add(base(f, name))
	}
	for _, h := range hostiles {
		f.Add(h.make(f))
	}
	f.Add(amplified(50))
}

// FuzzOpen opens and walks everything.
func FuzzOpen(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, strict := range []bool{false, true} {
			r, err := OpenBytes(b, &ReaderOptions{Strict: strict})
			if err != nil {
				continue
			}
			if shown := walkAll(t, r); shown > shownLimit(b) {
				t.Errorf("%d bytes show %d", len(b), shown)
			}
		}
	})
}

// FuzzRewrite writes what it opened in every way, and opens that.
func FuzzRewrite(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := OpenBytes(b, nil); err == nil {
			writeAll(t, r)
		}
	})
}

// FuzzStructure parses argument structures.
func FuzzStructure(f *testing.F) {
	for _, s := range []string{"T2#2#0(T2#1#1($,$),D0())", "D1#1('x':$)", `[1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		paths, _ := LeafPaths(s)
		if n := len(strings.Join(paths, "")); n > 64*len(s)+1<<16 {
			t.Errorf("%d bytes of paths from %d", n, len(s))
		}
	})
}
