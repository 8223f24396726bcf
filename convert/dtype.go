package convert

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/tensor"
)

// significand is the number of significant bits of a type that counts as a
// number here, and whether it is an integer and signed.
func significand(d tensor.DType) (bits int, integer, signed, ok bool) {
	switch d {
	case tensor.Bool:
		return 1, true, false, true
	case tensor.U8, tensor.U16, tensor.U32, tensor.U64:
		return d.Bits(), true, false, true
	case tensor.I8, tensor.I16, tensor.I32, tensor.I64:
		return d.Bits() - 1, true, true, true
	case tensor.F16:
		return 11, false, true, true
	case tensor.BF16:
		return 8, false, true, true
	case tensor.F32:
		return 24, false, true, true
	case tensor.F64:
		return 53, false, true, true
	case tensor.F8E4M3FN, tensor.F8E4M3FNUZ:
		return 4, false, true, true
	case tensor.F8E5M2, tensor.F8E5M2FNUZ:
		return 3, false, true, true
	case tensor.F8E8M0FNU:
		return 1, false, false, true
	}
	return 0, false, false, false
}

// exponents is the range of a float type's powers of two, from its smallest
// subnormal to its largest value.
func exponents(d tensor.DType) (low, high int) {
	switch d {
	case tensor.F16:
		return -24, 15
	case tensor.BF16:
		return -133, 127
	case tensor.F32:
		return -149, 127
	case tensor.F64:
		return -1074, 1023
	case tensor.F8E4M3FN:
		return -9, 8
	case tensor.F8E4M3FNUZ:
		return -10, 7
	case tensor.F8E5M2:
		return -16, 15
	case tensor.F8E5M2FNUZ:
		return -17, 15
	case tensor.F8E8M0FNU:
		return -127, 127
	}
	return 0, 0
}

// widens reports whether every value of from is one of to. NaNs stay NaNs.
func widens(from, to tensor.DType) bool {
	switch {
	case from == tensor.C64 && to == tensor.C128,
		from == tensor.C32 && (to == tensor.C64 || to == tensor.C128):
		return true
	}
	fb, fi, fs, ok1 := significand(from)
	tb, ti, ts, ok2 := significand(to)
	switch {
	case !ok1 || !ok2 || to == tensor.Bool || to.IsFloat() && to.Bits() == 8:
		return false // what was no 8-bit float becomes none
	case fi && ti:
		return fb <= tb && (!fs || ts)
	case fi:
		_, high := exponents(to)
		return fb <= tb && fb-1 <= high
	case ti:
		return false
	}
	flow, fhigh := exponents(from)
	tlow, thigh := exponents(to)
	return fb <= tb && flow >= tlow && fhigh <= thigh && (!fs || ts)
}

// narrows reports whether values can be rounded, or, integers, refused where
// they do not fit.
func narrows(from, to tensor.DType) bool {
	if from == tensor.C128 && to == tensor.C64 {
		return true
	}
	_, fi, _, ok1 := significand(from)
	_, ti, _, ok2 := significand(to)
	if !ok1 || !ok2 || to == tensor.Bool || to.IsFloat() && to.Bits() == 8 {
		return false
	}
	return fi || !ti
}

// choose finds the type of a target that serves for d: the smallest that holds
// all its values, else the widest that rounds them, integers before floats for
// an integer and floats for a float.
func choose(d tensor.DType, have []tensor.DType) (to tensor.DType, kind LossKind) {
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
		return a < b // of bfloat16 and float16, of signed and unsigned, always the same
	}
	for _, x := range have {
		if widens(d, x) && better(x, to, true) {
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

// converted returns b, n elements of type from, as elements of type to.
func converted(b tensor.Blob, from, to tensor.DType, n int64) (tensor.Blob, error) {
	if !slices.Contains(tensor.DTypes(), to) || !widens(from, to) && !narrows(from, to) {
		return tensor.Blob{}, fmt.Errorf("%w: no way from %v to %v", tensor.ErrDType, from, to)
	}
	t, err := tensor.As(&tensor.Tensor{DType: from, Shape: tensor.Shape{n}, Data: b}, to)
	if err != nil {
		return tensor.Blob{}, err
	}
	return t.Data, nil
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

// narrowsIntegers reports whether not every integer of from is one of to.
func narrowsIntegers(from, to tensor.DType) bool {
	return from.IsInt() && to.IsInt() && !widens(from, to)
}

// checkIntegers reads the integers of a dense tensor, and reports one that to does
// not have.
func checkIntegers(ctx context.Context, t *tensor.Tensor, to tensor.DType) error {
	n, _ := t.Shape.Elements()
	data, err := converted(t.Data, t.DType, to, n)
	if err != nil {
		return err
	}
	r, err := data.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(steady(ctx, io.Discard, nil), r)
	return err
}
