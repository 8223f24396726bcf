package convert

import (
	"context"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// A domain is the set of numbers that the elements of a dtype, or of quantised blocks,
// have: sign, significand and exponent.
type domain struct {
	bits      int // of a significand, or of the magnitude of an integer
	low, high int // powers of two: of the smallest number above 0, and of the largest
	signed    bool
	integer   bool
	infinite  bool // it has infinities
}

// domainOf returns the numbers of a dtype, false if its elements are not real numbers.
// Quantised integers and opaque bits are integers here.
func domainOf(d tensor.DType) (n domain, ok bool) {
	switch {
	case d == tensor.Bool:
		return domain{bits: 1, integer: true}, true
	case d == tensor.I2, d == tensor.I4, d == tensor.I8, d == tensor.I16, d == tensor.I32,
		d == tensor.I64, d == tensor.QI8,
		d == tensor.QI32:
		return domain{bits: d.Bits() - 1, high: d.Bits() - 1, signed: true, integer: true}, true
	case d.Known() && !d.IsFloat() && !d.IsComplex():
		return domain{bits: d.Bits(), high: d.Bits() - 1, integer: true}, true
	}
	switch d {
	case tensor.F16:
		return domain{bits: 11, low: -24, high: 15, signed: true, infinite: true}, true
	case tensor.BF16:
		return domain{bits: 8, low: -133, high: 127, signed: true, infinite: true}, true
	case tensor.F32:
		return domain{bits: 24, low: -149, high: 127, signed: true, infinite: true}, true
	case tensor.F64:
		return domain{bits: 53, low: -1074, high: 1023, signed: true, infinite: true}, true
	case tensor.F8E4M3FN:
		return domain{bits: 4, low: -9, high: 8, signed: true}, true
	case tensor.F8E4M3FNUZ:
		return domain{bits: 4, low: -10, high: 7, signed: true}, true
	case tensor.F8E5M2:
		return domain{bits: 3, low: -16, high: 15, signed: true, infinite: true}, true
	case tensor.F8E5M2FNUZ:
		return domain{bits: 3, low: -17, high: 15, signed: true}, true
	case tensor.F8E8M0FNU:
		return domain{bits: 1, low: -127, high: 127}, true
	case tensor.F6E2M3FN:
		return domain{bits: 4, low: -3, high: 2, signed: true}, true
	case tensor.F6E3M2FN:
		return domain{bits: 3, low: -4, high: 4, signed: true}, true
	case tensor.F4E2M1FN:
		return domain{bits: 2, low: -1, high: 2, signed: true}, true
	}
	return domain{}, false
}

// domainOfBlocks returns the numbers of a type of quantised blocks. Where a scale is
// multiplied by more than a power of two, they are values of float32, as which they are
// decoded.
func domainOfBlocks(kind ggml.Type) domain {
	switch kind.Name {
	case "MXFP4": // a power of two by float4_e2m1fn
		return domain{bits: 2, low: -128, high: 127, signed: true, infinite: true}
	case "NVFP4": // float8_e4m3fn by float4_e2m1fn
		return domain{bits: 6, low: -10, high: 11, signed: true}
	case "TQ1_0", "Q1_0": // a float16, its negative, or 0
		n, _ := domainOf(tensor.F16)
		return n
	case "TQ2_0", "Q2_0", "PQ2_0": // or the double
		n, _ := domainOf(tensor.F16)
		n.high++
		return n
	}
	n, _ := domainOf(tensor.F32)
	return n
}

// within reports whether m has every number of n.
func (n domain) within(m domain) bool {
	return !n.rounds(m) && n.high <= m.high && (!n.infinite || m.infinite)
}

// rounds reports whether n has numbers in the range of m that m does not have.
func (n domain) rounds(m domain) bool {
	return n.bits > m.bits || n.low < m.low || n.signed && !m.signed || m.integer && !n.integer
}

// widens reports whether every value of from is one of to. NaNs stay NaNs, and a negative
// zero is a zero where the dtype has no other.
func widens(from, to tensor.DType) bool {
	n, ok1 := domainOf(part(from, to))
	m, ok2 := domainOf(part(to, to))
	return ok1 && ok2 && tensor.CanConvert(from, to) == nil && n.within(m)
}

// part returns the dtype of the parts of complex numbers, if to has them.
func part(d, to tensor.DType) tensor.DType {
	switch {
	case !d.IsComplex() || !to.IsComplex():
		return d
	case d == tensor.C32:
		return tensor.F16
	case d == tensor.C64:
		return tensor.F32
	}
	return tensor.F64
}

// loses reports whether numbers of n can be lost when they become elements of to, and
// that is no error: integers fit exactly, and an overflow is an error unless it is
// allowed.
func (p *Plan) loses(n domain, to tensor.DType) bool {
	m, _ := domainOf(part(to, to))
	return !exactOnly(to) && (n.rounds(m) || p.opts.Allow&LossOverflow != 0 && !n.within(m))
}

// exactOnly reports whether a value that a dtype does not have is an error, not rounded.
func exactOnly(to tensor.DType) bool { return !to.IsFloat() && !to.IsComplex() }

// narrows reports whether a target that lacks from gets its values, rounded, as to, which
// nobody asked for: never integers in place of floats, nor floats of less than 16 bits.
func narrows(from, to tensor.DType) bool {
	switch {
	case from.IsComplex() || to.IsComplex():
		return from.IsComplex() && to.IsComplex() && from.Bits() > to.Bits()
	case from.IsFloat():
		return to.IsFloat() && to.Bits() >= 16
	}
	return (from.IsInt() || from == tensor.Bool) && (to.IsInt() || to.IsFloat() && to.Bits() >= 16)
}

// choose finds the type of a target that serves for d: the smallest that holds
// all its values, else the widest that rounds them, integers before floats for
// an integer and floats for a float. Quantised integers and opaque bits are no numbers of
// their own: nothing serves for them, nor they for anything.
func choose(d tensor.DType, have []tensor.DType) (to tensor.DType, kind LossKind) {
	isNumber := func(x tensor.DType) bool {
		return x == tensor.Bool || x.IsInt() || x.IsFloat() || x.IsComplex()
	}
	if !isNumber(d) {
		return tensor.Unknown, 0
	}
	better := func(a, b tensor.DType, smaller bool) bool { // a is better than b
		if b == tensor.Unknown {
			return true
		}
		integer := d.IsInt() || d == tensor.Bool
		if x, y := a.IsInt() == integer, b.IsInt() == integer; x != y {
			return x
		}
		if a.Bits() != b.Bits() {
			return (a.Bits() < b.Bits()) == smaller
		}
		if d == tensor.U4 || d == tensor.U2 {
			return a == tensor.U8
		}
		return a < b // of bfloat16 and float16, of signed and unsigned, always the same
	}
	for _, x := range have {
		if isNumber(x) && widens(d, x) && better(x, to, true) {
			to, kind = x, LossWiden
		}
	}
	if to != tensor.Unknown {
		return to, kind
	}
	for _, x := range have {
		if narrows(d, x) && better(x, to, false) {
			to, kind = x, LossNarrow
		}
	}
	return to, kind
}

// validBools makes reads of a bool tensor fail at a byte other than 0 and 1.
func validBools(_ context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	out, data := *t, t.Data
	out.Data = tensor.BlobFunc(data.Size(), func() (io.ReadCloser, error) {
		r, err := data.Open()
		if err != nil {
			return nil, err
		}
		return &boolReader{r: r}, nil
	})
	return &out, nil
}

type boolReader struct {
	r    io.ReadCloser
	read int64
}

func (b *boolReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	for i, v := range p[:n] {
		if v > 1 {
			return 0, fmt.Errorf("%w: byte %d is %d, no value of bool", tensor.ErrMalformed,
				b.read+int64(i), v)
		}
	}
	b.read += int64(n)
	return n, err
}

func (b *boolReader) Close() error { return b.r.Close() }

// checkExact reads the elements of a dense tensor, and reports one that is no element of
// to, an integer dtype or bool.
func checkExact(ctx context.Context, t *tensor.Tensor, to tensor.DType) error {
	as, err := tensor.As(t, to)
	if err != nil {
		return err
	}
	r, err := as.Data.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(format.Until(ctx, io.Discard), r)
	return err
}
