package ztensor

import (
	"context"
	"iter"

	"github.com/tensorfile/tensorfile/tensor"
)

// AddAll adds all tensors that ts yields.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq[*tensor.Tensor]) error {
	for t := range ts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.add(ctx, t); err != nil {
			return err
		}
	}
	return w.err
}
