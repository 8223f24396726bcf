package rten

import (
	"errors"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestGiantsAreNotRead(t *testing.T) {
	// A sparse giant: 8 TiB of zeros are refused by their first bytes.
	c := readtest.Count(readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		return len(p), nil
	}))
	for _, size := range []int64{1 << 20, 1<<31 - 1, 1 << 31, 1 << 43} {
		if _, err := NewReader(c, size, nil); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%d zeros: %v", size, err)
		}
	}
	if c.Bytes() > 1<<20 {
		t.Errorf("%d bytes were read", c.Bytes())
	}
	// A model of 8 TiB behind a header is refused by its size.
	h := Header{32, 1<<43 - 32, 32}.append(nil)
	giant := readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		if off < 32 {
			copy(p, h[off:])
		}
		return len(p), nil
	})
	if _, err := NewReader(giant, 1<<43, nil); !errors.Is(err, tensor.ErrLimit) {
		t.Errorf("a model of 8 TiB: %v", err)
	}
}
