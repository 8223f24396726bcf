package ggml

import (
	"encoding/binary"
	"math"
)

// The K types: blocks of 256 elements, in groups of 16 or 32 with scales of their own.

func q2K(y []float32, b []byte) {
	d, m := half(b[80:]), half(b[82:])
	for g := range 16 { // of 16 elements
		scale, low := d*float32(b[g]&15), m*float32(b[g]>>4)
		qs, shift := b[16+32*(g/8)+16*(g%2):], 2*(g%8/2)
		for i, x := range qs[:16] {
			y[16*g+i] = float32(scale*float32(x>>shift&3)) - low
		}
	}
}

func q3K(y []float32, b []byte) {
	high, d := b[:32], half(b[108:])
	for g := range 16 { // of 16 elements
		s := int(b[96+g%8]>>(4*(g/8))&15|b[104+g%4]>>(2*(g/4))&3<<4) - 32
		scale := d * float32(s)
		qs, shift := b[32+32*(g/8)+16*(g%2):], 2*(g%8/2)
		bits := high[16*(g%2):]
		for i, x := range qs[:16] {
			q := int(x >> shift & 3)
			if bits[i]>>(g/2)&1 == 0 {
				q -= 4
			}
			y[16*g+i] = scale * float32(q)
		}
	}
}

// scaleK returns the scale and the minimum of group j of Q4_K and Q5_K, six bits each.
func scaleK(s []byte, j int) (scale, low float32) {
	if j < 4 {
		return float32(s[j] & 63), float32(s[j+4] & 63)
	}
	return float32(s[j+4]&15 | s[j-4]>>6<<4), float32(s[j+4]>>4 | s[j]>>6<<4)
}

func q4K(y []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for g := range 4 { // pairs of groups of 32 elements, in the halves of the same bytes
		var values [2][16]float32 // of the four bits: half as many as there are elements
		for k := range 2 {
			scale, low := scaleK(b[4:16], 2*g+k)
			scale, low = d*scale, m*low
			for q := range values[k] {
				values[k][q] = float32(scale*float32(q)) - low
			}
		}
		lower, upper := (*[32]float32)(y[64*g:]), (*[32]float32)(y[64*g+32:])
		for i, x := range (*[32]byte)(b[16+32*g:]) {
			lower[i] = values[0][x&15]
			upper[i] = values[1][x>>4]
		}
	}
}

func q5K(y []float32, b []byte) {
	d, m, high := half(b), half(b[2:]), b[16:48]
	for j := range 8 { // groups of 32 elements
		scale, low := scaleK(b[4:16], j)
		scale, low = d*scale, m*low
		shift := 4 * (j % 2)
		for i, x := range b[48+32*(j/2):][:32] {
			q := x>>shift&15 | high[i]>>j&1<<4
			y[32*j+i] = float32(scale*float32(q)) - low
		}
	}
}

func q6K(y []float32, b []byte) {
	d := half(b[208:])
	for g := range 16 { // of 16 elements
		scale := d * float32(int8(b[192+g]))
		n, k := g/8, g%8 // the half of the block, and the group in it
		low, lowShift := b[64*n+16*(k%4):], 4*(k/4)
		high, highShift := b[128+32*n+16*(k%2):], 2*(k/2)
		for i, x := range low[:16] {
			q := x>>lowShift&15 | high[i]>>highShift&3<<4
			y[16*g+i] = scale * float32(int(q)-32)
		}
	}
}

func q8K(y []float32, b []byte) {
	d := math.Float32frombits(binary.LittleEndian.Uint32(b))
	for i, x := range b[4:260] { // sums of groups follow
		y[i] = d * float32(int8(x))
	}
}
