package ztensor

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

// The race detector looks at this one.
func TestAccessorsAreSafeForConcurrentUse(t *testing.T) {
	names, err := filepath.Glob("../testdata/ztensor/*.zt")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	called := make(map[string]bool)
	for _, name := range names {
		for _, noMap := range []bool{false, true} {
			r, err := Open(name, &ReaderOptions{NoMap: noMap})
			if err != nil {
				continue // those that are not valid have tests of their own
			}
			defer r.Close()
			maps.Copy(called, readtest.Accessors(t, r, "w", "data"))
		}
	}
	for _, method := range []string{"*ztensor.Reader.Tensors", "*ztensor.Reader.AttributeValues",
		"*ztensor.Reader.Spans",
		"*ztensor.Reader.Verify", "tensor.Blob.ReadAll"} {
		if !called[method] {
			t.Errorf("%s was not called: %v", method, called)
		}
	}
}
