package atomicfile

import (
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

func TestSmallWritesTakeLittleMemory(t *testing.T) {
	readtest.Measure(t)
	f, err := Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	p := make([]byte, 1000)
	if got := readtest.Allocated(func() {
		for range 20_000 {
			f.Write(p)
		}
	}); got > 8<<20 { // a buffer of 1 MiB, and those that it outgrew
		t.Errorf("%d bytes allocated for 20 MB", got)
	}
}
