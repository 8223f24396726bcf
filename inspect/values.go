package inspect

import (
	"context"
	"io"
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/tensor"
)

// ValuesOptions control [WriteValues].
type ValuesOptions struct {
	// JSON writes JSON on one line: NaN and infinities as [Float] does, complex numbers
	// as lists.
	JSON bool
	// Abbreviate leaves out the middle of long dimensions if there are more than 1000
	// elements.
	Abbreviate bool
}

// WriteValues writes the elements of a dense tensor to w, in row-major order and with all
// digits, as nested lists with the last dimension on a line. Text of NumPy is in the
// quotes of JSON, also without that option. It fails with tensor.ErrDType if the elements
// are neither numbers nor text.
func WriteValues(ctx context.Context, w io.Writer, t *tensor.Tensor, opts *ValuesOptions) error {
	v := &valueWriter{ctx: ctx, w: w}
	if opts != nil {
		v.ValuesOptions = *opts
	}
	v.shape = t.Shape
	if c, ok := charactersOf(t); ok {
		v.text, t = &c, c.Tensor
	}
	t, err := tensor.Slice(t) // in row-major order
	if err != nil {
		return err
	}
	if n, _ := v.shape.Elements(); v.Abbreviate && n > maxShown {
		return v.abbreviate(t)
	}
	return v.all(t)
}

// A valueWriter is the state of a call of WriteValues.
type valueWriter struct {
	ValuesOptions
	ctx  context.Context
	w    io.Writer
	text *characters // nil for numbers

	shape tensor.Shape
	gaps  []int64 // in each dimension: before which index elements are left out, or -1
	index []int64
	begun bool
	buf   []byte
}

// shownEdges is how many indices of an abbreviated dimension are shown at each end.
const shownEdges = 3

// maxShown is the max number of elements that are not abbreviated.
const maxShown = 1000

// all prints every element of a row-major tensor.
func (v *valueWriter) all(t *tensor.Tensor) error {
	v.begin(v.shape, nil)
	if err := v.elements(t, v.add); err != nil {
		return err
	}
	return v.end()
}

// abbreviate prints the elements at both ends of long dimensions.
func (v *valueWriter) abbreviate(t *tensor.Tensor) error {
	edges, whole := int64(shownEdges), v.shape
	if len(whole) > 3 {
		edges = 1
	}
	// Long dimensions have two segments that are read, others have one.
	shown, gaps := make(tensor.Shape, len(whole)), make([]int64, len(whole))
	segments := 1
	for d, n := range whole {
		if shown[d], gaps[d] = n, -1; n > 2*edges {
			shown[d], gaps[d] = 2*edges, edges
			segments *= 2
		}
	}
	total, _ := shown.Elements()
	strides, _ := tensor.Order(nil).Strides(shown)
	texts := make([]string, total)
	for s := range segments {
		var part []tensor.Index
		var size tensor.Shape
		first := int64(0)
		for d, n := range whole {
			r := tensor.Range{Stop: shown[d]}
			if gaps[d] >= 0 {
				if r.Stop = edges; s&1 == 1 {
					r = tensor.Range{Start: n - edges, Stop: n}
					first += edges * strides[d]
				}
				s >>= 1
			}
			part, size = append(part, r), append(size, r.Stop-r.Start)
		}
		x, err := tensor.Slice(t, part...)
		if err != nil {
			return err
		}
		own, _ := tensor.Order(nil).Strides(size)
		i := int64(0)
		if err := v.elements(x, func(text []byte) error {
			at := first
			for d := range size {
				at += i / own[d] % size[d] * strides[d]
			}
			texts[at] = string(text)
			i++
			return nil
		}); err != nil {
			return err
		}
	}
	v.begin(shown, gaps)
	for _, text := range texts {
		if err := v.add([]byte(text)); err != nil {
			return err
		}
	}
	return v.end()
}

func (v *valueWriter) begin(shape tensor.Shape, gaps []int64) {
	v.shape, v.gaps, v.index = shape, gaps, make([]int64, len(shape))
	v.begun = false
}

// add prints one element.
func (v *valueWriter) add(text []byte) error {
	rank := len(v.shape)
	if !v.begun {
		v.begun = true
		v.repeat('[', rank)
	} else {
		// The dimensions that turn over close, and open again.
		d := rank - 1
		for ; d > 0; d-- {
			if v.index[d]++; v.index[d] < v.shape[d] {
				break
			}
			v.index[d] = 0
		}
		if d == 0 {
			v.index[0]++
		}
		turned := rank - 1 - d
		v.repeat(']', turned)
		v.separate(turned, d)
		if v.gaps != nil && v.index[d] == v.gaps[d] {
			v.buf = append(v.buf, "..."...)
			v.separate(turned, d)
		}
		v.repeat('[', turned)
	}
	v.buf = append(v.buf, text...)
	if len(v.buf) < 32<<10 {
		return nil
	}
	_, err := v.w.Write(v.buf)
	v.buf = v.buf[:0]
	return err
}

func (v *valueWriter) separate(turned, d int) {
	v.buf = append(v.buf, ',')
	if turned == 0 || v.JSON {
		v.buf = append(v.buf, ' ')
	} else {
		v.buf = append(v.buf, '\n')
		v.repeat(' ', d+1)
	}
}

func (v *valueWriter) repeat(c byte, n int) {
	for range n {
		v.buf = append(v.buf, c)
	}
}

func (v *valueWriter) end() error {
	if v.begun {
		v.repeat(']', len(v.shape))
	} else {
		v.buf = append(v.buf, emptyLists(v.shape)...)
	}
	_, err := v.w.Write(v.buf)
	v.buf = v.buf[:0]
	return err
}

// emptyLists returns the lists of a tensor without elements; "[]" for very many.
func emptyLists(shape tensor.Shape) string {
	if shape[0] == 0 || len(shape) == 1 || shape[0] > 1<<10 {
		return "[]"
	}
	inner, s := emptyLists(shape[1:]), "["
	for i := range shape[0] {
		if i > 0 {
			s += ", "
		}
		if s += inner; len(s) > 1<<16 {
			return "[]"
		}
	}
	return s + "]"
}

// elements calls use with the text of each element.
func (v *valueWriter) elements(t *tensor.Tensor, use func(text []byte) error) error {
	if v.text != nil {
		return v.text.texts(v, t, use)
	}
	float := func(bits int) func(b []byte, f float64) []byte {
		return func(b []byte, f float64) []byte {
			if v.JSON && f-f != 0 {
				return append(appendReal(append(b, `{"$float": "`...), f, bits), `"}`...)
			}
			return appendReal(b, f, bits)
		}
	}
	single, double := float(32), float(64)
	switch d := t.DType; {
	case d == tensor.Bool:
		return texts(v.ctx, t, strconv.AppendBool, use)
	case d == tensor.F64:
		return texts(v.ctx, t, double, use)
	case d.IsFloat():
		return texts(v.ctx, t, func(b []byte, f float32) []byte { return single(b, float64(f)) },
			use)
	case d.IsComplex():
		part := single
		if d == tensor.C128 {
			part = double
		}
		return texts(v.ctx, t, func(b []byte, c complex128) []byte {
			if v.JSON {
				b = append(part(append(b, '['), real(c)), ", "...)
				return append(part(b, imag(c)), ']')
			}
			b = part(b, real(c))
			if text := part(nil, imag(c)); text[0] == '-' {
				b = append(b, text...)
			} else {
				b = append(append(b, '+'), text...)
			}
			return append(b, 'i')
		}, use)
	case d == tensor.U64:
		return texts(v.ctx, t,
			func(b []byte, u uint64) []byte { return strconv.AppendUint(b, u, 10) }, use)
	}
	return texts(v.ctx, t, func(b []byte, i int64) []byte { return strconv.AppendInt(b, i, 10) },
		use)
}

func texts[T tensor.Element](ctx context.Context, t *tensor.Tensor,
	appendOne func([]byte, T) []byte,
	use func(text []byte) error) error {
	var buf []byte
	for values, err := range tensor.Values[T](t) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for _, x := range values {
			buf = appendOne(buf[:0], x)
			if err := use(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// AppendValue appends an element as [Value] returns it for people to read: with all
// digits, NaN and infinities as nan, inf and -inf.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float32:
		return appendReal(b, float64(v), 32)
	case float64:
		return appendReal(b, v, 64)
	case Float:
		return appendReal(b, float64(v), 64)
	case Complex:
		b = appendReal(b, float64(v[0]), 64)
		if im := float64(v[1]); !math.Signbit(im) || math.IsNaN(im) {
			b = append(b, '+')
		}
		return append(appendReal(b, float64(v[1]), 64), 'i')
	}
	return append(b, '-')
}

func appendReal(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "nan"...)
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case math.IsInf(v, -1):
		return append(b, "-inf"...)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}
