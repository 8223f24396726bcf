package core

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Part is a tensor that Create began.
type Part struct {
	W      *Writer
	T      *tensor.Tensor
	Feed   Feed
	Want   int64
	done   bool
	Finish func() error // enters it
}

func (p *Part) Write(b []byte) (int, error) {
	switch {
	case p.done:
		return 0, fmt.Errorf("ztensor: tensor %s: %w", quote.Name(p.T.Name), fs.ErrClosed)
	case p.W.Err != nil:
		return 0, p.W.Err
	case int64(len(b)) > p.Want-p.Feed.N:
		return 0, p.W.Broken(p.T, "data", fmt.Errorf("%w: more than the %d bytes of %v of %v", tensor.ErrMalformed, p.Want, p.T.Shape, p.T.DType))
	}
	for n := 0; n < len(b); {
		k := min(len(b)-n, PieceSize)
		if _, err := p.Feed.Write(b[n : n+k]); err != nil {
			return n, p.W.Broken(p.T, "data", err)
		}
		n += k
	}
	return len(b), nil
}

func (p *Part) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	p.W.Part = nil
	if p.W.Err != nil {
		return p.W.Err
	}
	if p.Feed.N != p.Want {
		return p.W.Broken(p.T, "data", fmt.Errorf("%w: %d bytes of %d", io.ErrUnexpectedEOF, p.Feed.N, p.Want))
	}
	err := p.Feed.end()
	if err == nil {
		err = p.Finish()
	}
	if err != nil {
		return p.W.Broken(p.T, "data", err)
	}
	return nil
}

// Create begins a dense tensor that comes piece by piece.
func (w *Writer) Create(name string, dtype tensor.DType, shape tensor.Shape) (io.WriteCloser, error) {
	n, ok := shape.Elements()
	size, fits := dtype.Bytes(n)
	if !ok || !fits {
		return nil, fmt.Errorf("ztensor: %w: tensor %s: %v of %v", tensor.ErrMalformed, quote.Name(name), shape, dtype)
	}
	if err := w.Usable(); err != nil {
		return nil, err
	}
	t := &tensor.Tensor{Name: name, DType: dtype, Shape: shape, Data: tensor.BlobFunc(size, nil)}
	if err := w.CheckTensor(t); err != nil {
		return nil, err
	}
	return w.Layout.Create(w, t, size)
}
