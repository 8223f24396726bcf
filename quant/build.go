package quant

import (
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// A build is a weight that is put together of its parts. The first thing that is wrong
// ends it; later calls have no effect.
type build struct {
	*Weight
	f     *finder
	kind  string // a weight of the same kind makes a missing part an error
	base  string // what names of parts begin with
	due   bool   // the configuration or a marker says that it is quantised
	ended bool
}

// begin begins a weight. shape is the shape of its elements, as far as it is known.
func (f *finder) begin(kind, scheme, name, base string, codes *tensor.Tensor,
	shape tensor.Shape) *build {
	w := f.weight(name, scheme, codes)
	w.Tensor.Shape = shape
	return &build{Weight: w, f: f, kind: kind, base: base}
}

// part adds the stored tensor whose name is the module's name and the suffix. It returns
// nil if there is none.
func (b *build) part(role, suffix string) *tensor.Tensor {
	t := b.f.stored[b.base+suffix]
	b.f.add(b.Weight, role, t)
	return t
}

// refuse ends the weight without numbers.
func (b *build) refuse(code Code, format string, args ...any) {
	if !b.ended {
		b.f.refuse(b.Weight, code, format, args...)
		b.f.seen[b.kind] = true
	}
	b.ended = true
}

// check refuses a weight for an error that is not nil.
func (b *build) check(code Code, err error) bool {
	if err != nil {
		b.refuse(code, "%v", err)
	}
	return !b.ended
}

// lacks ends a weight that lacks a part: whether it is one is known at the end.
func (b *build) lacks(suffix string) {
	if !b.ended {
		b.f.waiting = append(b.f.waiting, waiting{b.kind, b.Weight, b.due, b.base + suffix})
	}
	b.ended = true
}

// Dtypes that parts have.
var (
	floatScales = []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}
	exponents   = []tensor.DType{tensor.F8E8M0FNU, tensor.U8}
	scales8     = append(floatScales[:3:3], exponents...)
)

// needs reports whether a part is there, has one of these dtypes, and one of these
// shapes; without shapes it has any.
func (b *build) needs(t *tensor.Tensor, suffix string, dtypes []tensor.DType,
	shapes ...tensor.Shape) bool {
	switch {
	case b.ended:
	case t == nil:
		b.lacks(suffix)
	case !slices.Contains(dtypes, t.DType):
		b.refuse(ScaleDType, "%s is %v, where %v is due", suffix, t.DType, dtypes[0])
	case len(shapes) > 0 && !slices.ContainsFunc(shapes, t.Shape.Equal):
		b.refuse(ScaleShape, "%s has the shape %v, where %v is due", suffix, t.Shape, shapes[0])
	case b.f.get(t.Name) != t:
		b.refuse(ScaleShape, "%s has no data of its shape", suffix)
	default:
		return true
	}
	return false
}

// needsNumber is needs for one number of float32.
func (b *build) needsNumber(t *tensor.Tensor, suffix string) bool {
	return b.needs(t, suffix, []tensor.DType{tensor.F32}, tensor.Shape{}, tensor.Shape{1},
		tensor.Shape{1, 1})
}

// without refuses a weight that has a part which its scheme does not have, or one that
// changes what a layer computes from its input, so that the weight alone says nothing.
func (b *build) without(suffixes ...string) bool {
	for _, s := range []string{".pre_quant_scale", ".svdquant_lora_a", ".svdquant_lora_b"} {
		if b.f.stored[b.base+s] != nil && !b.ended {
			b.part("scale", s)
			b.refuse(UnknownQuantization, "%s changes what the layer computes", s[1:])
		}
	}
	for _, s := range suffixes {
		if b.f.stored[b.base+s] != nil && !b.ended {
			b.part("scale", s)
			b.refuse(QuantizationConfig, "%s is no part of %s", s[1:], b.Scheme)
		}
	}
	return !b.ended
}

// disagrees notes that the configuration says something else than the tensors, which
// decide.
func (b *build) disagrees(format string, args ...any) {
	b.f.note(QuantizationConfig, tensor.SeverityError, b.Name,
		errorf(tensor.ErrMalformed, b.Name, format, args...))
}

// complete gives the weight the numbers of m.
func (b *build) complete(m *matrix, transposed bool, prepare func() error) *values {
	if b.ended {
		return nil
	}
	b.ended = true
	return b.f.complete(b.kind, b.Weight, m, transposed, prepare)
}

// matrixOf returns a shape as a batch of matrices: a shape of rank 3 as it is, others
// with all but the first dimension as columns.
func matrixOf(s tensor.Shape) (batch, rows, cols int64) {
	batch, rows, cols = 1, 1, 1
	switch len(s) {
	case 0:
	case 1:
		cols = s[0]
	case 3:
		batch, rows, cols = s[0], s[1], s[2]
	default:
		rows = s[0]
		cols, _ = s[1:].Elements()
	}
	return batch, rows, cols
}

// flat returns a shape of rank 2 or more as one matrix: all dimensions but the last are
// rows.
func flat(s tensor.Shape) (rows, cols int64) {
	rows, _ = s[:len(s)-1].Elements()
	return rows, s[len(s)-1]
}

// last returns a shape with another last dimension.
func last(s tensor.Shape, n int64) tensor.Shape {
	return append(append(tensor.Shape{}, s[:len(s)-1]...), n)
}

// scaled multiplies the elements of m by scales, one for bm rows and bn columns. U8 is
// E8M0.
func (m *matrix) scaled(scale *tensor.Tensor, bm, bn int64) *matrix {
	bm, bn = max(bm, 1), max(bn, 1)
	batch := m.batch
	if n, _ := scale.Shape.Elements(); n == 1 {
		batch = 1
	}
	grid := table(scale, batch, ceil(m.rows, bm), ceil(m.cols, bn))
	if scale.DType == tensor.U8 {
		grid.codes.(*packed).unpack = unpackers[tensor.F8E8M0FNU]
	}
	m.ops = append(m.ops, operation{operator: multiply, grid: grid, rowSize: bm, colSize: bn})
	return m
}

// by combines the scales of m with one number.
func (m *matrix) by(op operator, number *tensor.Tensor) *matrix {
	grid := m.ops[len(m.ops)-1].grid
	grid.ops = append(grid.ops, all(op, table(number, 1, 1, 1), grid.rows, grid.cols))
	return m
}

// fp4Of returns a matrix of E2M1 codes of a shape whose last dimension is bytes.
func fp4Of(t *tensor.Tensor, highFirst bool) *matrix {
	rows, half := flat(t.Shape)
	return &matrix{batch: 1, rows: rows, cols: 2 * half,
		codes: nibblesOf(t.Data, rows, half, highFirst, e2m1)}
}
