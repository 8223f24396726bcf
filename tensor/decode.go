package tensor

import (
	"math"

	"github.com/tensorfile/tensorfile/internal/le"
)

// This file and encode.go hold the loops over elements: one per dtype and direction,
// over typed slices. Bytes that they take are in the order of the host and aligned for
// their dtype. Between decoding and encoding a block of elements is float32, float64,
// int64 or uint64, whichever holds all values of the source.

// blockLen is how many elements are converted at a time, so that they stay in the first
// cache.
const blockLen = 1024

type realNumber interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// cast converts as Go does.
func cast[D, S realNumber](dst []D, src []byte) {
	s, _ := le.Cast[S](src)
	dst = dst[:len(s)]
	for i, v := range s {
		dst[i] = D(v)
	}
}

// fitsFloat32 reports whether float32 holds every value of d.
func fitsFloat32(d DType) bool {
	switch d {
	case Bool, I2, I4, I8, I16, U2, U4, U8, U16, QI8, QU8, QU4x2, QU2x4, Bits1x8, Bits2x4,
		Bits4x2, Bits8, Bits16:
		return true
	}
	return d.IsFloat() && d != F64
}

// decodeFloat32 decodes elements of a dtype that fitsFloat32.
func decodeFloat32(dst []float32, src []byte, d DType) {
	switch d {
	case F32:
		s, _ := le.Cast[float32](src)
		copy(dst, s)
	case F16:
		s, _ := le.Cast[uint16](src)
		dst = dst[:len(s)]
		for i, v := range s {
			dst[i] = halfToSingle(v)
		}
	case BF16:
		s, _ := le.Cast[uint16](src)
		dst = dst[:len(s)]
		for i, v := range s {
			dst[i] = math.Float32frombits(uint32(v) << 16)
		}
	case F8E4M3FN:
		lookup(dst, src, e4m3fnValues)
	case F8E5M2:
		lookup(dst, src, e5m2Values)
	case F8E4M3FNUZ:
		lookup(dst, src, e4m3fnuzValues)
	case F8E5M2FNUZ:
		lookup(dst, src, e5m2fnuzValues)
	case F8E8M0FNU:
		lookup(dst, src, e8m0fnuValues)
	case F6E2M3FN:
		unpack(dst, src, 6, e2m3fnValues)
	case F6E3M2FN:
		unpack(dst, src, 6, e3m2fnValues)
	case F4E2M1FN:
		unpack(dst, src, 4, e2m1fnValues)
	case I4, U4, I2, U2:
		unpackIntegers(dst, src, d)
	case I8, QI8:
		cast[float32, int8](dst, src)
	case I16:
		cast[float32, int16](dst, src)
	case U16, Bits16:
		cast[float32, uint16](dst, src)
	default: // one byte without a sign
		cast[float32, uint8](dst, src)
	}
}

// decodeFloat64 decodes elements of any real dtype. Of 64-bit integers that float64
// does not hold the last bit is set (rounding to odd), so that rounding once more gives
// the nearest value; exact asks for the nearest float64 instead.
func decodeFloat64(dst []float64, src []byte, d DType, exact bool) {
	switch d {
	case F64:
		s, _ := le.Cast[float64](src)
		copy(dst, s)
	case F32:
		cast[float64, float32](dst, src)
	case BF16:
		s, _ := le.Cast[uint16](src)
		dst = dst[:len(s)]
		for i, v := range s {
			dst[i] = float64(math.Float32frombits(uint32(v) << 16))
		}
	case I32, QI32:
		cast[float64, int32](dst, src)
	case U32:
		cast[float64, uint32](dst, src)
	case I64:
		if exact {
			cast[float64, int64](dst, src)
			return
		}
		s, _ := le.Cast[int64](src)
		for i, v := range s {
			dst[i] = oddFloat64(v)
		}
	case U64:
		if exact {
			cast[float64, uint64](dst, src)
			return
		}
		s, _ := le.Cast[uint64](src)
		for i, v := range s {
			if v > math.MaxInt64 {
				dst[i] = 2 * oddFloat64(int64(v>>1|v&1))
			} else {
				dst[i] = oddFloat64(int64(v))
			}
		}
	default:
		var block [blockLen]float32
		for len(dst) > 0 {
			n := min(len(dst), blockLen)
			bytes := n * d.Bits() / 8
			if n == len(dst) {
				bytes = len(src)
			}
			decodeFloat32(block[:n], src[:bytes], d)
			for i, v := range block[:n] {
				dst[i] = float64(v)
			}
			dst, src = dst[n:], src[bytes:]
		}
	}
}

// decodeInt64 decodes elements of an integer dtype, bool included, other than uint64.
func decodeInt64(dst []int64, src []byte, d DType) {
	switch d {
	case I4, U4, I2, U2:
		unpackIntegers(dst, src, d)
	case I8, QI8:
		cast[int64, int8](dst, src)
	case I16:
		cast[int64, int16](dst, src)
	case U16, Bits16:
		cast[int64, uint16](dst, src)
	case I32, QI32:
		cast[int64, int32](dst, src)
	case U32:
		cast[int64, uint32](dst, src)
	case I64:
		s, _ := le.Cast[int64](src)
		copy(dst, s)
	default:
		cast[int64, uint8](dst, src)
	}
}

// halfToSingle is Float16.Float32 in a form that is inlined.
func halfToSingle(h uint16) float32 {
	bits := uint32(h&0x7fff) << 13
	switch {
	case bits-1<<23 < 30<<23: // exponents 1 to 30
		bits += (127 - 15) << 23
	case bits < 1<<23:
		bits = math.Float32bits(float32(h&0x7fff) * 0x1p-24)
	default:
		bits |= 0xff << 23
	}
	return math.Float32frombits(bits | uint32(h&0x8000)<<16)
}

func lookup(dst []float32, src []byte, values []float32) {
	dst, values = dst[:len(src)], values[:256]
	for i, v := range src {
		dst[i] = values[v]
	}
}

// unpack decodes elements of less than a byte, the first in the low bits. src is at
// least as long as the elements take.
func unpack[D, V realNumber](dst []D, src []byte, bits uint, values []V) {
	at := uint(0)
	for i := range dst {
		v := uint(src[at>>3])
		if at&7+bits > 8 {
			v |= uint(src[at>>3+1]) << 8
		}
		dst[i] = D(values[v>>(at&7)&(1<<bits-1)])
		at += bits
	}
}

// unpackIntegers decodes elements of an integer dtype of less than a byte.
func unpackIntegers[D float32 | int64](dst []D, src []byte, d DType) {
	values := i4Values
	switch d {
	case U4:
		values = u4Values
	case I2:
		values = i2Values
	case U2:
		values = u2Values
	}
	unpack(dst, src, uint(d.Bits()), values)
}

// oddFloat64 is v as float64, rounded to odd: the last bit is set where bits were cut
// off.
func oddFloat64(v int64) float64 {
	if v > -1<<53 && v < 1<<53 {
		return float64(v)
	}
	const low = 1<<10 - 1
	if v&low != 0 {
		v = v&^low | 1<<10
	}
	return float64(v)
}

// oddFloat32 is v as float32, rounded to odd. Rounding that to a narrower float gives
// what rounding v would, where rounding to the nearest twice would not.
func oddFloat32(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		b-- // towards zero, from infinity too
	}
	return math.Float32frombits(b | 1)
}

// The values of the dtypes of up to a byte, by their bits.
var (
	e4m3fnValues   = valuesOf(func(b uint8) float32 { return Float8E4M3FN(b).Float32() })
	e5m2Values     = valuesOf(func(b uint8) float32 { return Float8E5M2(b).Float32() })
	e4m3fnuzValues = valuesOf(func(b uint8) float32 { return Float8E4M3FNUZ(b).Float32() })
	e5m2fnuzValues = valuesOf(func(b uint8) float32 { return Float8E5M2FNUZ(b).Float32() })
	e8m0fnuValues  = valuesOf(func(b uint8) float32 { return Float8E8M0FNU(b).Float32() })
	e2m3fnValues   = packedValuesOf(2, 3, 1)
	e3m2fnValues   = packedValuesOf(3, 2, 3)
	e2m1fnValues   = packedValuesOf(2, 1, 1)
	i4Values       = []int8{0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1}
	u4Values       = []int8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	i2Values       = []int8{0, 1, -2, -1}
	u2Values       = []int8{0, 1, 2, 3}
)

func valuesOf(value func(uint8) float32) []float32 {
	all := make([]float32, 256)
	for i := range all {
		all[i] = value(uint8(i))
	}
	return all
}

// packedValuesOf returns the values of a float that has neither infinities nor NaN (OCP
// MX, 5.3).
func packedValuesOf(exponent, fraction, bias int) []float32 {
	all := make([]float32, 64)
	sign := exponent + fraction
	for i := range 2 << sign {
		f, e := float64(i&(1<<fraction-1)), i>>fraction&(1<<exponent-1)
		if e == 0 {
			e = 1
		} else {
			f += float64(int(1) << fraction)
		}
		if f = math.Ldexp(f, e-bias-fraction); i>>sign != 0 {
			f = -f
		}
		all[i] = float32(f)
	}
	return all
}

// toHost brings little-endian elements of d into the order of the host, in place.
func toHost(b []byte, d DType) { le.ToHost(b, d.Align()) }

// isAligned reports whether b may be taken as elements of d.
func isAligned(b []byte, d DType) (ok bool) {
	switch d.Align() {
	case 2:
		_, ok = le.Cast[uint16](b[:len(b)&^1])
	case 4:
		_, ok = le.Cast[uint32](b[:len(b)&^3])
	case 8:
		_, ok = le.Cast[uint64](b[:len(b)&^7])
	default:
		ok = true
	}
	return ok
}

// alignedBytes allocates n bytes that are aligned for every dtype.
func alignedBytes(n int) []byte { return le.Bytes(make([]uint64, (n+7)/8))[:n:n] }
