package ztensor

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// InOrder returns a sparse_csr or sparse_coo tensor as version 2 can hold it: t
// itself, or one whose columns ascend within each row, with uint64 indices. It
// reads the indices at once, checks them as [CheckSparse] does, and keeps
// nothing: the parts of what it returns are made, in a stream, when they are read.
// Two values at one place are errors.ErrUnsupported, as they are for [Densify].
func InOrder(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil {
		return nil, errNil
	}
	s, err := openSparse(ctx, t, indexRoles...)
	if err != nil {
		return nil, sparseError(t, err)
	}
	defer s.release()
	ascending, err := s.ascends(ctx, nil)
	if err == nil && !ascending {
		err = s.inOrder(ctx, 0, false, func(uint64, []byte) error { return nil })
	}
	if err != nil {
		return nil, sparseError(t, err)
	}
	if ascending || !s.csr { // the places of a coo may come in any order
		return t, nil
	}
	values := t.Part("values")
	width := int64(values.DType.Size())
	indexSize, ok1 := align.Mul(s.nnz, 8)
	size, ok2 := align.Mul(s.nnz, width)
	if !ok1 || !ok2 || width == 0 {
		return nil, sparseError(t, fmt.Errorf("%w: columns that do not ascend, and values of %v", tensor.ErrDType, values.DType))
	}
	whole := s.counted(t)
	made := func(size, width int64, element func(w *bufio.Writer, at uint64, value []byte) error) tensor.Blob {
		return tensor.BlobFunc(size, func() (io.ReadCloser, error) {
			return piped(context.Background(), size, func(ctx context.Context, w *bufio.Writer) error {
				s, err := openSparse(ctx, whole, indexRoles...)
				if err != nil {
					return sparseError(whole, err)
				}
				defer s.release()
				if err := s.inOrder(ctx, int(width), false, func(at uint64, value []byte) error { return element(w, at, value) }); err != nil {
					return sparseError(whole, err)
				}
				return nil
			}), nil
		})
	}
	columns := uint64(t.Shape[1])
	as := *t
	as.Parts = slices.Clone(t.Parts)
	for i := range as.Parts {
		switch p := &as.Parts[i]; p.Role {
		case "values":
			p.Data = made(size, width, func(w *bufio.Writer, _ uint64, value []byte) error {
				_, err := w.Write(value)
				return err
			})
		case "indices":
			p.DType = tensor.U64
			p.Data = made(indexSize, 0, func(w *bufio.Writer, at uint64, _ []byte) error {
				_, err := w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), at%columns))
				return err
			})
		}
	}
	return &as, nil
}
