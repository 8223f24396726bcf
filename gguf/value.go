package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"reflect"
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

// For each type of fixed size, zeros has the zero value of its Go type, widths its size
// in bytes.
var (
	zeros = [...]any{TypeUint8: uint8(0), TypeInt8: int8(0), TypeUint16: uint16(0),
		TypeInt16: int16(0), TypeUint32: uint32(0), TypeInt32: int32(0),
		TypeFloat32: float32(0), TypeBool: false, TypeUint64: uint64(0), TypeInt64: int64(0),
		TypeFloat64: float64(0)}
	widths = [len(zeros)]int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}
)

// width returns the size of a value in bytes; 0 for strings and arrays.
func (t ValueType) width() int64 {
	if int64(t) < int64(len(widths)) {
		return widths[t]
	}
	return 0
}

// A Value is a metadata value. It stays valid after Close of its Reader.
type Value struct {
	a       attribute
	version uint32
}

// Value returns the metadata value of that key; false if there is none.
func (r *Reader) Value(key string) (Value, bool) {
	for _, a := range r.h.metadata {
		if a.key == key {
			return Value{a, r.h.version}, true
		}
	}
	return Value{}, false
}

// Uint returns a metadata integer of any type that is not negative; false for other
// values, or if there is none.
func (r *Reader) Uint(key string) (uint64, bool) {
	v, _ := r.Value(key)
	switch x := reflect.ValueOf(v.Any(0)); {
	case x.CanUint():
		return x.Uint(), true
	case x.CanInt() && x.Int() >= 0:
		return uint64(x.Int()), true
	}
	return 0, false
}

// Int returns a metadata integer of any type that an int64 can hold; false for other
// values, or if there is none.
func (r *Reader) Int(key string) (int64, bool) {
	v, _ := r.Value(key)
	if x := reflect.ValueOf(v.Any(0)); x.CanInt() {
		return x.Int(), true
	}
	n, ok := r.Uint(key)
	return int64(n), ok && n <= math.MaxInt64
}

// Float returns a metadata float32 or float64; false for other values, or if there is
// none.
func (r *Reader) Float(key string) (float64, bool) {
	v, _ := r.Value(key)
	if x := reflect.ValueOf(v.Any(0)); x.CanFloat() {
		return x.Float(), true
	}
	return 0, false
}

// String returns a metadata string; false for other values, or if there is none.
func (r *Reader) String(key string) (string, bool) { return valueOf[string](r, key) }

// Bool returns a metadata bool; false for other values, or if there is none.
func (r *Reader) Bool(key string) (value, ok bool) { return valueOf[bool](r, key) }

// Strings returns a metadata array of strings, which it copies; false for other values,
// or if there is none.
func (r *Reader) Strings(key string) ([]string, bool) { return valueOf[[]string](r, key) }

func valueOf[T any](r *Reader, key string) (T, bool) {
	v, _ := r.Value(key)
	x, ok := v.Any(-1).(T)
	return x, ok
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
// float32, float64, bool or string. For an array it returns the first n elements, all if
// n is negative, as a slice of such a type. For an array of arrays it returns an []any of
// the first n, each of which has its first n elements. For the zero Value it returns nil.
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
	x := reflect.New(reflect.TypeOf(zeros[t]))
	_, _ = binary.Decode(s.take(t.width()), binary.LittleEndian, x.Interface())
	return x.Elem().Interface()
}

func (s *scanner) text() string { return strings.Clone(s.str("", math.MaxInt64)) }

// array reads the next array and returns its first n elements, all if n is negative.
func (s *scanner) array(n int) any {
	elem, size := ValueType(s.u32()), s.size("")
	k := size
	if n >= 0 {
		k = min(size, int64(n))
	}
	if w := elem.width(); w > 0 {
		list := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(zeros[elem])), int(k), int(k))
		_, _ = binary.Decode(s.take(size * w)[:k*w], binary.LittleEndian, list.Interface())
		return list.Interface()
	}
	if elem == TypeString {
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
