package tensor

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestAsFiniteRefusesValuesOutOfRange(t *testing.T) {
	inf, inf32 := math.Inf(1), float32(math.Inf(1))
	for name, c := range map[string]struct {
		x    *Tensor
		to   DType
		want string // of the error; "" for none
	}{
		"rounds within the range": {New("x", Shape{2}, []float32{65519, 1e-9}), F16, ""},
		"float16 from float32": {New("x", Shape{3}, []float32{1, 65520, 2}), F16,
			"element 1 of float32 is 65520, which does not fit float16"},
		"bfloat16 from float32": {New("x", Shape{1}, []float32{3.4e38}), BF16,
			"element 0 of float32 is 3.4e+38"},
		"float32 from float64": {New("x", Shape{2}, []float64{0, -1e300}), F32,
			"element 1 of float64 is -1e+300"},
		"float16 from int64": {New("x", Shape{1}, []int64{-1 << 62}), F16,
			"element 0 of int64 is -4611686018427387904"},
		"float8 from float16": {New("x", Shape{1}, []Float16{NewFloat16(480)}), F8E4M3FN,
			"is 480, which does not fit float8_e4m3fn"},
		"infinities stay": {New("x", Shape{3}, []float64{-inf, inf, math.NaN()}), F16,
			""},
		"infinities become NaN": {New("x", Shape{2}, []float64{0, -inf}), F8E4M3FN,
			"element 1 of float64 is -Inf"},
		"infinities of float8": {New("x", Shape{1}, []float64{inf}), F8E5M2FNUZ,
			"element 0 of float64 is +Inf"},
		"NaN stays":                {New("x", Shape{1}, []float64{math.NaN()}), F8E4M3FNUZ, ""},
		"real and imaginary parts": {New("x", Shape{3}, []complex128{1, 2i, 3}), C64, ""},
		"a complex dtype of few":   {New("x", Shape{5}, []float64{1, 2, inf, 4, -5}), C32, ""},
		"the last of many blocks": {New("x", Shape{70_000}, append(slices.Repeat(
			[]float32{-inf32, 1}, 34_999), 0, 1e9)), F16,
			"element 69999 of float32 is 1e+09"},
		"the last of many parts": {New("x", Shape{70_000}, append(slices.Repeat(
			[]float64{-inf, 1}, 34_999), 0, 1e9)), C32,
			"element 69999 of float64 is 1e+09"},
		"the imaginary part": {New("x", Shape{2}, []complex128{1, 1e300i}), C64,
			"element 1 of complex128 is (0, 1e+300)"},
		"float16 of complex": {New("x", Shape{2}, []int32{1, 70000}), C32,
			"element 1 of int32 is 70000"},
		"integers": {New("x", Shape{1}, []uint16{300}), U8,
			"element 0 of uint16 is 300, which does not fit uint8"},
		"unsigned integers": {New("x", Shape{1}, []uint64{1 << 63}), I64,
			"element 0 of uint64 is 9223372036854775808"},
	} {
		y, err := AsFinite(c.x, c.to)
		if err != nil {
			t.Fatal(err)
		}
		_, err = y.Data.ReadAll()
		class := ErrOverflow
		if c.to.IsInt() {
			class = ErrDType
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.Is(err, class) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), `tensor "x": `)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if y, err = As(c.x, c.to); err == nil && !c.to.IsInt() {
			_, err = y.Data.ReadAll()
		}
		if err != nil {
			t.Errorf("%s: As: %v", name, err)
		}
	}
	packed := &Tensor{Name: "x", DType: F4E2M1FN, Shape: Shape{3},
		Data: BlobOf([]byte{0x42, 0x01})}
	y, err := As(packed, I8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.Data.ReadAll(); err == nil || !strings.Contains(err.Error(),
		"element 2 of float4_e2m1fn is 0.5") {
		t.Error(err)
	}
}
