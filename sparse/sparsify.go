package sparse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// Sparsify returns a sparse tensor, in memory, of the elements of t that are not zero, in
// row-major order. scheme is CSR, for two dimensions, or COO. Zero is what has no bit set: -0 is
// kept. t must be dense, row-major and of whole bytes an element.
func Sparsify(ctx context.Context, t *tensor.Tensor, scheme string, opts *Options) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	width := t.DType.Size()
	switch {
	case scheme != CSR && scheme != COO:
		return nil, failed(t, fmt.Errorf("%w: %s is not a sparse format", errors.ErrUnsupported, quote.Name(scheme)))
	case !t.Dense() || t.External || !t.Order.RowMajor():
		return nil, failed(t, fmt.Errorf("%w: not dense and row-major", errors.ErrUnsupported))
	case width == 0:
		return nil, failed(t, fmt.Errorf("%w: %v", tensor.ErrDType, t.DType))
	case scheme == CSR && len(t.Shape) != 2:
		return nil, failed(t, fmt.Errorf("%w: %d dimensions, %s has two", errors.ErrUnsupported, len(t.Shape), CSR))
	}
	x := &indices{t: t, csr: scheme == CSR, limit: opts.of(t).MaxMemory}
	values, err := x.collect(ctx, width)
	if err != nil {
		return nil, failed(t, err)
	}
	out := &tensor.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Scheme: scheme}
	out.Parts, err = build(scheme, t.Shape, x, t.DType, values)
	if err != nil {
		return nil, failed(t, err)
	}
	return out, nil
}

// collect returns the elements of a dense tensor that have a bit set, and puts their places
// into at. A blob of unknown size shows only here whether it has as many as the shape.
func (x *indices) collect(ctx context.Context, width int) (values []byte, err error) {
	in, err := x.t.Data.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	elements, _ := x.t.Shape.Elements()
	size := elements * int64(width) // fits: t was checked
	buf := make([]byte, (64<<10)/width*width)
	for i, have := uint64(0), int64(0); ; {
		k, err := source.ReadPiece(in, buf)
		have += int64(k)
		last := err == io.EOF
		if err != nil && !last {
			return nil, err
		}
		if have > size || last && have != size {
			return nil, fmt.Errorf("%w: %d bytes where %d elements of %d bytes are declared", tensor.ErrMalformed, have, elements, width)
		}
		before := len(values)
		for p := buf[:k]; len(p) > 0; p = p[width:] {
			if !zero(p[:width]) {
				values, x.at = append(values, p[:width]...), append(x.at, i)
			}
			i++
		}
		if err := x.take(int64(len(values)-before) / int64(width) * int64(8+width)); err != nil {
			return nil, err
		}
		if last {
			x.n = int64(len(x.at))
			return values, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func zero(p []byte) bool {
	for _, v := range p {
		if v != 0 {
			return false
		}
	}
	return true
}

// build makes the parts of a sparse tensor: the values of the elements in x.at, which ascend.
func build(scheme string, shape tensor.Shape, x *indices, d tensor.DType, values []byte) ([]tensor.Part, error) {
	parts := []tensor.Part{{Role: "values", DType: d, Data: tensor.BlobOf(values)}}
	add := func(role string, n int64, each func(put func(uint64))) error {
		size, ok := align.Mul(n, 8)
		if !ok {
			size = 1<<63 - 1
		}
		if err := x.take(size); err != nil {
			return err
		}
		b := make([]byte, 0, size)
		each(func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) })
		parts = append(parts, tensor.Part{Role: role, DType: tensor.U64, Data: tensor.BlobOf(b)})
		return nil
	}
	if isCOO(scheme) {
		n, ok := align.Mul(x.n, int64(len(shape)))
		if !ok {
			n = 1<<63 - 1
		}
		err := add("coords", n, func(put func(uint64)) {
			for d := range shape {
				slower := uint64(1) // elements for each coordinate of dimension d
				for _, dim := range shape[d+1:] {
					slower *= uint64(dim)
				}
				for _, at := range x.at {
					put(at / slower % uint64(shape[d]))
				}
			}
		})
		return parts, err
	}
	rows, cols := uint64(shape[0]), uint64(shape[1])
	if err := add("indices", x.n, func(put func(uint64)) {
		for _, at := range x.at {
			put(at % cols)
		}
	}); err != nil {
		return nil, err
	}
	if rows == 1<<63-1 {
		return nil, fmt.Errorf("%w: %d rows", tensor.ErrLimit, rows)
	}
	err := add("indptr", int64(rows)+1, func(put func(uint64)) {
		n := 0
		for row := range rows + 1 {
			for n < len(x.at) && x.at[n]/cols < row {
				n++
			}
			put(uint64(n))
		}
	})
	return parts, err
}
