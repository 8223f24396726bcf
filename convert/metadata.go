package convert

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/ztensor"
)

// Metadata of a .gguf has types that CBOR lacks: uint32 and int64 are integers there, and
// a float32 has the digits that it is printed with. On the way back an integer is a
// uint32, in an array an int32, and a float a float32 where it has the digits of one:
// the types that llama.cpp expects of its own keys.

// ggufValue returns the value for a .gguf.
func ggufValue(_ *Plan, text string, v any) (value any, lost string) {
	var x any = text
	switch v := v.(type) {
	case gguf.Value:
		return v, ""
	case ztensor.Value:
		if lost = lostAsText(v); lost != "" && !v.HasTag() {
			var decoded any
			if err := v.Decode(&decoded); err == nil {
				if typed := ggufScalar(decoded); typed != nil {
					x = typed
				} else if list, ok := decoded.([]any); ok {
					if typed := ggufArray(list); typed != nil {
						x = typed
					}
				}
			}
		}
	}
	g, err := gguf.NewValue(x)
	if err != nil { // of text that is not UTF-8, which was refused before
		g, _ = gguf.NewValue("")
	}
	if g.String() == text && g.Type() != gguf.TypeString {
		return g, ""
	}
	if g.Type() != gguf.TypeString { // 1.0 is 1, and text keeps it
		g, _ = gguf.NewValue(text)
	}
	return g, lost
}

// ggufScalar returns the value of a type of .gguf files, nil if there is none.
func ggufScalar(x any) any {
	switch x := x.(type) {
	case bool, string:
		return x
	case uint64:
		if x <= math.MaxUint32 {
			return uint32(x)
		}
		return x
	case int64:
		if x >= math.MinInt32 && x <= math.MaxInt32 {
			return int32(x)
		}
		return x
	case float64:
		return ggufFloat(x)
	}
	return nil
}

// ggufFloat returns x as a float32 where that has the same digits.
func ggufFloat(x float64) any {
	digits := func(bits int) string { return strconv.FormatFloat(x, 'g', -1, bits) }
	if digits(32) == digits(64) {
		return float32(x)
	}
	return x
}

// ggufArray returns an array of one type, nil if the elements have several.
func ggufArray(list []any) any {
	if len(list) == 0 {
		return []string{}
	}
	switch list[0].(type) {
	case string:
		return sliceOf(list, func(x any) (string, bool) { s, ok := x.(string); return s, ok })
	case bool:
		return sliceOf(list, func(x any) (bool, bool) { b, ok := x.(bool); return b, ok })
	case []any:
		return sliceOf(list, func(x any) (any, bool) {
			inner, ok := x.([]any)
			if !ok {
				return nil, false
			}
			typed := ggufArray(inner)
			return typed, typed != nil
		})
	case float64:
		narrow := sliceOf(list, func(x any) (float32, bool) {
			f, ok := x.(float64)
			if !ok {
				return 0, false
			}
			n, ok := ggufFloat(f).(float32)
			return n, ok
		})
		if narrow != nil {
			return narrow
		}
		return sliceOf(list, func(x any) (float64, bool) { f, ok := x.(float64); return f, ok })
	}
	if narrow := sliceOf(list, integer[int32]); narrow != nil {
		return narrow
	}
	if wide := sliceOf(list, integer[int64]); wide != nil {
		return wide
	}
	return sliceOf(list, integer[uint64])
}

// integer returns an integer that the type holds.
func integer[T int32 | int64 | uint64](x any) (T, bool) {
	switch x := x.(type) {
	case uint64:
		return T(x), T(x) >= 0 && uint64(T(x)) == x
	case int64:
		return T(x), int64(T(x)) == x && (T(x) < 0) == (x < 0)
	}
	return 0, false
}

// sliceOf returns what each makes of all elements, nil if one has no such value.
func sliceOf[T any](list []any, each func(any) (T, bool)) any {
	out := make([]T, len(list))
	for i, x := range list {
		var ok bool
		if out[i], ok = each(x); !ok {
			return nil
		}
	}
	return out
}

// ztensorValue returns the value for a .zt, whose attributes are of CBOR in version 2.
func ztensorValue(p *Plan, text string, v any) (value any, lost string) {
	if p.version != ztensor.Version2 {
		return textOf(text, v)
	}
	switch v := v.(type) {
	case ztensor.Value:
		return v, ""
	case gguf.Value:
		x, ok := cborOf(v.Any(-1))
		if !ok {
			return text, "the value, of type " + v.TypeName() + ", becomes text"
		}
		return x, ""
	}
	return text, ""
}

// cborOf returns a value of a .gguf as CBOR has it, false for NaN, infinity and strings
// that are not UTF-8.
func cborOf(x any) (any, bool) {
	switch x := x.(type) {
	case float32:
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
		return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
	case float64:
		return x, !math.IsInf(x, 0) && !math.IsNaN(x)
	case string:
		return x, utf8.ValidString(x)
	case []string:
		return listOf(x)
	case []uint8: // which would be bytes
		return listOf(x)
	case []float32:
		return listOf(x)
	case []float64:
		return listOf(x)
	case []any:
		return listOf(x)
	}
	return x, true
}

func listOf[T any](xs []T) (any, bool) {
	list := make([]any, len(xs))
	for i, x := range xs {
		var ok bool
		if list[i], ok = cborOf(x); !ok {
			return nil, false
		}
	}
	return list, true
}
