package tensor

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/le"
)

// overflowed returns the index of the first of n elements that is a number in src and an
// infinity or NaN in dst, or an infinity in src and NaN in dst; -1 if there is none.
func overflowed(dst []byte, to DType, src []byte, from DType, n int) int {
	width := 1 // components of an element of to
	if to.IsComplex() {
		width, to = 2, component(to)
	}
	for first := 0; first < n; first += blockLen / 2 {
		k := min(blockLen/2, n-first)
		size := width * to.Size()
		part := dst[first*size : (first+k)*size]
		if notFinite(part, to) < 0 {
			continue
		}
		var was, is [blockLen]float64
		decodeFloat64(is[:k*width], part, to, true)
		switch part := src[first*from.Bits()/8 : ((first+k)*from.Bits()+7)/8]; {
		case from.IsComplex():
			decodeFloat64(was[:k*width], part, component(from), true)
		default:
			decodeFloat64(was[:k], part, from, true)
			for i := k - 1; i > 0 && width == 2; i-- {
				was[2*i], was[i] = was[i], 0 // the real part; is has zeros for the other
			}
		}
		for i, v := range is[:k*width] {
			if v != v && was[i] == was[i] || math.IsInf(v, 0) && !math.IsInf(was[i], 0) {
				return first + i/width
			}
		}
	}
	return -1
}

// notFinite returns the index of the first element that is an infinity or NaN, or -1.
// Only float dtypes that are encoded have such elements.
func notFinite(b []byte, d DType) int {
	switch d {
	case F16:
		return masked[uint16](b, 0x7c00)
	case BF16:
		return masked[uint16](b, 0x7f80)
	case F32:
		return masked[uint32](b, 0x7f800000)
	case F64:
		return masked[uint64](b, 0x7ff0000000000000)
	case F8E4M3FN:
		return masked[uint8](b, 0x7f)
	case F8E5M2:
		return masked[uint8](b, 0x7c)
	case F8E4M3FNUZ, F8E5M2FNUZ: // whose one NaN has the bits of a negative zero
		for i, v := range b {
			if v == 0x80 {
				return i
			}
		}
	}
	return -1
}

// masked returns the index of the first element in which all bits of mask are set, or -1.
func masked[E uint8 | uint16 | uint32 | uint64](b []byte, mask E) int {
	s, _ := le.Cast[E](b)
	for i, v := range s {
		if v&mask == mask {
			return i
		}
	}
	return -1
}

// number returns element i of a real dtype.
func number(b []byte, d DType, i int) float64 {
	if d.Size() > 0 {
		var one [1]float64
		decodeFloat64(one[:], b[i*d.Size():(i+1)*d.Size()], d, true)
		return one[0]
	}
	all := make([]float64, i+1) // elements of less than a byte
	decodeFloat64(all, b[:((i+1)*d.Bits()+7)/8], d, true)
	return all[i]
}

// elementText returns element i in the digits that its dtype needs.
func elementText(b []byte, d DType, i int) string {
	switch {
	case d == I64:
		s, _ := le.Cast[int64](b)
		return strconv.FormatInt(s[i], 10)
	case d == U64:
		s, _ := le.Cast[uint64](b)
		return strconv.FormatUint(s[i], 10)
	case d.IsComplex():
		part := component(d)
		return fmt.Sprintf("(%s, %s)", elementText(b, part, 2*i), elementText(b, part, 2*i+1))
	case d == F64:
		return strconv.FormatFloat(number(b, d, i), 'g', -1, 64)
	case d.IsFloat():
		return strconv.FormatFloat(number(b, d, i), 'g', -1, 32)
	}
	return strconv.FormatFloat(number(b, d, i), 'f', -1, 64)
}
