package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// CompareOptions are options of [Compare]; nil is the zero value.
type CompareOptions struct {
	// Tolerance and Relative are tolerances: values are equal if their distance is at
	// most Tolerance + Relative × |value in b|. For complex numbers it applies to each
	// part.
	Tolerance, Relative float64
	// Numeric compares values if both tolerances are 0: NaN equals NaN and 0 equals -0.
	// Without it and without tolerances, elements of one dtype are equal if all their
	// bits are.
	Numeric bool
	// Figures asks for Mean, RMS, RelativeRMS and Cosine.
	Figures bool
	// Progress, if not nil, is called with the bytes of both sides read so far and in
	// all, from one goroutine at a time; the last call has done = total.
	Progress func(done, total int64)
}

// A Comparison says how the values of two tensors of one shape differ.
type Comparison struct {
	Different int64 `json:"different"` // number of elements that differ
	// NotFinite is how many of these have a NaN or an infinity on either side.
	NotFinite int64 `json:"not_finite,omitempty"`
	Of        int64 `json:"of"` // number of elements
	// First is the index of the first element that differs, in storage order.
	First []int64 `json:"first,omitempty"`
	A     any     `json:"a,omitempty"` // the first element that differs: see Value
	B     any     `json:"b,omitempty"`
	// Largest is the largest distance, within the tolerance or not; NaN if no values
	// differ.
	Largest Float `json:"largest"`
	// Figures are nil without CompareOptions.Figures, or if no two values are finite.
	*Figures
}

// Figures summarize the differences b - a of finite values. Sums have a fixed order, so
// that figures are the same for any number of cores.
type Figures struct {
	Mean        Float `json:"mean"`         // of b - a
	RMS         Float `json:"rms"`          // root of the mean square of b - a
	RelativeRMS Float `json:"relative_rms"` // RMS divided by the root of the mean square of a
	Cosine      Float `json:"cosine"`       // of the angle between a and b
}

// Equal reports whether no element differs.
func (c *Comparison) Equal() bool { return c.Different == 0 }

// Compare compares the values of two dense tensors. Their dtypes and their orders in
// memory may differ. It fails if their shapes differ, with tensor.ErrDType if one is
// complex and the other real or a dtype is unknown, with errors.ErrUnsupported if one is
// not dense or its data is in another file.
func Compare(ctx context.Context, a, b *tensor.Tensor, opts *CompareOptions) (*Comparison, error) {
	var o CompareOptions
	if opts != nil {
		o = *opts
	}
	if a == nil || b == nil {
		return nil, tensor.ErrNoTensor
	}
	m := format.NewMeter(o.Progress, sizeStored(a)+sizeStored(b))
	c, err := compare(ctx, a, b, o, m.Add)
	if err == nil {
		m.End()
	}
	return c, err
}

// compare is Compare with a counter in place of Progress.
func compare(ctx context.Context, a, b *tensor.Tensor, o CompareOptions,
	read counter) (*Comparison, error) {
	if !(o.Tolerance >= 0) || !(o.Relative >= 0) {
		return nil, errors.New("inspect: a tolerance is negative or NaN")
	}
	for _, t := range []*tensor.Tensor{a, b} {
		switch {
		case !t.Dense() || t.External:
			return nil, fmt.Errorf(
				"%w: comparing tensor %s, which is not dense or not in the file",
				errors.ErrUnsupported, naming.Quote(t.Name))
		case !t.DType.Known():
			return nil, fmt.Errorf("%w: comparing tensor %s, whose dtype is %v",
				tensor.ErrDType, naming.Quote(t.Name), t.DType)
		}
		if err := t.Check(); err != nil {
			return nil, err
		}
	}
	switch {
	case !a.Shape.Equal(b.Shape):
		return nil, fmt.Errorf("inspect: tensor %s: shapes %v and %v differ", naming.Quote(a.Name),
			a.Shape, b.Shape)
	case a.DType.IsComplex() != b.DType.IsComplex():
		return nil, fmt.Errorf("%w: %v and %v are not compared", tensor.ErrDType, a.DType, b.DType)
	}
	if !a.Order.Equal(b.Order) {
		var err error
		if a, err = rowMajor(a); err != nil {
			return nil, err
		}
		if b, err = rowMajor(b); err != nil {
			return nil, err
		}
	}
	o.Numeric = o.Numeric || o.Tolerance > 0 || o.Relative > 0 || a.DType != b.DType
	c := &comparer{ctx: ctx, a: a, b: b, o: &o, limits: o.limits(), read: read}
	if c.usesTable() {
		c.values = sync.OnceValue(func() []float64 {
			values, _ := valuesOf(a.DType, codesOf(a.DType))
			return values
		})
	}
	return c.run()
}

// usesTable reports whether values are looked up in a table of all codes. For 16 bits it
// pays above some 50,000 elements.
func (c *comparer) usesTable() bool {
	n, _ := c.a.Shape.Elements()
	switch d := c.a.DType; {
	case d != c.b.DType, d == tensor.Bool:
		return false
	default:
		return d.Bits() == 8 || d.Bits() == 16 && n >= 1<<16
	}
}

func rowMajor(t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.Order.RowMajor() {
		return t, nil
	}
	return tensor.Slice(t)
}

type comparer struct {
	read counter
	ctx  context.Context
	a, b *tensor.Tensor
	o    *CompareOptions
	limits
	// values returns the values of all codes of the dtype; nil if they are not looked up.
	values func() []float64
}

// A pieceComparison is the result for a piece, or for all pieces so far.
type pieceComparison struct {
	of, different, first int64 // first is -1 if nothing differs
	largest              float64
	finite, notFinite    int64
	sum, squares         float64 // of differences
	aa, bb, ab           float64
	x, y                 []float64
}

func (c *comparer) run() (*Comparison, error) {
	total := pieceComparison{first: -1, largest: math.NaN()}
	n, _ := c.a.Shape.Elements()
	if err := c.eachPiece(n, func(r *pieceComparison) error {
		if r.different > 0 && total.first < 0 {
			total.first = total.of + r.first
		}
		total.of += r.of
		total.different += r.different
		if r.largest > 0 && !(r.largest <= total.largest) {
			total.largest = r.largest
		}
		total.finite += r.finite
		total.notFinite += r.notFinite
		total.sum += r.sum
		total.squares += r.squares
		total.aa += r.aa
		total.bb += r.bb
		total.ab += r.ab
		return nil
	}); err != nil {
		return nil, err
	}
	out := &Comparison{Different: total.different, NotFinite: total.notFinite, Of: total.of,
		Largest: Float(total.largest)}
	switch {
	case !c.o.Figures:
	case total.finite > 0:
		count := float64(total.finite)
		out.Figures = &Figures{
			Mean:        Float(total.sum / count),
			RMS:         Float(math.Sqrt(total.squares / count)),
			RelativeRMS: Float(math.Sqrt(total.squares / total.aa)),
			Cosine:      Float(total.ab / math.Sqrt(total.aa) / math.Sqrt(total.bb)),
		}
	}
	if total.first >= 0 {
		var err error
		if out.First, err = c.index(total.first); err == nil {
			out.A, err = elementAt(c.a, out.First)
		}
		if err == nil {
			out.B, err = elementAt(c.b, out.First)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// index returns the index of an element from its position in storage.
func (c *comparer) index(position int64) ([]int64, error) {
	index := make([]int64, len(c.a.Shape))
	strides, ok := c.a.Order.Strides(c.a.Shape)
	if !ok {
		return nil, tensor.ErrMalformed
	}
	for d := range index {
		index[d] = position / strides[d] % max(c.a.Shape[d], 1)
	}
	return index, nil
}

// elementAt returns one element as Value does.
func elementAt(t *tensor.Tensor, index []int64) (any, error) {
	var at []tensor.Index
	for _, i := range index {
		at = append(at, tensor.At(i))
	}
	one, err := tensor.Slice(t, at...)
	if err != nil {
		return nil, err
	}
	return Value(one)
}

// eachPiece compares n elements piece by piece.
func (c *comparer) eachPiece(n int64, use func(*pieceComparison) error) error {
	if c.a.DType.Bits() == c.b.DType.Bits() {
		return eachPiece(c.ctx, []tensor.Blob{c.a.Data, c.b.Data}, c.read,
			func(off int64, ps [][]byte, r *pieceComparison) error {
				bits := int64(c.a.DType.Bits())
				k := min(int64(len(ps[0]))*8/bits, n-off*8/bits)
				return c.piece(c.part(c.a, ps[0], k), c.part(c.b, ps[1], k), ps, r)
			}, use)
	}
	// Elements of different widths are converted to the widest dtype of their kind.
	// uint64 stays as it is.
	to := tensor.F64
	switch a, b := c.a.DType, c.b.DType; {
	case a.IsComplex():
		to = tensor.C128
	case a.IsInt() && b.IsInt():
		to = tensor.I64
	}
	convert := func(t *tensor.Tensor) (*tensor.Tensor, error) {
		if to == tensor.I64 && t.DType == tensor.U64 {
			return t, nil
		}
		return tensor.As(t, to)
	}
	x, err := convert(c.a)
	if err != nil {
		return err
	}
	y, err := convert(c.b)
	if err != nil {
		return err
	}
	wide := &comparer{ctx: c.ctx, a: x, b: y, o: c.o, limits: c.limits, read: c.read}
	return wide.eachPiece(n, use)
}

func (c *comparer) part(t *tensor.Tensor, p []byte, n int64) *tensor.Tensor {
	size, _ := t.DType.Bytes(n)
	return &tensor.Tensor{Name: t.Name, DType: t.DType, Shape: tensor.Shape{n},
		Data: tensor.BlobOf(p[:size])}
}

// piece compares two pieces of the same number of elements.
func (c *comparer) piece(a, b *tensor.Tensor, raw [][]byte, r *pieceComparison) error {
	n, _ := a.Shape.Elements()
	*r = pieceComparison{of: n, first: -1, largest: math.NaN(), x: r.x, y: r.y}
	sameBits := a.DType == b.DType && bytes.Equal(raw[0], raw[1])
	if sameBits && !c.o.Figures {
		return nil
	}
	switch {
	case a.DType.IsComplex():
		return c.complexPiece(a, b, raw, r)
	case is64(a.DType) && is64(b.DType):
		return c.integerPiece(a, b, raw, r)
	}
	return c.realPiece(a, b, raw, r)
}

func resize[T any](s []T, n int64) []T {
	if int64(cap(s)) < n {
		return make([]T, n)
	}
	return s[:n]
}

func (r *pieceComparison) differ(i int64) {
	if r.different++; r.first < 0 {
		r.first = i
	}
}

func is64(d tensor.DType) bool { return d == tensor.I64 || d == tensor.U64 }

// integerPiece compares int64 and uint64, which float64 cannot represent, with each
// other.
func (c *comparer) integerPiece(a, b *tensor.Tensor, raw [][]byte, r *pieceComparison) error {
	y := typed[uint64](raw[1][:8*r.of])
	for i, u := range typed[uint64](raw[0][:8*r.of]) {
		v := y[i]
		if u == v && a.DType == b.DType {
			continue
		}
		isNegativeU, isNegativeV := a.DType == tensor.I64 && int64(u) < 0,
			b.DType == tensor.I64 && int64(v) < 0
		away := float64(max(u, v) - min(u, v))
		if isNegativeU {
			u = -u
		}
		if isNegativeV {
			v = -v
		}
		if isNegativeU != isNegativeV {
			away = float64(u) + float64(v)
		}
		if away == 0 {
			continue
		}
		r.addDistance(away)
		if !c.o.Numeric || !(away <= c.o.Tolerance+float64(c.o.Relative*float64(v))) {
			r.differ(int64(i))
		}
	}
	return c.integerFigures(a, b, r)
}

func (c *comparer) integerFigures(a, b *tensor.Tensor, r *pieceComparison) error {
	if !c.o.Figures {
		return nil
	}
	r.x, r.y = resize(r.x, r.of), resize(r.y, r.of)
	if err := tensor.ConvertInto(r.x, a); err != nil {
		return err
	}
	if err := tensor.ConvertInto(r.y, b); err != nil {
		return err
	}
	addFigures(r, r.x, r.y)
	return nil
}

func (c *comparer) complexPiece(a, b *tensor.Tensor, raw [][]byte, r *pieceComparison) error {
	x, err := tensor.Convert[complex128](a)
	if err != nil {
		return err
	}
	y, err := tensor.Convert[complex128](b)
	if err != nil {
		return err
	}
	w := a.DType.Size()
	for i, u := range x {
		v := y[i]
		parts := pieceComparison{first: -1, largest: r.largest}
		p, q := raw[0][i*w:(i+1)*w], raw[1][i*w:(i+1)*w]
		compareEach(c, &parts, []float64{real(u), imag(u)}, []float64{real(v), imag(v)}, 0, p, q)
		r.addDistance(parts.largest)
		if parts.different > 0 {
			r.differ(int64(i))
		}
		r.notFinite += min(parts.notFinite, 1)
	}
	return nil
}
