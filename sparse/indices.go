package sparse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// indices are those of one tensor, as far as they have been read.
type indices struct {
	t   *tensor.Tensor
	csr bool
	n   int64    // values; -1 where the dtype of the values does not tell
	at  []uint64 // the element of each value, in row-major order, where they are kept

	used, limit int64 // bytes of memory

	ascending bool   // every element comes after the one before it
	last      uint64 // the element that was read last
	disorder  error  // where ascending became false, of a compressed matrix
}

// open finds the parts of a sparse tensor and counts its values.
func open(ctx context.Context, t *tensor.Tensor, o Options) (*indices, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	x := &indices{t: t, csr: isCSR(t.Scheme), limit: o.MaxMemory, ascending: true}
	roles := []string{"values", "coords"}
	switch {
	case x.csr:
		roles = []string{"values", "indices", "indptr"}
		if len(t.Shape) != 2 {
			return nil, fmt.Errorf("%w: %s of %d dimensions", tensor.ErrMalformed, t.Scheme, len(t.Shape))
		}
	case !isCOO(t.Scheme):
		return nil, fmt.Errorf("%w: %s is not a sparse format", errors.ErrUnsupported, quote.Name(t.Scheme))
	}
	for _, role := range roles {
		p := t.Part(role)
		if p == nil {
			return nil, fmt.Errorf("%w: no component %s", tensor.ErrMalformed, role)
		}
		if role == "values" {
			var err error
			if x.n, err = valueCount(ctx, p); err != nil {
				return nil, err
			}
		} else if width, _ := indexWidth(p.DType); width == 0 {
			return nil, fmt.Errorf("%w: %s of %v", tensor.ErrDType, role, p.DType)
		}
	}
	return x, nil
}

// valueCount returns how many values a part has, and -1 where its dtype does not tell.
func valueCount(ctx context.Context, p *tensor.Part) (int64, error) {
	width := int64(p.DType.Size())
	if width == 0 {
		return -1, nil
	}
	size, err := sizeOf(ctx, p.Data)
	if err == nil && size%width != 0 {
		err = fmt.Errorf("%w: %d bytes of values of %d bytes", tensor.ErrMalformed, size, width)
	}
	return size / width, err
}

// sizeOf returns the size of b, which it reads where only decoding tells.
func sizeOf(ctx context.Context, b tensor.Blob) (int64, error) {
	if size := b.Size(); size >= 0 {
		return size, nil
	}
	in, err := b.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	return io.Copy(io.Discard, &bounded{ctx, in})
}

// bounded is a stream that ends with ctx.
type bounded struct {
	ctx context.Context
	io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

// take counts n bytes of memory before they are needed.
func (x *indices) take(n int64) error {
	if n > x.limit-x.used {
		all, ok := align.Add(x.used, n)
		if !ok {
			all = math.MaxInt64
		}
		return fmt.Errorf("%w: indices, and values that are not in order, take %d bytes or more, of at most %d (MaxMemory)",
			tensor.ErrLimit, all, x.limit)
	}
	x.used += n
	return nil
}

// read checks the indices against the shape and the number of values, and keeps them in at
// where it is told to.
func (x *indices) read(ctx context.Context, keep bool) error {
	if x.csr {
		return x.readCSR(ctx, keep)
	}
	return x.readCOO(ctx, keep)
}

// next is called with the element of every value, in the order of the file.
func (x *indices) next(i int64, at uint64) {
	x.ascending = x.ascending && (i == 0 || at > x.last)
	x.last = at
}

func (x *indices) readCSR(ctx context.Context, keep bool) error {
	rows, cols := uint64(x.t.Shape[0]), uint64(x.t.Shape[1])
	columns, err := newIndexReader(ctx, x.t.Part("indices"))
	if err != nil {
		return err
	}
	defer columns.close()
	indptr, err := newIndexReader(ctx, x.t.Part("indptr"))
	if err != nil {
		return err
	}
	defer indptr.close()
	var prev, n uint64
	for row := uint64(0); ; row++ {
		end, err := indptr.next()
		if err == io.EOF && row == rows+1 {
			break
		}
		switch {
		case err == io.EOF:
			return fmt.Errorf("%w: indptr has %d entries, %d rows take %d", tensor.ErrMalformed, row, rows, rows+1)
		case err != nil:
			return err
		case row > rows:
			return fmt.Errorf("%w: indptr has more than %d entries", tensor.ErrMalformed, rows+1)
		case row == 0 && end != 0:
			return fmt.Errorf("%w: indptr begins with %d, not 0", tensor.ErrMalformed, end)
		case end < prev:
			return fmt.Errorf("%w: indptr falls from %d to %d at %d", tensor.ErrMalformed, prev, end, row)
		}
		for n < end {
			some, err := columns.some(end - n)
			if err == io.EOF {
				return fmt.Errorf("%w: %d indices, indptr leads to %d", tensor.ErrMalformed, n, end)
			}
			if err == nil && keep {
				err = x.take(8 * int64(len(some)))
			}
			if err != nil {
				return err
			}
			start := (row - 1) * cols // row 0 has end 0
			for _, col := range some {
				if col >= cols {
					return fmt.Errorf("%w: column %d of %d at %d", tensor.ErrMalformed, col, cols, n)
				}
				if n > 0 && start+col <= x.last && x.disorder == nil { // in this row, since rows ascend
					x.disorder = fmt.Errorf("%w: column %d does not come after column %d in row %d",
						tensor.ErrMalformed, col, x.last-start, row-1)
				}
				x.next(int64(n), start+col)
				if n++; keep {
					x.at = append(x.at, start+col)
				}
			}
		}
		prev = end
	}
	if _, err := columns.next(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%w: indptr ends at %d, there are more indices", tensor.ErrMalformed, prev)
		}
		return err
	}
	if x.n >= 0 && uint64(x.n) != prev {
		return fmt.Errorf("%w: %d values, indptr ends at %d", tensor.ErrMalformed, x.n, prev)
	}
	x.n = int64(prev)
	return nil
}

func (x *indices) readCOO(ctx context.Context, keep bool) error {
	coords := x.t.Part("coords")
	rank := len(x.t.Shape)
	if x.n < 0 {
		size, err := sizeOf(ctx, coords.Data)
		if err != nil {
			return err
		}
		width, _ := indexWidth(coords.DType)
		x.n = size / int64(width) / int64(max(1, rank))
	}
	in, err := newIndexReader(ctx, coords)
	if err != nil {
		return err
	}
	defer in.close()
	if rank == 0 && keep { // every value is for the only element
		if x.n > 1 {
			return &DuplicateError{0}
		}
		x.at = make([]uint64, x.n)
	}
	for d, dim := range x.t.Shape {
		for i := int64(0); i < x.n; {
			some, err := in.some(uint64(x.n - i))
			if err == io.EOF {
				return fmt.Errorf("%w: fewer coords than %d values of %d dimensions take", tensor.ErrMalformed, x.n, rank)
			}
			if err == nil && keep && d == 0 {
				err = x.take(8 * int64(len(some)))
				x.at = append(x.at, make([]uint64, len(some))...)
			}
			if err != nil {
				return err
			}
			for _, c := range some {
				if c >= uint64(dim) {
					return fmt.Errorf("%w: coordinate %d of %d in dimension %d at %d", tensor.ErrMalformed, c, dim, d, i)
				}
				if keep {
					x.at[i] = x.at[i]*uint64(dim) + c // below the product of the shape
				}
				i++
			}
		}
	}
	if _, err := in.next(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%w: more coords than %d values of %d dimensions take", tensor.ErrMalformed, x.n, rank)
		}
		return err
	}
	for i, at := range x.at {
		x.next(int64(i), at)
	}
	return nil
}

// Check reads the indices of a sparse tensor and reports what does not fit: rows that do not go
// from 0 to the number of values, indices outside of the shape, lengths that disagree. It
// requires sorted or distinct indices only where opts say so. What it holds in memory are some
// KiB, and with Ordered the coordinates of a tensor that has them.
func Check(ctx context.Context, t *tensor.Tensor, opts *Options) error {
	if t == nil {
		return errNil
	}
	o := opts.of(t)
	x, err := open(ctx, t, o)
	if err == nil {
		err = x.read(ctx, o.Ordered && !x.csr)
	}
	if err == nil && o.Ordered {
		err = x.ordered()
	}
	return failed(t, err)
}

// ordered requires columns that ascend, or distinct coordinates.
func (x *indices) ordered() error {
	switch {
	case x.ascending:
		return nil
	case x.csr:
		return x.disorder
	}
	slices.Sort(x.at)
	for i := 1; i < len(x.at); i++ {
		if x.at[i] == x.at[i-1] {
			return &DuplicateError{x.at[i]}
		}
	}
	return nil
}
