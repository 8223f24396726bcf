package ggml

import (
	_ "embed"
	"encoding/binary"
	"math/bits"
)

// The IQ types: rows of a grid of vectors, found by a search, with signs and scales.

// grids are the grids of ggml, in the order below. A row is 16 bits: eight elements of
// two bits, or four of four, from the low bits on, which index the values of the grid.
// Licence: LICENSE.ggml.
//
//go:embed grids.bin
var grids string

// The first rows of the grids.
const (
	grid2XXS = 0
	grid2XS  = grid2XXS + 256
	grid2S   = grid2XS + 512
	grid3XXS = grid2S + 1024
	grid3S   = grid3XXS + 256
	grid1    = grid3S + 512
)

var (
	values2   = [4]float32{8, 25, 43}
	values3XX = []float32{4, 12, 20, 28, 36, 44, 52, 62}
	values3   = []float32{1, 3, 5, 7, 9, 11, 13, 15}
	values1   = [4]float32{-1, 0, 1}
)

func row(i int) uint { return uint(grids[2*i]) | uint(grids[2*i+1])<<8 }

// signed returns v, negative where bit k of signs is set.
func signed(v float32, signs byte, k int) float32 {
	if signs>>k&1 != 0 {
		return v * -1
	}
	return v
}

// parity returns seven signs and an eighth that makes the number of negative ones even.
func parity(n uint32) byte {
	n &= 127
	return byte(n) | byte(bits.OnesCount32(n)&1)<<7
}

// eight decodes a row of a grid of IQ2.
func eight(y []float32, i int, signs byte, d float32) {
	r := row(i)
	for k := range y[:8] {
		y[k] = signed(d*values2[r>>(2*k)&3], signs, k)
	}
}

// four decodes a row of a grid of IQ3.
func four(y []float32, i int, values []float32, signs byte, d float32) {
	r := row(i)
	for k := range y[:4] {
		y[k] = signed(d*values[r>>(4*k)&7], signs, k)
	}
}

func iq2XXS(y []float32, b []byte) {
	d := half(b)
	for j := range 8 { // groups of 32 elements
		g := b[2+8*j:][:8]
		w := binary.LittleEndian.Uint32(g[4:])
		scale := d * (0.5 + float32(w>>28)) * 0.25
		for k := range 4 {
			eight(y[32*j+8*k:], grid2XXS+int(g[k]), parity(w>>(7*k)), scale)
		}
	}
}

func iq2XS(y []float32, b []byte) {
	d := half(b)
	for j := range 32 { // groups of 8 elements
		q := binary.LittleEndian.Uint16(b[2+2*j:])
		scale := d * (0.5 + float32(b[66+j/4]>>(4*(j/2%2))&15)) * 0.25
		eight(y[8*j:], grid2XS+int(q&511), parity(uint32(q>>9)), scale)
	}
}

func iq2S(y []float32, b []byte) {
	d := half(b)
	for j := range 32 { // groups of 8 elements
		q := int(b[2+j]) | int(b[66+j/4]>>(2*(j%4))&3)<<8
		scale := d * (0.5 + float32(b[74+j/4]>>(4*(j/2%2))&15)) * 0.25
		eight(y[8*j:], grid2S+q, b[34+j], scale)
	}
}

func iq3XXS(y []float32, b []byte) {
	d := half(b)
	for j := range 8 { // groups of 32 elements
		w := binary.LittleEndian.Uint32(b[66+4*j:])
		scale := d * (0.5 + float32(w>>28)) * 0.5
		for k := range 8 {
			signs := parity(w>>(7*(k/2))) >> (4 * (k % 2))
			four(y[32*j+4*k:], grid3XXS+int(b[2+8*j+k]), values3XX, signs, scale)
		}
	}
}

func iq3S(y []float32, b []byte) {
	d := half(b)
	for j := range 64 { // groups of 4 elements
		q := int(b[2+j]) | int(b[66+j/8]>>(j%8)&1)<<8
		scale := d * float32(1+2*int(b[106+j/16]>>(4*(j/8%2))&15))
		four(y[4*j:], grid3S+q, values3, b[74+j/2]>>(4*(j%2)), scale)
	}
}

// eightMoved decodes a row of the grid of IQ1.
func eightMoved(y []float32, i int, negative bool, d float32) {
	delta := float32(0.125)
	if negative {
		delta = -0.125
	}
	r := row(grid1 + i)
	for k := range y[:8] {
		y[k] = d * (values1[r>>(2*k)&3] + delta)
	}
}

func iq1S(y []float32, b []byte) {
	d := half(b)
	for j := range 32 { // groups of 8 elements
		w := int(binary.LittleEndian.Uint16(b[34+2*(j/4):]))
		q := int(b[2+j]) | w>>(3*(j%4))&7<<8
		eightMoved(y[8*j:], q, w>>15 != 0, d*float32(2*(w>>12&7)+1))
	}
}

func iq1M(y []float32, b []byte) {
	var s [4]uint16 // scales of three bits, and above them four bits of d each
	var bits [2]byte
	for n := range s {
		s[n] = binary.LittleEndian.Uint16(b[48+2*n:])
		bits[n/2] |= byte(s[n]>>12) << (4 * (n % 2))
	}
	d := half(bits[:])
	for j := range 32 { // groups of 8 elements
		n := int(b[32+j/2] >> (4 * (j % 2)) & 15)
		scale := d * float32(2*int(s[j/8]>>(3*(j/2%4))&7)+1)
		eightMoved(y[8*j:], int(b[j])|n&7<<8, n&8 != 0, scale)
	}
}

func iq4XS(y []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint16(b[2:])
	for j := range 8 { // groups of 32 elements
		s := int(b[4+j/2]>>(4*(j%2))&15) | int(high>>(2*j)&3)<<4
		scale := d * float32(s-32)
		for i, x := range b[8+16*j:][:16] {
			y[32*j+i] = scale * iq4Values[x&15]
			y[32*j+i+16] = scale * iq4Values[x>>4]
		}
	}
}
