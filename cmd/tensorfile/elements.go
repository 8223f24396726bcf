package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/tensor"
)

// An element reads the values of one dtype from a tensor's bytes, little-endian
// and packed.
type element struct {
	bits int
	// Exactly one of these is there; i is the index of the element in p.
	integer  func(p []byte, i int) int64
	unsigned func(p []byte, i int) uint64
	real     func(p []byte, i int) float64
	complex  func(p []byte, i int) complex128
	boolean  bool // unsigned, and shown as true and false
	narrow   int  // 32 where a float64 has the digits of a float32
}

var le = binary.LittleEndian

// elementOf answers errors.ErrUnsupported for types without values.
func elementOf(d tensor.DType) (element, error) {
	e := element{bits: d.Bits(), narrow: 32}
	switch d {
	case tensor.Bool:
		e.unsigned = func(p []byte, i int) uint64 { return uint64(p[i]) }
		e.boolean = true
	case tensor.I8, tensor.QI8:
		e.integer = func(p []byte, i int) int64 { return int64(int8(p[i])) }
	case tensor.I16:
		e.integer = func(p []byte, i int) int64 { return int64(int16(le.Uint16(p[2*i:]))) }
	case tensor.I32, tensor.QI32:
		e.integer = func(p []byte, i int) int64 { return int64(int32(le.Uint32(p[4*i:]))) }
	case tensor.I64:
		e.integer = func(p []byte, i int) int64 { return int64(le.Uint64(p[8*i:])) }
	case tensor.U8, tensor.QU8, tensor.QU4x2, tensor.QU2x4, tensor.Bits1x8, tensor.Bits2x4, tensor.Bits4x2, tensor.Bits8:
		e.unsigned = func(p []byte, i int) uint64 { return uint64(p[i]) }
	case tensor.U16, tensor.Bits16:
		e.unsigned = func(p []byte, i int) uint64 { return uint64(le.Uint16(p[2*i:])) }
	case tensor.U32:
		e.unsigned = func(p []byte, i int) uint64 { return uint64(le.Uint32(p[4*i:])) }
	case tensor.U64:
		e.unsigned = func(p []byte, i int) uint64 { return le.Uint64(p[8*i:]) }
	case tensor.F16:
		e.real = func(p []byte, i int) float64 { return float64(tensor.Float16(le.Uint16(p[2*i:])).Float32()) }
	case tensor.BF16:
		e.real = func(p []byte, i int) float64 { return float64(tensor.BFloat16(le.Uint16(p[2*i:])).Float32()) }
	case tensor.F32:
		e.real = func(p []byte, i int) float64 { return float64(math.Float32frombits(le.Uint32(p[4*i:]))) }
	case tensor.F64:
		e.real = func(p []byte, i int) float64 { return math.Float64frombits(le.Uint64(p[8*i:])) }
		e.narrow = 64
	case tensor.C32:
		half := func(p []byte) float64 { return float64(tensor.Float16(le.Uint16(p)).Float32()) }
		e.complex = func(p []byte, i int) complex128 { return complex(half(p[4*i:]), half(p[4*i+2:])) }
	case tensor.C64:
		single := func(p []byte) float64 { return float64(math.Float32frombits(le.Uint32(p))) }
		e.complex = func(p []byte, i int) complex128 { return complex(single(p[8*i:]), single(p[8*i+4:])) }
	case tensor.C128:
		double := func(p []byte) float64 { return math.Float64frombits(le.Uint64(p)) }
		e.complex = func(p []byte, i int) complex128 { return complex(double(p[16*i:]), double(p[16*i+8:])) }
		e.narrow = 64
	case tensor.F8E4M3FN:
		e.real = func(p []byte, i int) float64 { return float64(tensor.Float8E4M3FN(p[i]).Float32()) }
	case tensor.F8E5M2:
		e.real = func(p []byte, i int) float64 { return float64(tensor.Float8E5M2(p[i]).Float32()) }
	case tensor.F8E4M3FNUZ:
		e.real = func(p []byte, i int) float64 { return float64(tensor.Float8E4M3FNUZ(p[i]).Float32()) }
	case tensor.F8E5M2FNUZ:
		e.real = func(p []byte, i int) float64 { return float64(tensor.Float8E5M2FNUZ(p[i]).Float32()) }
	case tensor.F8E8M0FNU:
		e.real = func(p []byte, i int) float64 { return float64(tensor.Float8E8M0FNU(p[i]).Float32()) }
	case tensor.F6E2M3FN:
		e.real = func(p []byte, i int) float64 { return small(packed(p, i, 6), 2, 3, 1) }
	case tensor.F6E3M2FN:
		e.real = func(p []byte, i int) float64 { return small(packed(p, i, 6), 3, 2, 3) }
	case tensor.F4E2M1FN:
		e.real = func(p []byte, i int) float64 { return small(packed(p, i, 4), 2, 1, 1) }
	default:
		return element{}, advise("cat --raw or hash, which need no values", fmt.Errorf("%w: no values are known for the element type %v", errors.ErrUnsupported, d))
	}
	return e, nil
}

// packed is element i of a bit string whose first element is in the low bits.
func packed(p []byte, i, bits int) uint {
	at := i * bits
	v := uint(p[at/8])
	if at/8+1 < len(p) {
		v |= uint(p[at/8+1]) << 8
	}
	return v >> (at % 8) & (1<<bits - 1)
}

// small is the value of a tiny float that has neither infinities nor NaN.
func small(v uint, exponent, fraction, bias int) float64 {
	f := float64(v & (1<<fraction - 1))
	e := int(v >> fraction & (1<<exponent - 1))
	if e == 0 {
		e = 1
	} else {
		f += float64(int(1) << fraction)
	}
	f = math.Ldexp(f, e-bias-fraction)
	if v>>(exponent+fraction)&1 != 0 {
		return -f
	}
	return f
}

// check returns an error for a byte that is no bool.
func (e *element) check(p []byte, i int) error {
	if e.boolean && p[i] > 1 {
		return errBool(p[i])
	}
	return nil
}

func errBool(b byte) error {
	return fmt.Errorf("%w: %d is no value of bool", tensor.ErrMalformed, b)
}

// value is element i as a float64, for arithmetic; complex numbers have none.
func (e *element) value(p []byte, i int) float64 {
	switch {
	case e.real != nil:
		return e.real(p, i)
	case e.integer != nil:
		return float64(e.integer(p, i))
	case e.unsigned != nil:
		return float64(e.unsigned(p, i))
	}
	return math.NaN()
}

// append writes element i: as JSON, or for people, who see nan and inf bare.
func (e *element) append(b []byte, p []byte, i int, json bool) []byte {
	switch {
	case e.boolean:
		return strconv.AppendBool(b, p[i] == 1)
	case e.integer != nil:
		return strconv.AppendInt(b, e.integer(p, i), 10)
	case e.unsigned != nil:
		return strconv.AppendUint(b, e.unsigned(p, i), 10)
	case e.real != nil:
		return e.appendReal(b, e.real(p, i), json)
	}
	c := e.complex(p, i)
	if json {
		return appendPair(b, real(c), imag(c), e.narrow)
	}
	b = e.appendReal(b, real(c), false)
	if im := imag(c); !math.Signbit(im) || math.IsNaN(im) {
		b = append(b, '+')
	}
	b = e.appendReal(b, imag(c), false)
	return append(b, 'i')
}

func (e *element) appendReal(b []byte, v float64, json bool) []byte {
	if json {
		return appendFloat(b, v, e.narrow)
	}
	switch {
	case math.IsNaN(v):
		return append(b, "nan"...)
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case math.IsInf(v, -1):
		return append(b, "-inf"...)
	}
	return appendFloat(b, v, e.narrow)
}
