package ztensor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// InOrder returns a sparse_csr or sparse_coo tensor as version 2 can hold it: t
// itself, or one whose columns ascend within each row, with uint64 indices. It
// reads the indices at once, checks them as [CheckSparse] does, and keeps
// nothing: the parts of what it returns are made, in memory, when they are read.
// Two values at one place are errors.ErrUnsupported, as they are for [Densify].
func InOrder(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	places, sorted, err := inOrder(ctx, t)
	if err != nil {
		return nil, sparseError(t, err)
	}
	if sorted || t.Scheme == schemeCOO { // whose places may come in any order
		return t, nil
	}
	values := t.Part("values")
	width := int64(values.DType.Size())
	nnz := int64(len(places))
	indexSize, ok1 := align.Mul(nnz, 8)
	size, ok2 := align.Mul(nnz, width)
	if !ok1 || !ok2 || width == 0 {
		return nil, sparseError(t, fmt.Errorf("%w: columns that do not ascend, and values of %v", tensor.ErrDType, values.DType))
	}
	whole := *t
	made := func(size int64, element func(out []byte, p place, values []byte) []byte, of *tensor.Part) tensor.Blob {
		return tensor.BlobFunc(size, func() (io.ReadCloser, error) {
			places, _, err := inOrder(ctx, &whole)
			if err != nil {
				return nil, err
			}
			var in []byte
			if of != nil {
				if in, err = readChecked(of.Data, size); err != nil {
					return nil, err
				}
			}
			out := make([]byte, 0, size)
			for _, p := range places {
				out = element(out, p, in)
			}
			return io.NopCloser(bytes.NewReader(out)), nil
		})
	}
	columns := uint64(t.Shape[1])
	as := whole
	as.Parts = slices.Clone(t.Parts)
	for i := range as.Parts {
		switch p := &as.Parts[i]; p.Role {
		case "values":
			p.Data = made(size, func(out []byte, x place, values []byte) []byte {
				return append(out, values[int64(x.value)*width:][:width]...)
			}, whole.Part("values"))
		case "indices":
			p.DType = tensor.U64
			p.Data = made(indexSize, func(out []byte, x place, _ []byte) []byte {
				return binary.LittleEndian.AppendUint64(out, x.at%columns)
			}, nil)
		}
	}
	return &as, nil
}

// inOrder lists the places of a sparse tensor in their order, and reports
// whether the file has them so.
func inOrder(ctx context.Context, t *tensor.Tensor) (all []place, sorted bool, err error) {
	sorted = true
	if _, err := walkSparse(ctx, t, func(p place) {
		sorted = sorted && (len(all) == 0 || all[len(all)-1].at < p.at)
		all = append(all, p)
	}); err != nil || sorted {
		return all, sorted, err
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(all); i++ {
		if all[i].at == all[i-1].at {
			return nil, false, fmt.Errorf("%w: two values at one place", errors.ErrUnsupported)
		}
	}
	return all, false, nil
}
