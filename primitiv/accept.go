package primitiv

import (
	"errors"
	"fmt"
	"math"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// check reports what keeps a parameter out of a file.
func (p *Parameter) check(opts *WriterOptions) error {
	if _, err := opts.accepts(p.Value, 1); err != nil {
		return err
	}
	for _, e := range p.Path {
		if int64(len(e)) > math.MaxUint32 {
			return fmt.Errorf("%s: %w: a name of %d bytes", format, tensor.ErrLimit, len(e))
		}
	}
	if opts.NoStats {
		return nil
	}
	for i := range p.Stats {
		if err := p.Stats[i].check(opts); err != nil {
			return err
		}
	}
	again := repeated(len(p.Stats), func(i int) string { return p.Stats[i].Name })
	if again != nil {
		return fmt.Errorf("%s: two statistics %s of %s: %w",
			format, quote.Name(p.Stats[again[0]].Name), quotePath(p.Path), tensor.ErrDuplicate)
	}
	return nil
}

func (s *Statistic) check(opts *WriterOptions) error {
	if int64(len(s.Name)) > math.MaxUint32 {
		return fmt.Errorf("%s: %w: a name of %d bytes", format, tensor.ErrLimit, len(s.Name))
	}
	_, err := opts.accepts(s.Tensor, s.Batch)
	return err
}

// accepts returns the shape of a tensor as the format has it, or what keeps the tensor
// out of a file.
func (o *WriterOptions) accepts(t *tensor.Tensor, batch uint32) (Shape, error) {
	if err := t.Check(); err != nil {
		return Shape{}, fmt.Errorf("%s: %w", format, err)
	}
	refuse := func(err error) (Shape, error) {
		return Shape{}, fmt.Errorf("%s: tensor %s: %w", format, quote.Name(t.Name), err)
	}
	switch {
	case t.External:
		return refuse(fmt.Errorf("%w: it is kept in another file", errors.ErrUnsupported))
	case !t.Dense():
		return refuse(fmt.Errorf("%w: it is %s, primitiv has dense tensors alone",
			errors.ErrUnsupported, quote.Name(t.Scheme)))
	case t.DType != tensor.F32:
		return refuse(fmt.Errorf("%w: it is %v, primitiv has float32 alone",
			tensor.ErrDType, t.DType))
	case t.Data.Size() < 0:
		return refuse(fmt.Errorf("%w: its size is only known after decoding",
			errors.ErrUnsupported))
	case !o.Reorder && !columnMajor(t):
		return refuse(fmt.Errorf("%w: it is not column-major: see WriterOptions.Reorder",
			errors.ErrUnsupported))
	}
	s, err := shapeOf(t.Shape, batch)
	if err != nil {
		return refuse(err)
	}
	return s, nil
}

// columnMajor reports whether the elements of t are in the order of the format.
// Dimensions of one element do not count.
func columnMajor(t *tensor.Tensor) bool {
	have, ok1 := t.Order.Strides(t.Shape)
	want, ok2 := tensor.ColumnMajor(len(t.Shape)).Strides(t.Shape)
	if !ok1 || !ok2 {
		return false
	}
	for i, d := range t.Shape {
		if d > 1 && have[i] != want[i] {
			return false
		}
	}
	return true
}
