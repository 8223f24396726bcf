package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// planLayout plans everything but the elements of a dense tensor.
func (p *Plan) planLayout(ctx context.Context, it *item) error {
	kind, isBlocks := format.BlocksOf(&it.t)
	dtype := cmp.Or(it.want, p.opts.Dequantize)
	switch {
	case it.weight.Scheme != "":
		return p.planDequantize(ctx, it, it.weight.Scheme, domainOfScheme(it.weight.Scheme), dtype)
	case it.t.Dense():
		return p.planExtras(ctx, it)
	case isBlocks && dtype != tensor.Unknown:
		return p.planDequantize(ctx, it, kind.Name, domainOfBlocks(kind), dtype)
	case isBlocks && p.caps.Blocks && !p.caps.Sparse:
		return nil
	case isBlocks && !p.caps.Sparse:
		return preventable{"Dequantize", fmt.Errorf("blocks of %s cannot be represented in %v",
			kind.Name, p.target)}
	case p.caps.Sparse && (!p.opts.Dense || !sparse.Known(it.t.Scheme)):
		return p.planParts(ctx, it)
	case !sparse.Known(it.t.Scheme):
		return fmt.Errorf("%s cannot be represented in %v, and has no dense form",
			naming.Quote(it.t.Scheme), p.target)
	}
	// The indices decide whether there is a dense tensor.
	if _, err := sparse.Densify(ctx, &it.t, p.sparseOptions()); err != nil && !unreadable(err) {
		return err
	}
	if !p.opts.Dense {
		p.lose(LossDensify, fieldOf(it.src), "%s cannot be represented in %v", it.t.Scheme,
			p.target)
	}
	return it.apply(ctx, densified(p.sparseOptions()))
}

// A preventable error is the reason of a loss that a field of Options prevents.
type preventable struct {
	option string
	error
}

func (p *Plan) sparseOptions() *sparse.Options {
	return &sparse.Options{Duplicates: p.opts.Duplicates}
}

// planExtras drops the parts of a dense tensor that the target cannot represent.
func (p *Plan) planExtras(ctx context.Context, it *item) error {
	if len(it.t.Parts) == 0 || p.caps.Extras {
		return nil
	}
	for i := range it.t.Parts {
		p.lose(LossParts, fieldOf(it.src)+"."+it.t.Parts[i].Role,
			"parts of a dense tensor cannot be represented in %v", p.target)
	}
	return it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
		bare := *t
		bare.Parts = nil
		return &bare, nil
	})
}

// planSparse makes a dense tensor sparse, as Options.Sparse asks for.
func (p *Plan) planSparse(ctx context.Context, it *item) error {
	s := p.opts.Sparse
	if s == "" || !it.t.Dense() || sparse.Known(it.src.Scheme) ||
		s == "sparse_csr" && len(it.t.Shape) != 2 {
		return nil
	}
	if err := it.apply(ctx, sparsified(s)); err != nil && !unreadable(err) {
		return err
	}
	return nil
}

// unreadable reports whether err comes from reading, which Write will report, and
// not from what the target can represent. That bytes cannot be decoded has an
// offset; that indices do not fit has none.
func unreadable(err error) bool {
	if err == nil {
		return false
	}
	var placed *tensor.FormatError
	if errors.As(err, &placed) && errors.Is(err, tensor.ErrMalformed) {
		return true
	}
	for _, other := range []error{tensor.ErrMalformed, tensor.ErrDType, tensor.ErrLimit,
		errors.ErrUnsupported} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// planParts gives the parts of a tensor that is not dense dtypes that the target
// has: what no dtype is known of, such as quantised blocks, is bytes.
func (p *Plan) planParts(ctx context.Context, it *item) error {
	if err := it.apply(ctx, typed); err != nil {
		return err
	}
	for i := range it.t.Parts {
		if part := &it.t.Parts[i]; !p.caps.Holds(part.DType) {
			return fmt.Errorf("%v in its part %s cannot be represented in %v", part.DType,
				naming.Quote(part.Role), p.describeTarget())
		}
	}
	scheme := it.t.Scheme
	if scheme == sparse.COO && it.t.Part("coords") == nil && it.t.Part("indices") != nil {
		step := remade(func(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
			return sparse.Sort(ctx, t, p.sparseOptions())
		})
		if err := it.apply(ctx, step); err != nil && !unreadable(err) {
			return err
		}
	}
	switch {
	case p.version == "2" && (scheme == "sparse_csr" || scheme == "sparse_coo"):
		if err := it.apply(ctx, ordered(p.sparseOptions())); err != nil && !unreadable(err) {
			return err
		}
	case p.version != "2" && (scheme == "zt.sparse_csr/1" || scheme == "zt.sparse_coo/1"):
		return it.apply(ctx, func(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
			old := *t
			old.Scheme = sparse.COO
			if t.Scheme == "zt.sparse_csr/1" {
				old.Scheme = sparse.CSR
			}
			return &old, nil
		})
	}
	return nil
}

// typed gives a dtype to what has none.
func typed(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	out := *t
	out.Parts = slices.Clone(t.Parts)
	for i := range out.Parts {
		switch part := &out.Parts[i]; {
		case part.DType != tensor.Unknown:
		case t.Scheme == "sparse_csr" || t.Scheme == "sparse_coo":
			part.DType = tensor.U64 // an index: zTensor 1.0 does not write its dtype
		default:
			part.DType = tensor.U8
		}
	}
	if t.DType == tensor.Unknown {
		out.DType = tensor.U8
	}
	return &out, nil
}
