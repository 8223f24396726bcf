package tensor

import "math"

// Float16 is an IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits.
type Float16 uint16

// Float32 converts without loss. The fraction bits of a NaN keep their places,
// so that NewFloat16 gives the same NaN back.
func (f Float16) Float32() float32 {
	sign := uint32(f&0x8000) << 16
	exp := uint32(f>>10) & 0x1f
	frac := uint32(f & 0x3ff)
	switch exp {
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case 0:
		v := float32(frac) * 0x1p-24 // exact
		return math.Float32frombits(sign | math.Float32bits(v))
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// NewFloat16 rounds to the nearest, ties to even. Values that round beyond
// 65504 become infinities. A NaN keeps its sign and the upper bits of its
// fraction, and stays a NaN.
func NewFloat16(v float32) Float16 {
	b := math.Float32bits(v)
	sign := Float16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		f := Float16(b >> 13 & 0x3ff)
		if f == 0 {
			f = 1 // only low fraction bits were set: keep it a NaN
		}
		return sign | 0x7c00 | f
	case b >= 0x477ff000: // 65520 is where rounding leaves the range
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: the result is subnormal
		// Adding 0.5 makes the float adder round at 2^-24, the last place.
		sum := math.Float32frombits(b) + 0.5
		return sign | Float16(math.Float32bits(sum)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1 // half of the last place, or one less where that is even
	return sign | Float16((b-(127-15)<<23)>>13)
}

// BFloat16 is the upper half of a float32: 1 sign, 8 exponent, 7 fraction bits.
type BFloat16 uint16

// Float32 converts without loss, NaN payloads included.
func (f BFloat16) Float32() float32 { return math.Float32frombits(uint32(f) << 16) }

// NewBFloat16 rounds to the nearest, ties to even. A NaN keeps its sign and the
// upper bits of its fraction, and stays a NaN.
func NewBFloat16(v float32) BFloat16 {
	b := math.Float32bits(v)
	if b&0x7fffffff > 0x7f800000 {
		f := BFloat16(b >> 16)
		if f&0x7f == 0 {
			f |= 1
		}
		return f
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// Float8E4M3FN has 4 exponent bits of bias 7 and 3 fraction bits; no
// infinities, 0x7f and 0xff are NaN, the largest value is 448.
type Float8E4M3FN uint8

// Float32 converts without loss; a NaN keeps its sign.
func (f Float8E4M3FN) Float32() float32 {
	if f&0x7f == 0x7f {
		return math.Float32frombits(0x7fc00000 | uint32(f&0x80)<<24)
	}
	return small(uint8(f), 3, 7)
}

// NewFloat8E4M3FN rounds to the nearest, ties to even. A value that rounds beyond 448,
// infinities included, becomes NaN, as in PyTorch and ml_dtypes.
func NewFloat8E4M3FN(v float32) Float8E4M3FN {
	bits, over := round8(v, 3, 7, 0x7e)
	if over {
		bits = bits&0x80 | 0x7f
	}
	return Float8E4M3FN(bits)
}

// Float8E5M2 has 5 exponent bits of bias 15 and 2 fraction bits, with
// infinities and NaNs as IEEE 754 has them; the largest finite value is 57344.
type Float8E5M2 uint8

// Float32 converts without loss, NaN payloads included.
func (f Float8E5M2) Float32() float32 { return (Float16(f) << 8).Float32() }

// NewFloat8E5M2 rounds to the nearest, ties to even; what rounds beyond the
// range becomes an infinity, a NaN stays a NaN.
func NewFloat8E5M2(v float32) Float8E5M2 {
	if v != v {
		f := NewFloat16(v) >> 8
		if f&3 == 0 {
			f |= 1
		}
		return Float8E5M2(f)
	}
	bits, over := round8(v, 2, 15, 0x7b)
	if over {
		bits = bits&0x80 | 0x7c
	}
	return Float8E5M2(bits)
}

// Float8E4M3FNUZ has 4 exponent bits of bias 8 and 3 fraction bits; no
// infinities, no negative zero, 0x80 is the only NaN, the largest value is 240.
type Float8E4M3FNUZ uint8

// Float32 converts without loss.
func (f Float8E4M3FNUZ) Float32() float32 {
	if f == 0x80 {
		return float32(math.NaN())
	}
	return small(uint8(f), 3, 8)
}

// NewFloat8E4M3FNUZ rounds to the nearest, ties to even; what rounds beyond the
// range, infinities included, becomes NaN.
func NewFloat8E4M3FNUZ(v float32) Float8E4M3FNUZ {
	return Float8E4M3FNUZ(roundUZ(v, 3, 8))
}

// Float8E5M2FNUZ has 5 exponent bits of bias 16 and 2 fraction bits; no
// infinities, no negative zero, 0x80 is the only NaN, the largest value is
// 57344.
type Float8E5M2FNUZ uint8

// Float32 converts without loss.
func (f Float8E5M2FNUZ) Float32() float32 {
	if f == 0x80 {
		return float32(math.NaN())
	}
	return small(uint8(f), 2, 16)
}

// NewFloat8E5M2FNUZ rounds to the nearest, ties to even; what rounds beyond the
// range, infinities included, becomes NaN.
func NewFloat8E5M2FNUZ(v float32) Float8E5M2FNUZ {
	return Float8E5M2FNUZ(roundUZ(v, 2, 16))
}

// Float8E8M0FNU is a power of two, 2^(f-127), without sign or zero; 0xff is
// NaN. It is the scale type of MX blocks.
type Float8E8M0FNU uint8

// Float32 converts without loss: the smallest, 2^-127, is a subnormal float32.
func (f Float8E8M0FNU) Float32() float32 {
	switch f {
	case 0xff:
		return float32(math.NaN())
	case 0:
		return math.Float32frombits(1 << 22)
	}
	return math.Float32frombits(uint32(f) << 23)
}

// small decodes a sign bit, an exponent of that bias, and frac fraction bits.
func small(bits uint8, frac, bias int) float32 {
	exp := int(bits&0x7f) >> frac
	m := float32(int(bits) & (1<<frac - 1))
	if exp == 0 {
		exp = 1
	} else {
		m += float32(int(1) << frac)
	}
	v := m * math.Float32frombits(uint32(exp-bias-frac+127)<<23) // exact: at most 4 bits
	if bits&0x80 != 0 {
		return -v
	}
	return v
}

// round8 encodes v with frac fraction bits and an exponent of that bias; over
// says that the result is beyond the code largest, or that v is a NaN.
func round8(v float32, frac, bias int, largest uint32) (bits uint8, over bool) {
	b := math.Float32bits(v)
	sign := uint8(b >> 24 & 0x80)
	b &= 0x7fffffff
	if b > 0x7f800000 {
		return sign, true
	}
	lowest := uint32(127-bias+1) << 23 // the smallest normal
	var code uint32
	if b < lowest {
		// Adding a power of two makes the float adder round at the last place
		// of a subnormal.
		magic := uint32(127+23-(bias+frac-1)) << 23
		sum := math.Float32frombits(b) + math.Float32frombits(magic)
		code = math.Float32bits(sum) - magic
	} else {
		shift := 23 - frac
		b += 1<<(shift-1) - 1 + b>>shift&1
		code = (b - uint32(127-bias)<<23) >> shift
	}
	if code > largest {
		return sign, true // code may have grown into the sign bit
	}
	return sign | uint8(code), false
}

func roundUZ(v float32, frac, bias int) uint8 {
	bits, over := round8(v, frac, bias, 0x7f)
	switch {
	case over:
		return 0x80
	case bits == 0x80:
		return 0 // there is no negative zero
	}
	return bits
}
