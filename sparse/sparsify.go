package sparse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// Sparsify returns a sparse tensor, in memory, of the elements of t that have a bit set
// (-0 has one), in row-major order. scheme is CSR, for two dimensions, or COO. It fails
// with errors.ErrUnsupported if t is not dense and row-major, with tensor.ErrDType if its
// elements are not whole bytes, with tensor.ErrLimit beyond opts.MaxMemory.
func Sparsify(ctx context.Context, t *tensor.Tensor, scheme string,
	opts *Options) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	out := &tensor.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Scheme: scheme}
	var err error
	switch {
	case scheme != CSR && scheme != COO:
		err = unknownScheme(scheme)
	case !t.Dense() || t.External || !t.Order.RowMajor():
		err = fmt.Errorf("%w: not dense and row-major", errors.ErrUnsupported)
	case t.DType.Size() == 0:
		err = fmt.Errorf("%w: %v", tensor.ErrDType, t.DType)
	case scheme == CSR && len(t.Shape) != 2:
		err = fmt.Errorf("%w: %d dimensions, %s has two", errors.ErrUnsupported, len(t.Shape), CSR)
	default:
		x := &indices{t: t, options: opts.of(t)}
		var values []byte
		if values, err = x.collect(ctx); err == nil {
			out.Parts, err = x.parts(scheme, t.DType, values)
		}
	}
	if err != nil {
		return nil, tensorError(t, err)
	}
	return out, nil
}

// collect returns the elements of a dense tensor that have a bit set, and appends their
// numbers to x.at. It fails if the data does not have the size that the shape requires:
// the size of a blob may be unknown before.
func (x *indices) collect(ctx context.Context) (values []byte, err error) {
	in, err := x.t.Data.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	width := x.t.DType.Size()
	elements, _ := x.t.Shape.Elements()
	size := elements * int64(width) // fits: t was checked
	buf, zero := make([]byte, (64<<10)/width*width), make([]byte, width)
	for i, have := uint64(0), int64(0); err != io.EOF; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var k int
		if k, err = source.ReadPiece(in, buf); err != nil && err != io.EOF {
			return nil, err
		}
		if have += int64(k); have > size || err == io.EOF && have != size {
			return nil, malformed("%d bytes where %d elements of %d bytes are declared", have,
				elements, width)
		}
		before := len(x.at)
		for p := buf[:k]; len(p) > 0; p = p[width:] {
			if !bytes.Equal(p[:width], zero) {
				values, x.at = append(values, p[:width]...), append(x.at, i)
			}
			i++
		}
		if err := x.reserve(int64(len(x.at)-before), int64(8+width)); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// parts returns the parts of a sparse tensor with values for the elements in x.at, which
// ascend.
func (x *indices) parts(scheme string, d tensor.DType, values []byte) ([]tensor.Part, error) {
	shape := x.t.Shape
	all := []tensor.Part{{Role: "values", DType: d, Data: tensor.BlobOf(values)}}
	add := func(role string, v []uint64) {
		all = append(all, tensor.Part{Role: role, DType: tensor.U64, Data: integerBlob(v)})
	}
	if isCOO(scheme) {
		if err := x.reserve(int64(len(x.at)), 8*int64(len(shape))); err != nil {
			return nil, err
		}
		coords := make([]uint64, 0, len(x.at)*len(shape))
		for d := range shape {
			stride, _ := shape[d+1:].Elements()
			for _, at := range x.at {
				coords = append(coords, at/uint64(stride)%uint64(shape[d]))
			}
		}
		add("coords", coords)
		return all, nil
	}
	rows, cols := uint64(shape[0]), uint64(shape[1])
	err := x.reserve(int64(len(x.at))+1, 8)
	if err == nil {
		err = x.reserve(shape[0], 8)
	}
	if err != nil {
		return nil, err
	}
	columns, indptr := make([]uint64, len(x.at)), make([]uint64, rows+1)
	for i, at := range x.at {
		columns[i] = at % cols
		indptr[at/cols+1]++
	}
	for row := range rows {
		indptr[row+1] += indptr[row]
	}
	add("indices", columns)
	add("indptr", indptr)
	return all, nil
}
