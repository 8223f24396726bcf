package convert

import (
	"context"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkDType reports a dtype from Options.Map that the tensor cannot have in the
// target.
func (p *Plan) checkDType(t *tensor.Tensor, want tensor.DType) error {
	switch {
	case want == tensor.Unknown || want == t.DType:
		return nil
	case !p.caps.Holds(want):
		return &OptionError{"Map", fmt.Errorf("%w: %v has no %v", tensor.ErrDType,
			p.describeTarget(), want)}
	case t.Dense() && !widens(t.DType, want) && !narrows(t.DType, want):
		return &OptionError{"Map", fmt.Errorf("%w: %v cannot become %v", tensor.ErrDType, t.DType,
			want)}
	}
	return nil
}

func (p *Plan) planDType(ctx context.Context, it *item) error {
	if !it.t.Dense() {
		return nil
	}
	if it.t.DType == tensor.Bool {
		it.apply(ctx, validBools)
	}
	from, to := it.t.DType, it.want
	if it.quantize != "" {
		to = tensor.F32
	}
	if to == tensor.Unknown {
		if p.caps.Holds(from) || from == tensor.Unknown && p.target == tensorfile.ZTensor &&
			p.checker.check(&it.t) == nil {
			return nil // the same, or a word of the file's own that can be kept
		}
		var kind LossKind
		if to, kind = choose(from, p.caps.DTypes); to == tensor.Unknown {
			word := from.String()
			if st, ok := it.t.Data.Stored(); ok && from == tensor.Unknown {
				word = naming.Quote(st.Type)
			}
			return fmt.Errorf(
				"%s cannot be represented in %v, nor is there a dtype to convert it to",
				word, p.describeTarget())
		}
		p.lose(kind, fieldOf(it.src), "%v is stored as %v", from, to)
	}
	if to == from {
		return nil
	}
	if narrowsIntegers(from, to) {
		if err := checkIntegers(ctx, &it.t, to); err != nil && !unreadable(err) {
			return err
		}
	}
	return it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		n, _ := t.Shape.Elements()
		data, err := converted(t.Data, from, to, n)
		if err != nil {
			return nil, err
		}
		out := *t
		out.DType, out.Data = to, data
		return &out, nil
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
