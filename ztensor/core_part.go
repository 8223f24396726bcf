package ztensor

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// A part is a tensor that Create began.
type part struct {
	w      *writer
	t      *tensor.Tensor
	feed   feed
	want   int64
	done   bool
	finish func() error // enters it
}

func (p *part) Write(b []byte) (int, error) {
	switch {
	case p.done:
		return 0, fmt.Errorf("ztensor: tensor %s: %w", quote.Name(p.t.Name), fs.ErrClosed)
	case p.w.err != nil:
		return 0, p.w.err
	case int64(len(b)) > p.want-p.feed.n:
		return 0, p.w.broken(p.t, "data", fmt.Errorf("%w: more than the %d bytes of %v of %v", tensor.ErrMalformed, p.want, p.t.Shape, p.t.DType))
	}
	for n := 0; n < len(b); {
		k := min(len(b)-n, pieceSize)
		if _, err := p.feed.Write(b[n : n+k]); err != nil {
			return n, p.w.broken(p.t, "data", err)
		}
		n += k
	}
	return len(b), nil
}

func (p *part) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	p.w.part = nil
	if p.w.err != nil {
		return p.w.err
	}
	if p.feed.n != p.want {
		return p.w.broken(p.t, "data", fmt.Errorf("%w: %d bytes of %d", io.ErrUnexpectedEOF, p.feed.n, p.want))
	}
	err := p.feed.end()
	if err == nil {
		err = p.finish()
	}
	if err != nil {
		return p.w.broken(p.t, "data", err)
	}
	return nil
}

// Create begins a dense tensor that comes piece by piece.
func (w *writer) Create(name string, dtype tensor.DType, shape tensor.Shape) (io.WriteCloser, error) {
	n, ok := shape.Elements()
	size, fits := dtype.Bytes(n)
	if !ok || !fits {
		return nil, fmt.Errorf("ztensor: %w: tensor %s: %v of %v", tensor.ErrMalformed, quote.Name(name), shape, dtype)
	}
	if err := w.usable(); err != nil {
		return nil, err
	}
	t := &tensor.Tensor{Name: name, DType: dtype, Shape: shape, Data: tensor.BlobFunc(size, nil)}
	if err := w.check(t); err != nil {
		return nil, err
	}
	return w.layout.create(w, t, size)
}
