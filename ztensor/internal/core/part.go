package core

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A part is a dense tensor that comes piece by piece.
type part struct {
	feed
	sink  io.WriteCloser
	w     *Writer
	t     *tensor.Tensor
	all   []Piece // one
	start int64
	done  bool
}

// Create begins a dense tensor that comes piece by piece.
func (w *Writer) Create(name string, dtype tensor.DType, shape tensor.Shape) (io.WriteCloser,
	error) {
	n, ok := shape.Elements()
	size, fits := dtype.Bytes(n)
	if !ok || !fits {
		return nil, fmt.Errorf("ztensor: %w: tensor %s: %v of %v", tensor.ErrMalformed,
			naming.Quote(name), shape, dtype)
	}
	t := &tensor.Tensor{Name: name, DType: dtype, Shape: shape, Data: tensor.BlobFunc(size, nil)}
	if err := w.Usable(); err != nil {
		return nil, err
	}
	ctx := context.Background()
	all, err := w.Layout.Create(ctx, w, t)
	if err != nil {
		return nil, err
	}
	p := &part{w: w, t: t, all: all}
	x := &all[0]
	x.Streamed = true
	if _, err = w.Layout.Place(ctx, w, x); err == nil {
		p.start = w.Off
		p.sink, err = w.Layout.Sink(ctx, w, x)
	}
	if err != nil {
		return nil, w.Fail(err)
	}
	p.feed = feed{Check{DType: x.DType, Odd: x.Odd}, p.sink}
	w.part = p
	return p, nil
}

func (p *part) Write(b []byte) (int, error) {
	switch want := p.t.Data.Size(); {
	case p.done:
		return 0, fmt.Errorf("ztensor: tensor %s: %w", naming.Quote(p.t.Name), fs.ErrClosed)
	case p.w.Err != nil:
		return 0, p.w.Err
	case int64(len(b)) > want-p.n:
		return 0, p.w.Broken(p.t, "data",
			Malformed("more than the %d bytes of %v of %v", want, p.t.Shape, p.t.DType))
	}
	n, err := format.Until(context.Background(), &p.feed).Write(b)
	if err != nil {
		return n, p.w.Broken(p.t, "data", err)
	}
	return n, nil
}

// Close enters the tensor.
func (p *part) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	p.w.part = nil
	if p.w.Err != nil {
		return p.w.Err
	}
	err := p.End()
	if want := p.t.Data.Size(); p.n != want {
		err = fmt.Errorf("%w: %d bytes of %d", io.ErrUnexpectedEOF, p.n, want)
	}
	if err == nil {
		err = p.sink.Close()
	}
	x := &p.all[0]
	x.Size, x.Length = p.n, p.w.Off-p.start
	if err == nil {
		err = p.w.Layout.Written(context.Background(), p.w, x)
	}
	if err != nil {
		return p.w.Broken(p.t, "data", err)
	}
	return p.w.Layout.Enter(p.t, p.all)
}
