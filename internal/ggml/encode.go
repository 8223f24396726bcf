package ggml

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

// ErrNaN is returned for what no type has a value for.
var ErrNaN = errors.New("a value that is not a number, or too large, has no quantised form")

// CanEncode reports whether the type has an encoder: those whose result ggml and the gguf
// package agree about.
func (t Type) CanEncode() bool { return t.encode != nil }

// Encode makes blocks of src, which has as many elements as dst has blocks for. The bytes
// are as in the gguf package; ErrNaN is returned for NaN.
func (t Type) Encode(dst []byte, src []float32) error {
	n, size := int(t.Elements), int(t.Bytes)
	for len(src) >= n && len(dst) >= size {
		for _, v := range src[:n] {
			if v != v {
				return ErrNaN
			}
		}
		if err := t.encode(dst[:size:size], src[:n:n]); err != nil {
			return err
		}
		dst, src = dst[size:], src[n:]
	}
	return nil
}

// putHalf stores x as float16, rounded to the nearest, ties to even.
func putHalf(b []byte, x float32) {
	u := math.Float32bits(x)
	sign, u := uint16(u>>16&0x8000), u&0x7fffffff
	var h uint16
	switch {
	case u >= 0x47800000: // 2^16 and above
		h = 0x7c00
	case u < 0x38800000: // subnormal: whole multiples of 2^-24
		h = uint16(math.RoundToEven(float64(math.Float32frombits(u)) * 0x1p24))
	default:
		u -= 112 << 23
		h = uint16((u + 0xfff + u>>13&1) >> 13)
	}
	binary.LittleEndian.PutUint16(b, sign|h)
}

func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// digit is x without its fraction, from 0 to high. A number that is no integer, as an
// infinity in the block makes, is 0 as on processors that ggml runs on.
func digit(x float32, high uint8) uint8 {
	if !(x > 0 && x < 1<<31) {
		return 0
	}
	return min(uint8(int32(x)), high)
}

// rounded is x rounded, halves away from zero, 0 for NaN.
func rounded(x float32) int {
	if x != x || x >= 1<<31 || x <= -1<<31 {
		return 0
	}
	return int(math.Round(float64(x)))
}

// extreme is the first element of the largest absolute value, with its sign.
func extreme(x []float32) (most float32) {
	for i, v := range x {
		if i == 0 || abs(v) > abs(most) {
			most = v
		}
	}
	return most
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// encodeSymmetric makes digits from 0 to high of one scale, for Q4_0 and Q5_0.
func encodeSymmetric(b []byte, x []float32, q *[32]uint8, high uint8) {
	half := float32(high+1) / 2
	d := extreme(x) / -half
	id := inverse(d)
	for i, v := range x {
		q[i] = digit(float32(v*id)+half+0.5, high)
	}
	putHalf(b, d)
}

// encodeAffine makes digits from 0 to high of a scale and a minimum, for Q4_1 and Q5_1.
func encodeAffine(b []byte, x []float32, q *[32]uint8, high uint8) {
	low, most := x[0], x[0]
	for _, v := range x { // as ggml does: of 0 and -0 the first; min takes -0
		if v < low {
			low = v
		}
		if v > most {
			most = v
		}
	}
	d := (most - low) / float32(high)
	id := inverse(d)
	for i, v := range x {
		q[i] = digit(float32((v-low)*id)+0.5, high)
	}
	putHalf(b, d)
	putHalf(b[2:], low)
}

// putDigits stores four bits of each digit, and the fifth of all in high, if there is
// one.
func putDigits(b, high []byte, q *[32]uint8) {
	for i := range 16 {
		b[i] = q[i]&15 | q[i+16]<<4
	}
	if high == nil {
		return
	}
	var fifth uint32
	for i, v := range q {
		fifth |= uint32(v>>4) << i
	}
	binary.LittleEndian.PutUint32(high, fifth)
}

func encodeQ4_0(b []byte, x []float32) error {
	var q [32]uint8
	encodeSymmetric(b, x, &q, 15)
	putDigits(b[2:], nil, &q)
	return nil
}

func encodeQ4_1(b []byte, x []float32) error {
	var q [32]uint8
	encodeAffine(b, x, &q, 15)
	putDigits(b[4:], nil, &q)
	return nil
}

func encodeQ5_0(b []byte, x []float32) error {
	var q [32]uint8
	encodeSymmetric(b, x, &q, 31)
	putDigits(b[6:], b[2:6], &q)
	return nil
}

func encodeQ5_1(b []byte, x []float32) error {
	var q [32]uint8
	encodeAffine(b, x, &q, 31)
	putDigits(b[8:], b[4:8], &q)
	return nil
}

func encodeQ8_0(b []byte, x []float32) error {
	d := abs(extreme(x)) / 127
	id := inverse(d)
	for i, v := range x {
		b[2+i] = byte(rounded(v * id))
	}
	putHalf(b, d)
	return nil
}

// encodeTernary returns digits 0, 1 and 2, and stores the scale.
func encodeTernary(b []byte, x []float32) (q [256]uint8) {
	d := abs(extreme(x))
	id := inverse(d)
	for i, v := range x {
		q[i] = uint8(rounded(v*id) + 1)
	}
	putHalf(b, d)
	return q
}

func encodeTQ1_0(b []byte, x []float32) error {
	q := encodeTernary(b[52:], x)
	put := func(at, n, digits, from int) {
		for i := range n {
			v, power := 0, 81
			for p := range digits {
				v += power * int(q[from+n*p+i])
				power /= 3
			}
			b[at+i] = byte((v*256 + 242) / 243)
		}
	}
	put(0, 32, 5, 0)
	put(32, 16, 5, 160)
	put(48, 4, 4, 240)
	return nil
}

func encodeTQ2_0(b []byte, x []float32) error {
	q := encodeTernary(b[64:], x)
	for g := range 2 {
		for i := range 32 {
			at := q[128*g+i:]
			b[32*g+i] = at[0] | at[32]<<2 | at[64]<<4 | at[96]<<6
		}
	}
	return nil
}

// encodeMXFP4 differs from the reference for blocks whose largest value is below 2^-125,
// where that stores an exponent that wraps around: the smallest exponent is used.
func encodeMXFP4(b []byte, x []float32) error {
	most := abs(extreme(x))
	if math.IsInf(float64(most), 0) {
		return ErrNaN
	}
	b[0] = 0
	if most >= 0x1p-125 {
		b[0] = uint8(floorLog2(most) - 2 + 127)
	}
	d := halfE8M0(b[0])
	nearest := func(v float32) (best byte) {
		least := float32(math.Inf(1))
		for k, m := range fp4Values {
			if e := abs(float32(d*m) - v); e < least {
				least, best = e, byte(k)
			}
		}
		return best
	}
	for i := range 16 {
		b[1+i] = nearest(x[i]) | nearest(x[i+16])<<4
	}
	return nil
}

// floorLog2 is the largest integer up to log2(x), of a normal x, as float32 has the
// logarithm: of numbers that are little below a power of two it is that power's.
func floorLog2(x float32) int {
	u := math.Float32bits(x)
	e := int(u>>23) - 127
	power := e + 1
	size, isNegative := uint(power), power < 0
	if isNegative {
		size = uint(-power)
	}
	if size == 0 {
		return e // the float32 below 0 is near enough
	}
	exponent := bits.Len(size) - 1
	if !isNegative && size&(size-1) == 0 {
		exponent-- // the floats below a power of two are nearer to each other
	}
	below := float64(1<<24-(u&(1<<23-1)|1<<23)) / (1 << 24) / math.Ln2
	if below < math.Ldexp(1, exponent-24) {
		return power
	}
	return e
}
