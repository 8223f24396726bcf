package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkQuantize reports a type from Options.Quantize that the tensor cannot have in the
// target.
func (p *Plan) checkQuantize(it *item) error {
	if it.quantize == "" {
		return nil
	}
	if !p.caps.Blocks {
		return &OptionError{"Quantize", fmt.Errorf("%w: %s has no quantised blocks",
			errors.ErrUnsupported, p.describeTarget())}
	}
	row := *it.src
	row.Order = nil // which is made so before
	if _, err := gguf.Quantize(&row, it.quantize); err != nil {
		return &OptionError{"Quantize", err}
	}
	return nil
}

func (p *Plan) planQuantize(ctx context.Context, it *item) error {
	if it.quantize == "" {
		return nil
	}
	return it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		blocks, err := gguf.Quantize(t, it.quantize)
		if err == nil && p.caps.Sparse { // zTensor, where parts have a dtype
			blocks.Parts[0].DType = tensor.U8
		}
		return blocks, err
	})
}
