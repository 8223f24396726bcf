package command

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// shortNumber writes a number, or what points to one, with six digits if it is a float.
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

// asFloat returns a number as shortNumber takes it for comparing; NaN for none.
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
