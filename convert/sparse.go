package convert

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// densified makes the dense form of a sparse tensor, whose data is computed when it
// is read. Elements that are not stored are zero.
func densified(opts *sparse.Options) step {
	return func(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
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
			in, err := sparse.Open(ctx, t, opts)
			if err != nil {
				return nil, ofSparse(ctx, err)
			}
			return &valueStream{in, func(err error) error { return ofSparse(ctx, err) }}, nil
		})
		return dense, nil
	}
}

// A valueError is an error about elements of a tensor, with the name of the tensor.
type valueError struct{ error }

func (e *valueError) Unwrap() error { return e.error }

// ofSparse returns an error of package sparse, unless ctx has ended.
func ofSparse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &valueError{err}
}

// A valueStream is a stream of elements that are made of the elements of a tensor.
type valueStream struct {
	io.ReadCloser
	describe func(error) error
}

func (s *valueStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = s.describe(err)
	}
	return n, err
}

// sparsified makes the sparse form of a dense tensor.
func sparsified(scheme string) step {
	return remade(func(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		if !t.Order.RowMajor() {
			row, err := reordered(nil)(ctx, t)
			if err != nil {
				return nil, err
			}
			t = row
		}
		return sparse.Sparsify(ctx, t, scheme, nil)
	})
}

// ordered makes a sparse tensor as version 2 of zTensor can hold it: columns ascend
// within each row. Coordinates may come in any order, but each only once.
func ordered(opts *sparse.Options) step {
	asIs := false
	sorted := remade(func(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		return sparse.Sort(ctx, t, opts)
	})
	checked := false
	return func(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		if !checked {
			err := sparse.Check(ctx, t, &sparse.Options{Ordered: true, MaxMemory: opts.MaxMemory})
			if err != nil && t.Scheme != sparse.CSR && opts.Duplicates == sparse.Refuse {
				return nil, err
			}
			checked, asIs = true, err == nil
		}
		if asIs {
			return t, nil
		}
		return sorted(ctx, t)
	}
}

// remade returns a step that calls construct, and keeps only the sizes of the parts. When
// parts are read, construct is called again.
func remade(construct step) step {
	var known *tensor.Tensor
	return func(ctx context.Context, in *tensor.Tensor) (*tensor.Tensor, error) {
		own := *in // which apply overwrites with the result
		t := &own
		if known == nil {
			made, err := construct(ctx, t)
			if err != nil {
				return nil, err
			}
			sizes := *made
			sizes.Parts = slices.Clone(made.Parts)
			for i := range sizes.Parts {
				sizes.Parts[i].Data = tensor.BlobFunc(made.Parts[i].Data.Size(), nil)
			}
			known = &sizes
		}
		r := &remaking{construct: func() (*tensor.Tensor, error) {
			made, err := construct(ctx, t)
			if err != nil {
				err = ofSparse(ctx, err)
			}
			return made, err
		}}
		out := *known
		out.Parts = slices.Clone(known.Parts)
		for i := range out.Parts {
			out.Parts[i].Data = tensor.BlobFunc(known.Parts[i].Data.Size(), func() (io.ReadCloser,
				error) {
				return r.open(i)
			})
		}
		return &out, nil
	}
}

// remaking holds a tensor from the first part that is opened to the last one.
type remaking struct {
	construct func() (*tensor.Tensor, error)

	mu     sync.Mutex
	made   *tensor.Tensor
	opened map[int]bool
}

func (r *remaking) open(part int) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		made, err := r.construct()
		if err != nil {
			return nil, err
		}
		r.made, r.opened = made, map[int]bool{}
	}
	made := r.made
	if r.opened[part] = true; len(r.opened) == len(made.Parts) {
		r.made = nil
	}
	return made.Parts[part].Data.Open()
}
