package convert

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An item is one tensor of the plan.
type item struct {
	src   *tensor.Tensor // as its file has it
	owner *tensorfile.File
	t     tensor.Tensor  // as it is written
	want  tensor.DType   // that Options.Map returned
	steps []step         // from src to t
	own   map[string]any // attributes of the tensor in a .zt

	weight *weight // that src is

	quantize string // the type that Options.Quantize returned
}

// A step changes one thing about a tensor. Data that is computed when it is read
// ends soon after ctx.
type step func(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error)

// apply plans a step.
func (it *item) apply(ctx context.Context, s step) error {
	before := it.t // which data that is computed later refers to
	t, err := s(ctx, &before)
	if err != nil {
		return err
	}
	it.t, it.steps = *t, append(it.steps, s)
	return nil
}

// build returns the tensor as it is written, with data that ends with ctx.
func (it *item) build(ctx context.Context) (*tensor.Tensor, error) {
	t := it.src
	for _, s := range it.steps {
		var err error
		if t, err = s(ctx, t); err != nil {
			return nil, err
		}
	}
	named := *t
	named.Name = it.t.Name
	return &named, nil
}

// tensors yields what is written, with data that ends with ctx.
func (p *Plan) tensors(ctx context.Context) iter.Seq2[*tensor.Tensor, error] {
	return func(yield func(*tensor.Tensor, error) bool) {
		for i := range p.items {
			if !yield(p.items[i].build(ctx)) {
				return
			}
		}
	}
}

func fieldOf(t *tensor.Tensor) string { return "tensors[" + naming.Quote(t.Name) + "]" }

// planTensor plans everything that may have to change in one tensor: layout, dtype,
// order, shape, name. Its error ends the plan.
func (p *Plan) planTensor(ctx context.Context, owner *tensorfile.File, w *weight) error {
	src, name, want := w.Tensor, w.Name, tensor.Unknown
	if p.opts.Map != nil {
		t := src
		if w.Scheme != "" {
			var err error
			if t, err = tensor.As(src, p.opts.Dequantize); err != nil {
				t = src
			}
		}
		var keep bool
		if name, want, keep = p.opts.Map(t); !keep {
			return nil
		}
	}
	if w.Auxiliary {
		p.lose(LossTensors, fieldOf(src),
			"a scale of activations, or a marker, of quantised weights")
		p.losses[len(p.losses)-1].Requested = true
		return nil
	}
	if p.caps.MaxTensors > 0 && len(p.items) == p.caps.MaxTensors {
		return fmt.Errorf("convert: %w: %v holds %d tensor, the source has more",
			errors.ErrUnsupported, p.target, p.caps.MaxTensors)
	}
	if src.External && p.opts.External != nil {
		if t := p.opts.External(src.Name); t != nil && t.DType == src.DType &&
			t.Shape.Equal(src.Shape) {
			found := *t
			found.Name = src.Name
			src = &found
		}
	}
	it := &item{src: src, owner: owner, t: *src, want: want, weight: w}
	marked := len(p.losses)
	err := p.planItem(ctx, it, name)
	if errors.As(err, new(*OptionError)) {
		return err
	}
	if err != nil {
		// A tensor that is dropped is one loss, in place of its other losses.
		p.losses = p.losses[:marked]
		p.lose(LossTensors, fieldOf(src), "%v", err)
		if by, ok := err.(preventable); ok {
			p.losses[marked].Option = by.option
		}
		return nil
	}
	p.items = append(p.items, *it)
	return nil
}

// planItem plans one tensor. Its error is the reason to drop the tensor.
func (p *Plan) planItem(ctx context.Context, it *item, name string) error {
	switch {
	case it.weight.Err != nil:
		return it.weight.Err
	case it.src.External:
		return errors.New("its data is external")
	case pte.Uninitialized(it.src):
		return errors.New("it is state without an initial value")
	}
	if err := it.src.Check(); err != nil {
		return err
	}
	plans := []func(context.Context, *item) error{
		p.planLayout, p.planDType, p.planSparse, p.planOrder, p.planShape, p.planQuantize,
	}
	for _, plan := range plans {
		if err := plan(ctx, it); err != nil {
			return err
		}
	}
	p.planBlocks(it)
	p.planName(it, name)
	p.planOwnAttributes(it)
	if err := p.checker.check(&it.t, it.own); err != nil {
		p.names.release(it.t.Name)
		return err
	}
	return nil
}

// planBlocks gives quantised blocks that come from another format the layout that
// version 2 of zTensor has for them, and the attributes that go with it.
func (p *Plan) planBlocks(it *item) {
	kind, ok := format.BlocksOf(&it.t)
	layout := "gguf." + strings.ToLower(kind.Name) + "/1"
	if !ok || p.version != "2" || it.t.Parts[0].Role != "blocks" || !ztensor.HasBlocks(layout) {
		return // one that is not registered stays opaque, under its own name
	}
	it.apply(context.Background(), func(_ context.Context,
		t *tensor.Tensor) (*tensor.Tensor, error) {
		blocks := *t
		blocks.Scheme = layout
		blocks.Parts = []tensor.Part{{Role: "data", DType: tensor.U8, Data: t.Parts[0].Data}}
		return &blocks, nil
	})
	it.own = map[string]any{"elems_per_block": kind.Elements, "block_bytes": kind.Bytes}
}

// planShape adds the losses of a shape that the target cannot represent.
func (p *Plan) planShape(ctx context.Context, it *item) error {
	c, t, n := &p.caps, &it.t, int64(0)
	if t.Dense() {
		n, _ = t.Shape.Elements()
	}
	shape := t.Shape
	if p.row.shape != nil {
		shape = p.row.shape(t)
	}
	switch {
	case c.MaxRank > 0 && len(shape) > c.MaxRank:
		return fmt.Errorf("%d dimensions, %v has at most %d", len(shape), p.target, c.MaxRank)
	case !c.ZeroDims && slices.Contains(shape, 0):
		return fmt.Errorf("%v has no dimensions of 0", p.target)
	case c.MaxElements > 0 && n > c.MaxElements:
		return fmt.Errorf("%d elements, %v has at most %d", n, p.target, c.MaxElements)
	case c.MaxDim > 0 && slices.ContainsFunc(shape, func(d int64) bool { return d > c.MaxDim }):
		return fmt.Errorf("%v: %v has dimensions of at most %d", shape, p.target, c.MaxDim)
	case len(shape) != len(t.Shape) && p.kind == 0:
		p.lose(LossShape, fieldOf(it.src), "%v is %v in %v", t.Shape, shape, p.target)
		return it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
			reshaped := *t
			if reshaped.Shape = shape; !t.Order.RowMajor() {
				reshaped.Order = tensor.ColumnMajor(len(shape))
			}
			return &reshaped, nil
		})
	}
	return nil
}

// primitivShape: primitiv keeps no dimensions of 1 at the end.
func primitivShape(t *tensor.Tensor) tensor.Shape {
	shape := t.Shape
	for len(shape) > 0 && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	return shape
}

// ggufShape: gguf-py reads no file with a bfloat16 without dimensions.
func ggufShape(t *tensor.Tensor) tensor.Shape {
	if t.DType == tensor.BF16 && len(t.Shape) == 0 {
		return tensor.Shape{1}
	}
	return t.Shape
}
