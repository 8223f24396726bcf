package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"
)

// A ValueType is the type of a metadata value, by its number in the file.
type ValueType uint32

// The types of metadata values.
const (
	TypeUint8 ValueType = iota
	TypeInt8
	TypeUint16
	TypeInt16
	TypeUint32
	TypeInt32
	TypeFloat32
	TypeBool
	TypeString
	TypeArray
	TypeUint64
	TypeInt64
	TypeFloat64
)

var typeNames = [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32",
	"bool", "string", "array", "uint64", "int64", "float64"}

// String returns the name of the type, such as "uint8".
func (t ValueType) String() string {
	if int64(t) < int64(len(typeNames)) {
		return typeNames[t]
	}
	return fmt.Sprintf("ValueType(%d)", uint32(t))
}

// width is the bytes of a value of fixed size, 0 for others.
func (t ValueType) width() int64 {
	switch t {
	case TypeUint8, TypeInt8, TypeBool:
		return 1
	case TypeUint16, TypeInt16:
		return 2
	case TypeUint32, TypeInt32, TypeFloat32:
		return 4
	case TypeUint64, TypeInt64, TypeFloat64:
		return 8
	}
	return 0
}

// A Value is a metadata value. It refers to the metadata of its Reader and is valid as
// long as that is in memory, also after Close.
type Value struct {
	a       attribute
	version uint32
}

// Value returns the metadata value of that key.
func (r *Reader) Value(key string) (Value, bool) {
	for _, a := range r.h.metadata {
		if a.key == key {
			return Value{a, r.h.version}, true
		}
	}
	return Value{}, false
}

// Metadata yields keys and values in the order of the file.
func (r *Reader) Metadata() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, a := range r.h.metadata {
			if !yield(a.key, Value{a, r.h.version}) {
				return
			}
		}
	}
}

// Type returns the type of the value.
func (v Value) Type() ValueType { return v.a.t }

// Array returns the type and the number of the elements of an array. It is false for
// other values.
func (v Value) Array() (elem ValueType, n int64, ok bool) {
	if v.a.t != TypeArray {
		return 0, 0, false
	}
	s := v.scanner()
	return ValueType(s.u32()), s.size(""), true
}

// String returns the value as [Reader.Attributes] does.
func (v Value) String() string {
	if v.version == 0 {
		return ""
	}
	return v.a.text(v.version)
}

// Any returns the value as a uint8, int8, uint16, int16, uint32, int32, uint64, int64,
// float32, float64, bool or string. Of an array it returns the first n elements as a
// slice of such a type, or of any for an array of arrays, each of which has its first
// n; all of them if n is negative. The zero Value is nil.
func (v Value) Any(n int) any {
	if v.version == 0 {
		return nil
	}
	s := v.scanner()
	return s.value(v.a.t, n)
}

func (v Value) scanner() *scanner { return &scanner{b: v.a.raw, version: v.version} }

// value returns the next value, which skip has checked.
func (s *scanner) value(t ValueType, n int) any {
	switch t {
	case TypeString:
		return s.text()
	case TypeArray:
		return s.array(n)
	}
	b := s.take(t.width())
	switch t {
	case TypeUint8:
		return b[0]
	case TypeInt8:
		return int8(b[0])
	case TypeUint16:
		return binary.LittleEndian.Uint16(b)
	case TypeInt16:
		return int16(binary.LittleEndian.Uint16(b))
	case TypeUint32:
		return binary.LittleEndian.Uint32(b)
	case TypeInt32:
		return int32(binary.LittleEndian.Uint32(b))
	case TypeUint64:
		return binary.LittleEndian.Uint64(b)
	case TypeInt64:
		return int64(binary.LittleEndian.Uint64(b))
	case TypeFloat32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case TypeFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return b[0] != 0
}

func (s *scanner) text() string { return strings.Clone(s.str("", math.MaxInt64)) }

// array returns the first elements of the next array, and leaves it behind.
func (s *scanner) array(n int) any {
	elem, size := ValueType(s.u32()), s.size("")
	k := size
	if n >= 0 {
		k = min(size, int64(n))
	}
	switch elem {
	case TypeUint8:
		return numbers[uint8](s, k, size)
	case TypeInt8:
		return numbers[int8](s, k, size)
	case TypeUint16:
		return numbers[uint16](s, k, size)
	case TypeInt16:
		return numbers[int16](s, k, size)
	case TypeUint32:
		return numbers[uint32](s, k, size)
	case TypeInt32:
		return numbers[int32](s, k, size)
	case TypeUint64:
		return numbers[uint64](s, k, size)
	case TypeInt64:
		return numbers[int64](s, k, size)
	case TypeFloat32:
		return numbers[float32](s, k, size)
	case TypeFloat64:
		return numbers[float64](s, k, size)
	case TypeBool:
		return numbers[bool](s, k, size)
	case TypeString:
		list := make([]string, 0, k)
		for i := range size {
			if x := s.str("", math.MaxInt64); i < k {
				list = append(list, strings.Clone(x))
			}
		}
		return list
	}
	list := make([]any, 0, k)
	for i := range size {
		if i < k {
			list = append(list, s.array(n))
		} else {
			s.array(0)
		}
	}
	return list
}

// numbers returns the first k of size elements of a fixed width, and leaves them behind.
func numbers[T any](s *scanner, k, size int64) []T {
	list := make([]T, k)
	var one T
	width := int64(binary.Size(one))
	b := s.take(size * width)[:k*width]
	_, _ = binary.Decode(b, binary.LittleEndian, list) // which has the length of b
	return list
}
