package convert

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// densified describes the dense form of a sparse tensor, which is made when it
// is read. Elements that are not stored are zero. The context that running gives
// ends the reading of the indices, which comes before the first byte.
func densified(t *tensor.Tensor, running func() context.Context) (*tensor.Tensor, error) {
	if !sparse.Known(t.Scheme) {
		return nil, fmt.Errorf("%w: %s has no dense form", tensor.ErrDType, tensor.Quote(t.Scheme))
	}
	of := *t
	d := t.DType
	if values := t.Part("values"); values != nil && d == tensor.Unknown {
		d = values.DType
	}
	n, ok := t.Shape.Elements()
	if !ok {
		return nil, fmt.Errorf("%w: %v", tensor.ErrMalformed, t.Shape)
	}
	size, ok := d.Bytes(n)
	if !ok {
		return nil, fmt.Errorf("%w: %v of %v", tensor.ErrDType, t.Shape, d)
	}
	dense := &tensor.Tensor{Name: t.Name, DType: d, Shape: t.Shape}
	dense.Data = tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		ctx := running()
		in, err := sparse.Open(ctx, &of, nil)
		if err != nil {
			return nil, ofSparse(ctx, err)
		}
		return &sparseStream{in, ctx}, nil
	})
	return dense, nil
}

// A sparseError names the tensor.
type sparseError struct{ error }

func (e *sparseError) Unwrap() error { return e.error }

// ofSparse is an error of package sparse, unless ctx has ended.
func ofSparse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &sparseError{err}
}

// A sparseStream is a stream that package sparse makes of a tensor.
type sparseStream struct {
	io.ReadCloser
	ctx context.Context
}

func (s *sparseStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = ofSparse(s.ctx, err)
	}
	return n, err
}

// sparsified makes the sparse form of a dense tensor: how long its parts are is
// only known when it is made.
func sparsified(t *tensor.Tensor, scheme string, running func() context.Context) (*tensor.Tensor, error) {
	if !t.Order.RowMajor() {
		data, err := reordered(t, nil, running)
		if err != nil {
			return nil, err
		}
		row := *t
		row.Order, row.Data = nil, data
		t = &row
	}
	of := *t
	return remade(running, func(ctx context.Context) (*tensor.Tensor, error) {
		return sparse.Sparsify(ctx, &of, scheme, nil)
	})
}

// ordered returns a sparse tensor as version 2 of zTensor can hold it: with columns that ascend
// within each row. Coordinates may come in any order, but each only once.
func ordered(t *tensor.Tensor, running func() context.Context) (*tensor.Tensor, error) {
	if t.Scheme != sparse.CSR {
		return t, sparse.Check(running(), t, &sparse.Options{Ordered: true})
	}
	of := *t
	if sparse.Check(running(), t, &sparse.Options{Ordered: true}) == nil {
		return t, nil
	}
	return remade(running, func(ctx context.Context) (*tensor.Tensor, error) { return sparse.Sort(ctx, &of, nil) })
}

// remade returns what construct makes, without keeping it: it is made again for the parts to be read.
func remade(running func() context.Context, construct func(context.Context) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	made, err := construct(running())
	if err != nil {
		return nil, err
	}
	r := &remaking{construct: construct, running: running}
	as := *made
	as.Parts = nil
	for i, p := range made.Parts {
		p.Data = tensor.BlobFunc(p.Data.Size(), func() (io.ReadCloser, error) { return r.open(i) })
		as.Parts = append(as.Parts, p)
	}
	return &as, nil
}

// remaking holds a tensor from the first part that is opened to the last one.
type remaking struct {
	construct func(context.Context) (*tensor.Tensor, error)
	running   func() context.Context

	mu     sync.Mutex
	made   *tensor.Tensor
	opened map[int]bool
}

func (r *remaking) open(part int) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		ctx := r.running()
		made, err := r.construct(ctx)
		if err != nil {
			return nil, ofSparse(ctx, err)
		}
		r.made, r.opened = made, map[int]bool{}
	}
	made := r.made
	if r.opened[part] = true; len(r.opened) == len(made.Parts) {
		r.made = nil
	}
	return made.Parts[part].Data.Open()
}
