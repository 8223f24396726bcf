package core

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Part is a dense tensor that comes piece by piece.
type Part struct {
	Feed   Feed
	Finish func() error // completes the tensor

	w    *Writer
	t    *tensor.Tensor
	done bool
}

// Create begins a dense tensor that comes piece by piece.
func (w *Writer) Create(name string, dtype tensor.DType, shape tensor.Shape) (io.WriteCloser,
	error) {
	n, ok := shape.Elements()
	size, fits := dtype.Bytes(n)
	if !ok || !fits {
		return nil, fmt.Errorf("ztensor: %w: tensor %s: %v of %v", tensor.ErrMalformed,
			quote.Name(name), shape, dtype)
	}
	t := &tensor.Tensor{Name: name, DType: dtype, Shape: shape, Data: tensor.BlobFunc(size, nil)}
	if err := w.Check(t); err != nil {
		return nil, err
	}
	p, err := w.Layout.Create(w, t)
	if err != nil {
		return nil, err
	}
	p.w, p.t = w, t
	p.Feed.Begin(size)
	w.part = p
	return p, nil
}

func (p *Part) Write(b []byte) (int, error) {
	switch want := p.t.Data.Size(); {
	case p.done:
		return 0, fmt.Errorf("ztensor: tensor %s: %w", quote.Name(p.t.Name), fs.ErrClosed)
	case p.w.Err != nil:
		return 0, p.w.Err
	case int64(len(b)) > want-p.Feed.N:
		return 0, p.w.Broken(p.t, "data", fmt.Errorf("%w: more than the %d bytes of %v of %v",
			tensor.ErrMalformed, want, p.t.Shape, p.t.DType))
	}
	for n := 0; n < len(b); {
		k := min(len(b)-n, PieceSize)
		if _, err := p.Feed.Write(b[n : n+k]); err != nil {
			return n, p.w.Broken(p.t, "data", err)
		}
		n += k
	}
	return len(b), nil
}

// Close enters the tensor.
func (p *Part) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	p.w.part = nil
	if p.w.Err != nil {
		return p.w.Err
	}
	var err error
	if want := p.t.Data.Size(); p.Feed.N != want {
		err = fmt.Errorf("%w: %d bytes of %d", io.ErrUnexpectedEOF, p.Feed.N, want)
	}
	if err == nil {
		err = p.Feed.end()
	}
	if err == nil {
		err = p.Finish()
	}
	if err != nil {
		return p.w.Broken(p.t, "data", err)
	}
	return nil
}
