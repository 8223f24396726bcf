package command

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// shortNumber returns a number, or a pointer to one, as text; floats have six digits.
func shortNumber(v any) string {
	switch n := reflect.Indirect(reflect.ValueOf(v)); {
	case !n.IsValid():
		return "-"
	case n.CanFloat():
		return strconv.FormatFloat(n.Float(), 'g', 6, 64)
	default:
		return fmt.Sprint(n)
	}
}

// asFloat returns a number, or a pointer to one, as a float64; NaN for other values.
func asFloat(v any) float64 {
	switch n := reflect.Indirect(reflect.ValueOf(v)); {
	case n.CanFloat():
		return n.Float()
	case n.CanInt():
		return float64(n.Int())
	case n.CanUint():
		return float64(n.Uint())
	case n.Kind() == reflect.Bool && n.Bool():
		return 1
	case n.Kind() == reflect.Bool:
		return 0
	}
	return math.NaN()
}
