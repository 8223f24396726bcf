package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkDType reports a dtype from Options.Map that the tensor cannot have in the
// target.
func (p *Plan) checkDType(it *item) error {
	from, want := it.t.DType, it.want
	if !it.t.Dense() {
		return &OptionError{"Map", fmt.Errorf(
			"tensor %s: %w: %s is not dense, and keeps its dtype",
			naming.Quote(it.src.Name), tensor.ErrDType, naming.Quote(it.t.Scheme))}
	}
	if err := tensor.CanConvert(from, want); err != nil {
		return &OptionError{"Map", fmt.Errorf("tensor %s: %w", naming.Quote(it.src.Name), err)}
	}
	return nil
}

// planDType plans the elements of a dense tensor: the dtype that Options.Map returned for
// it, whether Options.Quantize makes blocks of it, and else a dtype that the target has.
func (p *Plan) planDType(ctx context.Context, it *item) error {
	if want := it.want; want != tensor.Unknown && want != it.t.DType {
		if err := p.checkDType(it); err != nil {
			return err
		}
		if n, _ := domainOf(part(it.t.DType, want)); p.loses(n, want) {
			p.loseRequested(LossNarrow, it, "%v becomes %v", it.t.DType, want)
		}
		if err := p.convertTo(ctx, it, want); err != nil {
			return err
		}
	}
	if !it.t.Dense() {
		return nil
	}
	if it.t.DType == tensor.Bool {
		it.apply(ctx, validBools)
	}
	if p.opts.Quantize != nil {
		if it.quantize = p.opts.Quantize(&it.t); it.quantize != "" {
			return nil // blocks have no dtype
		}
	}
	from := it.t.DType
	if p.caps.Holds(from) || from == tensor.Unknown && p.checker.check(&it.t, nil) == nil {
		return nil // the same, or a word of the file's own that can be kept
	}
	if it.want != tensor.Unknown {
		return &OptionError{"Map", fmt.Errorf("tensor %s: %w: %v has no %v",
			naming.Quote(it.src.Name), tensor.ErrDType, p.describeTarget(), from)}
	}
	to, kind := choose(from, p.caps.DTypes)
	if to == tensor.Unknown {
		name := from.String()
		if st, ok := it.t.Data.Stored(); ok && from == tensor.Unknown {
			name = naming.Quote(st.Type)
		}
		return fmt.Errorf("%s cannot be represented in %v, nor is there a dtype to convert it to",
			name, p.describeTarget())
	}
	p.lose(kind, fieldOf(it.src), "%v is stored as %v", from, to)
	return p.convertTo(ctx, it, to)
}

// convertTo plans elements of another dtype. Integers that to does not have are the
// error.
func (p *Plan) convertTo(ctx context.Context, it *item, to tensor.DType) error {
	from := it.t.DType
	p.loseScale(it, from.String(), to.String())
	if exactOnly(to) && !widens(from, to) {
		if err := checkExact(ctx, &it.t, to); err != nil && !unreadable(err) {
			return err
		}
	}
	as := tensor.AsFinite
	if p.opts.Allow&LossOverflow != 0 || widens(from, to) {
		as = tensor.As
	}
	return it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		x, err := as(t, to)
		if err != nil {
			return nil, err
		}
		out := *t
		out.DType, out.Data = to, ofElements(x.Data)
		return &out, nil
	})
}

// ofElements makes errors about single elements known as such.
func ofElements(b tensor.Blob) tensor.Blob {
	return tensor.BlobFunc(b.Size(), func() (io.ReadCloser, error) {
		r, err := b.Open()
		if err != nil {
			return nil, err
		}
		return &valueStream{r, func(err error) error {
			if errors.Is(err, tensor.ErrOverflow) || errors.Is(err, tensor.ErrDType) {
				return &valueError{err}
			}
			return err
		}}, nil
	})
}

func (p *Plan) planOrder(ctx context.Context, it *item) error {
	t, rank := &it.t, len(it.t.Shape)
	row := p.opts.RowMajor && !t.Order.RowMajor() && p.caps.Orders.Hold(nil, rank)
	if !t.Dense() || p.caps.Orders.Hold(t.Order, rank) && !row {
		return nil
	}
	var order tensor.Order
	if p.caps.Orders == tensorfile.OnlyColumnMajor {
		order = tensor.ColumnMajor(rank)
	}
	if sameStorage(t.Shape, t.Order, order) {
		return it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
			out := *t
			out.Order = order
			return &out, nil
		})
	}
	if it.src.Dense() && (!p.opts.RowMajor || order != nil) {
		from := "row-major order"
		if !t.Order.RowMajor() {
			from = fmt.Sprintf("the order %v", []int(t.Order))
		}
		p.lose(LossReorder, fieldOf(it.src), "%s cannot be represented in %v, which is %v", from,
			p.target, p.caps.Orders)
	}
	return it.apply(ctx, reordered(order))
}

// sameStorage reports whether a tensor has the same bytes in both orders: the
// dimensions above 1 follow each other alike.
func sameStorage(shape tensor.Shape, a, b tensor.Order) bool {
	if slices.Contains(shape, 0) {
		return true
	}
	moving := func(o tensor.Order) (dims []int) {
		for i := range shape {
			d := i
			if o != nil {
				d = o[i]
			}
			if shape[d] != 1 {
				dims = append(dims, d)
			}
		}
		return dims
	}
	return slices.Equal(moving(a), moving(b))
}
