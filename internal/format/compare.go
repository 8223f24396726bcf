package format

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Comparer compares the bytes that are written to it with the bytes of R.
type Comparer struct {
	R       io.Reader
	Same    int64 // equal bytes so far
	Differs bool  // the byte after them differs, or R has ended
	buf     []byte
}

var errDiffers = errors.New("other bytes")

// Write fails at the first byte that differs, and if reading R fails.
func (c *Comparer) Write(p []byte) (n int, err error) {
	if c.buf == nil {
		c.buf = make([]byte, 64<<10)
	}
	for n < len(p) {
		piece := p[n:min(len(p), n+len(c.buf))]
		k, err := source.ReadPiece(c.R, c.buf[:len(piece)])
		if err != nil && err != io.EOF {
			return n, err
		}
		same := len(piece)
		if !bytes.Equal(c.buf[:k], piece) {
			for same = 0; same < k && c.buf[same] == piece[same]; same++ {
			}
			c.Differs = true
		}
		n += same
		if c.Same += int64(same); c.Differs {
			return n, errDiffers
		}
	}
	return n, nil
}

// SameBytes reports whether two blobs have the same bytes. It reads both up to the first
// difference.
func SameBytes(ctx context.Context, a, b tensor.Blob) (bool, error) {
	if a.Size() != b.Size() {
		return false, nil
	}
	r, err := b.Open()
	if err != nil {
		return false, err
	}
	defer r.Close()
	c := Comparer{R: r}
	_, err = a.WriteTo(Until(ctx, &c))
	if c.Differs {
		return false, nil
	}
	return err == nil, err
}
