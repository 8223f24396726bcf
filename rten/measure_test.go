package rten

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestTimeGrowsWithTheFile(t *testing.T) {
	readtest.Measure(t)
	open := func(n int) time.Duration {
		data := manyConstants(t, n)
		best := time.Hour
		for range 3 {
			start := time.Now()
			r := openBytes(t, data)
			for range r.Tensors() {
			}
			r.Tensor("no such tensor")
			if _, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Depth: tensor.VerifyStructure}); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	if small, large := open(3_000), open(30_000); large > 30*small {
		t.Errorf("3,000 constants take %v, 30,000 %v", small, large)
	}
}

func TestOpenTakesLittleMemory(t *testing.T) {
	readtest.Measure(t)
	// As many constants as a file can hold, sharing all they can.
	var b raw
	c := b.inline("c", 1)
	list := make([]fb.Offset, 10_000)
	for i := range list {
		list[i] = c
		if i%2 == 0 { // two visits for each 4 bytes are too many
			list[i] = b.inline(fmt.Sprint(i), 1)
		}
	}
	shared := b.model(b.graph(list, nil, nil, nil), 1)
	for name, data := range map[string][]byte{"genuine": manyConstants(t, 10_000),
		"shared": shared} {
		metadata := int64(len(data))
		if h, err := parseHeader(data, int64(len(data))); err == nil && string(data[:4]) == magic {
			metadata = h.ModelSize
		}
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		for from, open := range map[string]func() (*Reader, error){
			"bytes":    func() (*Reader, error) { return OpenBytes(data, nil) },
			"mapped":   func() (*Reader, error) { return Open(path, nil) },
			"unmapped": func() (*Reader, error) { return Open(path, &ReaderOptions{NoMap: true}) },
			"reader": func() (*Reader, error) {
				return NewReader(bytes.NewReader(data), int64(len(data)), nil)
			},
		} {
			peak := readtest.PeakHeap(func() {
				r, err := open()
				if err != nil {
					t.Error(err)
					return
				}
				for range r.Tensors() {
				}
				r.Close()
			})
			if peak > 1<<20+4*metadata {
				t.Errorf("%s from %s: %d bytes of heap for %d of metadata", name, from, peak,
					metadata)
			}
		}
	}
}
