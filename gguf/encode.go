package gguf

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A KeyValue is a metadata entry.
type KeyValue struct {
	Key   string
	Value Value
}

// NewValue returns the metadata value of x, which has one of the Go types that
// [Value.Any] returns, or is an int or []int. An int or []int becomes int32 if it fits,
// as in the gguf package, else int64. Arrays of arrays are []any; llama.cpp refuses files
// that have them. NewValue fails with tensor.ErrDType for other types, with
// errors.ErrUnsupported if a string is not UTF-8.
func NewValue(x any) (Value, error) {
	t, raw, err := appendAny(nil, x, 0, false)
	if err != nil {
		return Value{}, fmt.Errorf("gguf: %w", err)
	}
	return Value{attribute{t: t, raw: raw}, 3}, nil
}

// maxNesting bounds arrays in arrays: an []any may contain itself.
const maxNesting = 64

// appendAny appends the value x and returns its type, which is not appended. If anyBytes
// is not set, it fails for strings that are not UTF-8.
func appendAny(b []byte, x any, depth int, anyBytes bool) (ValueType, []byte, error) {
	text := appendText
	if anyBytes {
		text = func(b []byte, s string) ([]byte, error) { return appendBytes(b, s), nil }
	}
	switch x := x.(type) {
	case int:
		if x == int(int32(x)) {
			return appendAny(b, int32(x), depth, anyBytes)
		}
		return appendAny(b, int64(x), depth, anyBytes)
	case []int:
		narrow, wide := make([]int32, len(x)), make([]int64, len(x))
		for i, n := range x {
			narrow[i], wide[i] = int32(n), int64(n)
		}
		if slices.EqualFunc(narrow, wide, func(a int32, b int64) bool { return int64(a) == b }) {
			return appendAny(b, narrow, depth, anyBytes)
		}
		return appendAny(b, wide, depth, anyBytes)
	case string:
		b, err := text(b, x)
		return TypeString, b, err
	case []string:
		b = appendArray(b, TypeString, len(x))
		for _, s := range x {
			var err error
			if b, err = text(b, s); err != nil {
				return 0, nil, err
			}
		}
		return TypeArray, b, nil
	case []any:
		if depth > maxNesting {
			return 0, nil, fmt.Errorf("%w: arrays nested deeper than %d", tensor.ErrLimit,
				maxNesting)
		}
		b = appendArray(b, TypeArray, len(x))
		for _, e := range x {
			t, all, err := appendAny(b, e, depth+1, anyBytes)
			if err == nil && t != TypeArray {
				err = fmt.Errorf("%w: %T in an array of arrays", tensor.ErrDType, e)
			}
			if err != nil {
				return 0, nil, err
			}
			b = all
		}
		return TypeArray, b, nil
	}
	v := reflect.ValueOf(x)
	t := TypeArray
	kind := v.Kind()
	if kind == reflect.Slice {
		kind = v.Type().Elem().Kind()
	}
	elem, ok := typeOfKind(kind)
	if !ok {
		return 0, nil, fmt.Errorf("%w: a value of type %T", tensor.ErrDType, x)
	}
	if v.Kind() == reflect.Slice {
		b = appendArray(b, elem, v.Len())
	} else {
		t = elem
	}
	b, err := binary.Append(b, binary.LittleEndian, x)
	return t, b, err
}

func typeOfKind(k reflect.Kind) (ValueType, bool) {
	for t, zero := range zeros {
		if zero != nil && reflect.TypeOf(zero).Kind() == k {
			return ValueType(t), true
		}
	}
	return 0, false
}

func appendArray(b []byte, elem ValueType, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(elem))
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

// appendText appends a string and its length.
func appendText(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%w: the string %s is not UTF-8", errors.ErrUnsupported,
			naming.Quote(s))
	}
	return appendBytes(b, s), nil
}

// appendBytes appends a string, whatever its bytes, and its length.
func appendBytes(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// ParseValue parses text as a value of a type, whose name is as [Value.TypeName] returns
// it: numbers in decimal, true and false, strings as they are, arrays as JSON. It fails
// with tensor.ErrDType if the type is unknown or cannot hold the value, and for NaN and
// infinity.
func ParseValue(typeName, text string) (Value, error) {
	v, err := parseValue(typeName, text)
	if err != nil {
		return Value{}, fmt.Errorf("gguf: %w", err)
	}
	return v, nil
}

func parseValue(typeName, text string) (Value, error) {
	elem, isArray := strings.CutPrefix(typeName, "[]")
	for i, name := range typeNames {
		t := ValueType(i)
		if name != elem || t == TypeArray {
			continue
		}
		v := Value{attribute{t: t}, 3}
		var err error
		if !isArray {
			v.a.raw, err = appendParsed(nil, t, text)
		} else {
			v.a.t = TypeArray
			v.a.raw, err = parseArray(t, text)
		}
		if err != nil {
			return Value{}, err
		}
		return v, nil
	}
	return Value{}, fmt.Errorf("%w: no type is named %s, or it has no text form",
		tensor.ErrDType, naming.Quote(typeName))
}

// parseArray returns the encoded array of a JSON text.
func parseArray(elem ValueType, text string) ([]byte, error) {
	refuse := func(what string) ([]byte, error) {
		return nil, fmt.Errorf("%w: %s is not a JSON array%s", tensor.ErrDType,
			naming.Quote(text), what)
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil || list == nil {
		return refuse("")
	}
	b := appendArray(nil, elem, len(list))
	for _, item := range list {
		value := string(item)
		if elem == TypeString {
			if json.Unmarshal(item, &value) != nil || item[0] != '"' {
				return refuse(" of strings")
			}
		}
		var err error
		if b, err = appendParsed(b, elem, value); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendParsed appends the value of text in type t, which is not an array.
func appendParsed(b []byte, t ValueType, text string) ([]byte, error) {
	bits := 8 * int(t.width())
	var number uint64
	var err error
	switch t {
	case TypeString:
		return appendText(b, text)
	case TypeBool:
		if text == "true" {
			number = 1
		} else if text != "false" {
			err = strconv.ErrSyntax
		}
	case TypeFloat32, TypeFloat64:
		var f float64
		f, err = strconv.ParseFloat(text, bits)
		if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			err = strconv.ErrRange
		}
		if number = math.Float64bits(f); t == TypeFloat32 {
			number = uint64(math.Float32bits(float32(f)))
		}
	case TypeInt8, TypeInt16, TypeInt32, TypeInt64:
		var i int64
		i, err = strconv.ParseInt(text, 10, bits)
		number = uint64(i)
	default:
		number, err = strconv.ParseUint(text, 10, bits)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s is not a value of type %v", tensor.ErrDType,
			naming.Quote(text), t)
	}
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], number)
	return append(b, raw[:t.width()]...), nil
}

// TypeName returns the name of the type of the value, such as "uint8"; for an array "[]"
// and the name of the type of its elements, such as "[]string".
func (v Value) TypeName() string {
	if elem, _, ok := v.Array(); ok {
		return "[]" + elem.String()
	}
	return v.a.t.String()
}

// encoded returns the bytes of the value in a file of version 3.
func (v Value) encoded() ([]byte, error) {
	if v.version != 1 {
		return v.a.raw, nil
	}
	_, raw, err := appendAny(nil, v.Any(-1), 0, true)
	return raw, err
}
