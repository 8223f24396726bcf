package le

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func TestCastChecksLengthAndAlignment(t *testing.T) {
	base := Bytes(make([]uint64, 4))
	if _, ok := Cast[uint32](base[1:9]); ok {
		t.Error("a misaligned slice was cast")
	}
	if _, ok := Cast[uint32](base[:7]); ok {
		t.Error("a slice of 7 bytes was cast to 4-byte elements")
	}
	if s, ok := Cast[uint8](base[1:4]); !ok || len(s) != 3 || cap(s) != 3 {
		t.Error("bytes must always cast, with the capacity of the slice")
	}
	if s, ok := Cast[complex128](base[:16]); !ok || len(s) != 1 {
		t.Error("complex128")
	}
	if s, ok := Cast[float64](nil); !ok || s == nil || len(s) != 0 {
		t.Error("nothing casts to an empty slice")
	}
}

func TestCastSharesItsMemory(t *testing.T) {
	x := []uint32{1, 2, 3}
	b := Bytes(x)
	y, ok := Cast[uint32](b)
	if !ok || &x[0] != &y[0] || len(y) != 3 {
		t.Fatal("Cast of Bytes must be the same memory")
	}
	if cap(b) != 12 || Bytes([]uint16(nil)) != nil {
		t.Error("Bytes must not reach past the slice")
	}
}

func TestSwapReversesTheBytesOfEachElement(t *testing.T) {
	in := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for width, want := range map[int][]byte{
		1: {1, 2, 3, 4, 5, 6, 7, 8, 9},
		2: {2, 1, 4, 3, 6, 5, 8, 7, 9},
		4: {4, 3, 2, 1, 8, 7, 6, 5, 9},
		8: {8, 7, 6, 5, 4, 3, 2, 1, 9},
	} {
		got := bytes.Clone(in)
		Swap(got, width)
		if !bytes.Equal(got, want) {
			t.Errorf("Swap by %d = %v", width, got)
		}
		Swap(got, width)
		if !bytes.Equal(got, in) {
			t.Errorf("Swap by %d is not its own inverse", width)
		}
	}
	x := []float32{math.Pi}
	want := binary.LittleEndian.AppendUint32(nil, math.Float32bits(math.Pi))
	ToHost(Bytes(x), 4)
	if !bytes.Equal(Bytes(x), want) {
		t.Error("ToHost of host values must give little-endian bytes")
	}
}

func TestStringHasTheSameBytes(t *testing.T) {
	if String([]byte("name")) != "name" || String(nil) != "" {
		t.Error("String")
	}
}

func TestNotBoolFindsTheFirstInvalidByte(t *testing.T) {
	for n := range 40 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i & 1)
		}
		if NotBool(b) != -1 {
			t.Fatalf("%d good bytes refused", n)
		}
		for i := range b {
			b[i] |= 0x80
			if got := NotBool(b); got != i {
				t.Fatalf("bad byte %d of %d found at %d", i, n, got)
			}
			b[i] = 1
		}
	}
}
