package command

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Whatever writes a NumPy file writes the bytes of numpy.save.
func TestNumPyFilesAreThoseOfNumPy(t *testing.T) {
	files, err := filepath.Glob("../../testdata/npy/le-*.npy")
	if err != nil || len(files) < 14 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var cat bytes.Buffer
		if status := run(t.Context(), []string{"cat", "--npy", name, "data"}, nil, &cat,
			io.Discard, os.Getenv); status != 0 {
			t.Errorf("%s: cat: status %d", name, status)
		}
		dir := t.TempDir()
		if status := run(t.Context(), []string{"extract", name, "-o", dir}, nil, io.Discard,
			io.Discard, os.Getenv); status != 0 {
			t.Errorf("%s: extract: status %d", name, status)
		}
		extracted, err := os.ReadFile(filepath.Join(dir, "data.npy"))
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(cat.Bytes(), want) || !bytes.Equal(extracted, want) {
			t.Errorf("%s: cat writes %d bytes, extract %d, numpy %d", name, cat.Len(),
				len(extracted), len(want))
		}
	}
}
