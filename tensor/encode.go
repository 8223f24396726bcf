package tensor

import (
	"math"

	"github.com/tensorfile/tensorfile/internal/le"
)

// encodeFloat32 encodes as elements of a float dtype other than float64, rounded to the
// nearest. It reports false for dtypes that are not encoded.
func encodeFloat32(dst []byte, d DType, src []float32) bool {
	switch d {
	case F32:
		to, _ := le.Cast[float32](dst)
		copy(to, src)
	case F16:
		to, _ := le.Cast[uint16](dst)
		to = to[:len(src)]
		for i, v := range src {
			b := math.Float32bits(v)
			if m := b & 0x7fffffff; m-smallestHalf < largestHalf-smallestHalf {
				m += 0xfff + m>>13&1
				to[i] = uint16(b>>16&0x8000 | (m-(127-15)<<23)>>13)
				continue
			}
			to[i] = uint16(NewFloat16(v))
		}
	case BF16:
		to, _ := le.Cast[uint16](dst)
		to = to[:len(src)]
		for i, v := range src {
			b := math.Float32bits(v)
			if b&0x7fffffff > 0x7f800000 {
				to[i] = uint16(NewBFloat16(v))
				continue
			}
			to[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
		}
	case F8E4M3FN:
		each(dst, src, NewFloat8E4M3FN)
	case F8E5M2:
		each(dst, src, NewFloat8E5M2)
	case F8E4M3FNUZ:
		each(dst, src, NewFloat8E4M3FNUZ)
	case F8E5M2FNUZ:
		each(dst, src, NewFloat8E5M2FNUZ)
	default:
		return false
	}
	return true
}

// The magnitudes of float32 that become normal numbers of float16.
const (
	smallestHalf = 0x38800000
	largestHalf  = 0x477ff000 // becomes an infinity
)

func each[E Element, S float32 | float64](dst []byte, src []S, encode func(S) E) {
	to, _ := le.Cast[E](dst)
	to = to[:len(src)]
	for i, v := range src {
		to[i] = encode(v)
	}
}

// encodeFloat64 encodes as elements of a float dtype, rounded once, to the nearest.
func encodeFloat64(dst []byte, d DType, src []float64) bool {
	switch d {
	case F64:
		to, _ := le.Cast[float64](dst)
		copy(to, src)
		return true
	case F32:
		to, _ := le.Cast[float32](dst)
		to = to[:len(src)]
		for i, v := range src {
			to[i] = float32(v)
		}
		return true
	}
	var block [blockLen]float32
	for i := 0; i < len(src); i += blockLen {
		part := src[i:min(i+blockLen, len(src))]
		for j, v := range part {
			block[j] = oddFloat32(v)
		}
		if !encodeFloat32(dst[i*d.Size():], d, block[:len(part)]) {
			return false
		}
	}
	return true
}

// encodeInt64 encodes as elements of an integer dtype, or as bool. It returns the index
// of the first value that does not fit, or -1.
func encodeInt64(dst []byte, d DType, src []int64) (bad int) {
	switch d {
	case I4:
		return pack(dst, src, 4, -8, 7)
	case U4:
		return pack(dst, src, 4, 0, 15)
	case I2:
		return pack(dst, src, 2, -2, 1)
	case U2:
		return pack(dst, src, 2, 0, 3)
	case I8, QI8:
		return narrow[int8](dst, src)
	case I16:
		return narrow[int16](dst, src)
	case I32, QI32:
		return narrow[int32](dst, src)
	case I64:
		return narrow[int64](dst, src)
	case U8, QU8:
		return narrow[uint8](dst, src)
	case U16:
		return narrow[uint16](dst, src)
	case U32:
		return narrow[uint32](dst, src)
	case U64:
		to, _ := le.Cast[uint64](dst)
		for i, v := range src {
			if v < 0 {
				return i
			}
			to[i] = uint64(v)
		}
	case Bool:
		for i, v := range src {
			if v&^1 != 0 {
				return i
			}
			dst[i] = byte(v)
		}
	}
	return -1
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32
}

func narrow[E integer](dst []byte, src []int64) (bad int) {
	to, _ := le.Cast[E](dst)
	to = to[:len(src)]
	for i, v := range src {
		if int64(E(v)) != v {
			return i
		}
		to[i] = E(v)
	}
	return -1
}

// pack encodes as integers of that many bits from low to high, the first in the low bits
// of the first byte. Bits after the last are 0.
func pack(dst []byte, src []int64, bits uint, low, high int64) (bad int) {
	clear(dst)
	at := uint(0)
	for i, v := range src {
		if v < low || v > high {
			return i
		}
		dst[at>>3] |= byte(v) & (1<<bits - 1) << (at & 7)
		at += bits
	}
	return -1
}

// encodeIntegral encodes floats as elements of an integer dtype, or as bool. It returns
// the index of the first that is not an integer or does not fit, or -1.
func encodeIntegral(dst []byte, d DType, src []float64) (bad int) {
	if d == U64 {
		to, _ := le.Cast[uint64](dst)
		for i, v := range src {
			if v != math.Trunc(v) || v < 0 || v >= 1<<64 {
				return i
			}
			to[i] = uint64(v)
		}
		return -1
	}
	var block [blockLen]int64
	for i := 0; i < len(src); i += blockLen {
		part := src[i:min(i+blockLen, len(src))]
		n := 0
		for ; n < len(part); n++ {
			v := part[n]
			if !(v >= -1<<63 && v < 1<<63 && v == math.Trunc(v)) {
				break
			}
			block[n] = int64(v)
		}
		if bad := encodeInt64(dst[i*d.Bits()/8:], d, block[:n]); bad >= 0 {
			return i + bad
		}
		if n < len(part) {
			return i + n
		}
	}
	return -1
}
