package quant

import (
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// A builder assembles a weight from its parts. The first error ends it; later calls have
// no effect.
type builder struct {
	*Weight
	f        *finder
	kind     string // if another weight of this kind is whole, a missing part is an error
	base     string // begins the names of the parts
	expected bool   // the configuration or a marker says that the weight is quantised
	ended    bool
}

// begin begins a weight of the shape, which is nil if it is not known yet.
func (f *finder) begin(kind, scheme, name, base string, codes *tensor.Tensor,
	shape tensor.Shape) *builder {
	w := f.weight(name, scheme, codes)
	w.Tensor.Shape = shape
	return &builder{Weight: w, f: f, kind: kind, base: base}
}

// part adds the stored tensor that is named base+suffix, and returns it, or nil if there
// is none.
func (b *builder) part(role, suffix string) *tensor.Tensor {
	t := b.f.stored[b.base+suffix]
	b.f.add(b.Weight, role, t)
	return t
}

// refuse ends the weight with an error in place of numbers.
func (b *builder) refuse(code Code, format string, args ...any) {
	if !b.ended {
		b.f.refuse(b.Weight, code, format, args...)
		b.f.kinds[b.kind] = true
	}
	b.ended = true
}

// check refuses a weight if err is not nil. It reports whether the weight is still valid.
func (b *builder) check(code Code, err error) bool {
	if err != nil {
		b.refuse(code, "%v", err)
	}
	return !b.ended
}

// lacks ends a weight that lacks a part. refuseIncomplete decides whether it is an error.
func (b *builder) lacks(suffix string) {
	if !b.ended {
		b.f.incomplete = append(b.f.incomplete,
			incomplete{b.kind, b.Weight, b.expected, b.base + suffix})
	}
	b.ended = true
}

// Dtypes that parts have.
var (
	floatScales = []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}
	exponents   = []tensor.DType{tensor.F8E8M0FNU, tensor.U8}
	scales8     = append(floatScales[:3:3], exponents...)
)

// needs refuses a weight unless the part t exists and has one of the dtypes and one of
// the shapes, if any are given. It reports whether the weight is still valid.
func (b *builder) needs(t *tensor.Tensor, suffix string, dtypes []tensor.DType,
	shapes ...tensor.Shape) bool {
	switch {
	case b.ended:
	case t == nil:
		b.lacks(suffix)
	case !slices.Contains(dtypes, t.DType):
		b.refuse(ScaleDType, "%s is %v, where %v is expected", suffix, t.DType, dtypes[0])
	case len(shapes) > 0 && !slices.ContainsFunc(shapes, t.Shape.Equal):
		b.refuse(ScaleShape, "%s has the shape %v, where %v is expected", suffix, t.Shape,
			shapes[0])
	case b.f.get(t.Name) != t:
		b.refuse(ScaleShape, "%s has no data of its shape", suffix)
	default:
		return true
	}
	return false
}

// needsNumber is needs for a single float32.
func (b *builder) needsNumber(t *tensor.Tensor, suffix string) bool {
	return b.needs(t, suffix, []tensor.DType{tensor.F32}, tensor.Shape{}, tensor.Shape{1},
		tensor.Shape{1, 1})
}

// without refuses a weight that has one of these parts, which its scheme does not have,
// or a part that changes the input of the layer: the numbers are then not the layer's
// weight.
func (b *builder) without(suffixes ...string) bool {
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

// disagrees adds the finding that the configuration contradicts the tensors, which
// decide.
func (b *builder) disagrees(format string, args ...any) {
	b.f.note(QuantizationConfig, tensor.SeverityError, b.Name,
		errorf(tensor.ErrMalformed, b.Name, format, args...))
}

// complete ends the weight with the numbers of m. prepare, if not nil, is called before
// numbers are read.
func (b *builder) complete(m *matrix, transposed bool, prepare func() error) *values {
	if b.ended {
		return nil
	}
	b.ended = true
	return b.f.complete(b.kind, b.Weight, m, transposed, prepare)
}

// matrixOf returns a shape as the sizes of a batch of matrices. A shape of rank 3 is a
// batch, a shape of rank 1 a row. The first dimension of any other shape becomes the
// rows, and all others together the columns.
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

// flatten returns the sizes of a matrix that has the last dimension as columns, and all
// others together as rows.
func flatten(s tensor.Shape) (rows, cols int64) {
	rows, _ = s[:len(s)-1].Elements()
	return rows, s[len(s)-1]
}

// withLast returns a shape with n as the last dimension.
func withLast(s tensor.Shape, n int64) tensor.Shape {
	return append(append(tensor.Shape{}, s[:len(s)-1]...), n)
}

// scaled multiplies the elements of m by scales. bm rows and bn columns share a scale.
// Scales of U8 are E8M0 exponents.
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

// withGlobal combines the scales of m, its last operation, with one number.
func (m *matrix) withGlobal(op operator, number *tensor.Tensor) *matrix {
	grid := m.ops[len(m.ops)-1].grid
	grid.ops = append(grid.ops, all(op, table(number, 1, 1, 1), grid.rows, grid.cols))
	return m
}

// fp4Of returns a matrix of E2M1 codes, two in a byte of t.
func fp4Of(t *tensor.Tensor, highFirst bool) *matrix {
	rows, half := flatten(t.Shape)
	return &matrix{batch: 1, rows: rows, cols: 2 * half,
		codes: nibblesOf(t.Data, rows, half, highFirst, e2m1)}
}
