package atomicfile

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Written bytes are read back, and taken back, in any order with writing.
func TestReadAtAndTruncateSeeWhatWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	name := filepath.Join(t.TempDir(), "f")
	for round := range 20 {
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			f.Reserve(3 << 20)
		}
		var want []byte
		for range 40 {
			switch r.IntN(3) {
			case 0:
				p := bytes.Repeat([]byte{byte(r.Uint32())}, r.IntN(600<<10))
				if n, err := f.Write(p); n != len(p) || err != nil {
					t.Fatal(n, err)
				}
				want = append(want, p...)
			case 1:
				size := r.Int64N(int64(len(want))*2 + 1)
				if err := f.Truncate(size); err != nil {
					t.Fatal(err)
				}
				want = want[:min(size, int64(len(want)))]
			case 2:
				off := r.Int64N(int64(len(want)) + 1)
				p := make([]byte, int64(len(want))-off)
				if n, err := f.ReadAt(p, off); n != len(p) || err != nil ||
					!bytes.Equal(p, want[off:]) {
					t.Fatalf("%d of %d bytes at %d: %v", n, len(p), off, err)
				}
				if n, err := f.ReadAt(make([]byte, len(p)+9), off); n != len(p) || err != io.EOF {
					t.Fatalf("%d of %d bytes at %d: %v", n, len(p), off, err)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		hasContent(t, name, want)
		if _, err := f.ReadAt(make([]byte, 1), 0); err != fs.ErrClosed {
			t.Error(err)
		}
		if err := f.Truncate(0); err != fs.ErrClosed {
			t.Error(err)
		}
	}
	if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() {
		t.Error(err)
	}
}
