package ptd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
)

// Every exported accessor is safe for concurrent use, also of values used after the
// loop that yielded them. The race detector reports a race.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	called := map[string]bool{}
	for name, data := range goldens(t) {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ptd.Open(file, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		for m := range readtest.Accessors(t, r, "linear.weight", "row", "a") {
			called[m] = true
		}
		r.Close()
	}
	for _, m := range []string{"*ptd.Reader.Tensors", "*ptd.Reader.Entry", "*ptd.Reader.Segments",
		"*ptd.Reader.Entries", "*tensor.Tensor.Check"} {
		if !called[m] {
			t.Errorf("%s was not called", m)
		}
	}
}
