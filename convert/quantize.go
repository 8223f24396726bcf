package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// planQuantize makes quantised blocks of a dense tensor, of the type that
// Options.Quantize returned for it.
func (p *Plan) planQuantize(ctx context.Context, it *item) error {
	if it.quantize == "" {
		return nil
	}
	if !p.caps.Blocks {
		return &OptionError{"Quantize", fmt.Errorf("%w: %s has no quantised blocks",
			errors.ErrUnsupported, p.describeTarget())}
	}
	p.loseScale(it, it.t.DType.String(), it.quantize)
	kind, _ := ggml.Named(it.quantize)
	if !blocksHold(kind, it.t.DType) {
		p.loseRequested(LossNarrow, it, "%v becomes %s", it.t.DType, kind.Name)
	}
	quantize := gguf.QuantizeFinite
	if p.opts.Allow&LossOverflow != 0 {
		quantize = gguf.Quantize
	}
	err := it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		blocks, err := quantize(t, it.quantize)
		if err != nil {
			return nil, err
		}
		part := &blocks.Parts[0]
		part.Data = ofElements(part.Data)
		if p.caps.Sparse { // zTensor, where parts have a dtype
			part.DType = tensor.U8
		}
		return blocks, nil
	})
	if err != nil {
		return &OptionError{"Quantize", err}
	}
	return nil
}

// blocksHold reports whether quantised blocks keep all elements of a dtype. Elements of
// no other pair do: a block has one scale for elements of any size.
func blocksHold(kind ggml.Type, d tensor.DType) bool {
	switch kind.Name {
	case "MXFP4":
		return d == tensor.Bool || d == tensor.F4E2M1FN || d == tensor.I2 || d == tensor.U2
	case "Q4_0", "Q5_0", "TQ1_0", "TQ2_0":
		return d == tensor.Bool
	}
	return false
}
