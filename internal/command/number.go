package command

import (
	"cmp"
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/inspect"
)

// appendNumber writes an element as inspect.Value has it, for people: with all digits,
// NaN and infinities as nan, inf and -inf.
func appendNumber(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float32:
		return appendReal(b, float64(v), 32)
	case float64:
		return appendReal(b, v, 64)
	case inspect.Float:
		return appendReal(b, float64(v), 64)
	case inspect.Complex:
		b = appendReal(b, float64(v[0]), 64)
		if im := float64(v[1]); !math.Signbit(im) || math.IsNaN(im) {
			b = append(b, '+')
		}
		return append(appendReal(b, float64(v[1]), 64), 'i')
	}
	return append(b, '-')
}

func appendReal(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "nan"...)
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case math.IsInf(v, -1):
		return append(b, "-inf"...)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}

// shortNumber writes a number with six digits where it is a float.
func shortNumber(v any) string {
	switch v := v.(type) {
	case float32:
		return strconv.FormatFloat(float64(v), 'g', 6, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', 6, 64)
	case *inspect.Float:
		if v != nil {
			return shortNumber(float64(*v))
		}
		return "-"
	case inspect.Float:
		return shortNumber(float64(v))
	}
	return string(appendNumber(nil, v))
}

// compareNumbers orders numbers as shortNumber takes them; nil comes first.
func compareNumbers(a, b any) int { return cmp.Compare(asFloat(a), asFloat(b)) }

func asFloat(v any) float64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float32:
		return float64(v)
	case float64:
		return v
	case *inspect.Float:
		if v != nil {
			return float64(*v)
		}
	}
	return math.NaN()
}
