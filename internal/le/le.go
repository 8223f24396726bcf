// Package le moves little-endian data between bytes and Go values. It is the
// only package of the module that imports unsafe: everything that reinterprets
// memory goes through Cast and Bytes, which check length and alignment.
package le

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Fixed is what may be laid over bytes: values of fixed size without pointers.
// complex64 and complex128 are two floats, real part first.
type Fixed interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// HostIsLittle reports whether this machine stores the low byte first.
var HostIsLittle = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()

// Size is the number of bytes of one T.
func Size[T Fixed]() int {
	var z T
	return int(unsafe.Sizeof(z))
}

// Bytes returns the memory of s, in the order of the host. It shares s.
func Bytes[T Fixed](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	n := len(s) * Size[T]() // s exists, so the product fits
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n)[:n:n]
}

// Cast lays []T over b without a copy, in the order of the host. It returns
// false when len(b) is not a multiple of the size of T, or b is not aligned for T.
// A bool must have been scanned for 0 and 1 before it is used.
func Cast[T Fixed](b []byte) ([]T, bool) {
	var z T
	size := int(unsafe.Sizeof(z))
	if len(b)%size != 0 {
		return nil, false
	}
	if len(b) == 0 {
		return []T{}, true
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(z) != 0 {
		return nil, false
	}
	n := len(b) / size
	return unsafe.Slice((*T)(p), n)[:n:n], true
}

// String is b as a string without a copy. b must never change afterwards and
// must not be part of a mapping.
func String(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Swap reverses every run of width bytes of b, in place. width is 1, 2, 4 or 8
// (the size of one component for complex numbers); bytes after the last whole run
// stay as they are.
func Swap(b []byte, width int) {
	switch width {
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			b[0], b[1] = b[1], b[0]
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			binary.LittleEndian.PutUint32(b, bits.ReverseBytes32(binary.LittleEndian.Uint32(b)))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			binary.LittleEndian.PutUint64(b, bits.ReverseBytes64(binary.LittleEndian.Uint64(b)))
		}
	}
}

// ToHost turns little-endian elements, width bytes each, into the order of the
// host, in place; and the other way round, since it is the same. On
// little-endian hosts it does nothing.
func ToHost(b []byte, width int) {
	if !HostIsLittle {
		Swap(b, width)
	}
}

// NotBool returns the index of the first byte of b that is neither 0 nor 1, or
// -1. A Go bool over such a byte would be both true and not true.
func NotBool(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		if binary.LittleEndian.Uint64(b[i:])&^0x0101010101010101 != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] > 1 {
			return i
		}
	}
	return -1
}
