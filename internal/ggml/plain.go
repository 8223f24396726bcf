package ggml

import (
	"encoding/binary"
	"math"
)

// The types with one scale a block. Every product and sum is one operation of float32:
// where a sum follows a product, the conversion to float32 keeps compilers from fusing
// them.

// half is the float16 at the start of b.
func half(b []byte) float32 {
	h := binary.LittleEndian.Uint16(b)
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

func q4_0(y []float32, b []byte) {
	d := half(b)
	for i, x := range b[2:18] {
		y[i] = d * float32(int(x&15)-8)
		y[i+16] = d * float32(int(x>>4)-8)
	}
}

func q4_1(y []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i, x := range b[4:20] {
		y[i] = float32(d*float32(x&15)) + m
		y[i+16] = float32(d*float32(x>>4)) + m
	}
}

func q5_0(y []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint32(b[2:])
	for i, x := range b[6:22] {
		y[i] = d * float32(int(uint32(x&15)|high>>i&1<<4)-16)
		y[i+16] = d * float32(int(uint32(x>>4)|high>>(i+16)&1<<4)-16)
	}
}

func q5_1(y []float32, b []byte) {
	d, m, high := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for i, x := range b[8:24] {
		y[i] = float32(d*float32(uint32(x&15)|high>>i&1<<4)) + m
		y[i+16] = float32(d*float32(uint32(x>>4)|high>>(i+16)&1<<4)) + m
	}
}

func q8_0(y []float32, b []byte) {
	d := half(b)
	for i, x := range b[2:34] {
		y[i] = float32(int8(x)) * d
	}
}

func q1_0(y []float32, b []byte) {
	d := half(b)
	for i := range y {
		if y[i] = -d; b[2+i/8]>>(i%8)&1 != 0 {
			y[i] = d
		}
	}
}

func q2_0(y []float32, b []byte) {
	d := half(b)
	for i := range y {
		y[i] = d * float32(int(b[2+i/4]>>(2*(i%4))&3)-1)
	}
}

// iq4Values are what the four bits of IQ4_NL and IQ4_XS stand for.
var iq4Values = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10,
	1, 13, 25, 38, 53, 69, 89, 113}

func iq4NL(y []float32, b []byte) {
	d := half(b)
	for i, x := range b[2:18] {
		y[i] = d * iq4Values[x&15]
		y[i+16] = d * iq4Values[x>>4]
	}
}

// fp4Values are the values of E2M1, doubled. There is no negative zero.
var fp4Values = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// halfE8M0 is half of 2 to the power of e-127.
func halfE8M0(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e) // subnormal
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

func mxfp4(y []float32, b []byte) {
	d := halfE8M0(b[0])
	for i, x := range b[1:17] {
		y[i] = d * fp4Values[x&15]
		y[i+16] = d * fp4Values[x>>4]
	}
}

func nvfp4(y []float32, b []byte) {
	for g := range 4 {
		d, qs := halfUE4M3(b[g]), b[4+8*g:12+8*g]
		for i, x := range qs {
			y[16*g+i] = d * fp4Values[x&15]
			y[16*g+i+8] = d * fp4Values[x>>4]
		}
	}
}

// halfUE4M3 is half of a float of 4 bits of exponent and 3 of fraction. The sign is
// ignored, except for NaN.
func halfUE4M3(x byte) float32 {
	fraction := float32(x & 7)
	switch e := x >> 3 & 15; {
	case x == 0x7f: // NaN, which ggml takes for 0
		return 0
	case e == 0:
		return fraction * 0x1p-10
	default:
		return (8 + fraction) * math.Float32frombits((uint32(e)+127-7-4)<<23)
	}
}

// tq1_0 has five digits of base 3 in a byte, as a fraction of 256: multiplying by 3
// moves the next one above the byte.
func tq1_0(y []float32, b []byte) {
	d := half(b[52:])
	digit := func(x byte) float32 { return d * float32(int(uint16(x)*3>>8)-1) }
	for i, x := range b[:32] {
		for p := range 5 {
			y[32*p+i] = digit(x)
			x *= 3
		}
	}
	for i, x := range b[32:48] {
		for p := range 5 {
			y[160+16*p+i] = digit(x)
			x *= 3
		}
	}
	for i, x := range b[48:52] {
		for p := range 4 {
			y[240+4*p+i] = digit(x)
			x *= 3
		}
	}
}

func tq2_0(y []float32, b []byte) {
	d := half(b[64:])
	for g := range 2 {
		for i, x := range b[32*g : 32*g+32] {
			for p := range 4 {
				y[128*g+32*p+i] = d * float32(int(x>>(2*p)&3)-1)
			}
		}
	}
}
