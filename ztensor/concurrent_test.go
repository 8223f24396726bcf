package ztensor

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// The race detector looks at this one.
func TestConcurrentAccessors(t *testing.T) {
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
			var blobs []tensor.Blob
			for x := range r.Tensors() {
				blobs = append(blobs, x.Data)
				for _, p := range x.Parts {
					blobs = append(blobs, p.Data)
				}
			}
			maps.Copy(called, readtest.Accessors(t, blobs))
		}
	}
	for _, method := range []string{"*ztensor.Reader.Tensors", "*ztensor.Reader.AttributeValues", "*ztensor.Reader.Spans",
		"*ztensor.Reader.Verify", "tensor.Blob.ReadAll"} {
		if !called[method] {
			t.Errorf("%s was not called: %v", method, called)
		}
	}
}
