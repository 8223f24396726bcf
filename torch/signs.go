package torch

import (
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// signed returns the values of a tensor that torch conjugates or negates as it reads.
// data has the elements in little-endian order.
func (a *array) signed(data tensor.Blob) (tensor.Blob, error) {
	d := a.dtype.d
	width := d.Align() // of a number: a complex element has two
	switch {
	case d.IsComplex():
		re, im := a.neg, a.neg != a.conj
		return numpy.Change(data, 2*width, a.signs(), func(p []byte) {
			for i := 0; i < len(p); i += 2 * width {
				if re {
					p[i+width-1] ^= 0x80
				}
				if im {
					p[i+2*width-1] ^= 0x80
				}
			}
		}), nil
	case d.IsFloat() && width > 1:
		return numpy.Change(data, width, a.signs(), func(p []byte) {
			for i := width - 1; i < len(p); i += width {
				p[i] ^= 0x80
			}
		}), nil
	case d.IsInt():
		return numpy.Change(data, width, a.signs(), func(p []byte) {
			for ; len(p) >= width; p = p[width:] {
				negate(p[:width])
			}
		}), nil
	}
	return tensor.Blob{}, malformed("negated elements of %s", a.dtype.name)
}

// signs returns the name of the encoding of the elements.
func (a *array) signs() string {
	switch {
	case a.conj && a.neg:
		return "conj neg"
	case a.conj:
		return "conj"
	}
	return "neg"
}

// negate negates a little-endian integer in two's complement.
func negate(p []byte) {
	carry := byte(1)
	for i := range p {
		p[i] = ^p[i] + carry
		if p[i] != 0 {
			carry = 0
		}
	}
}
