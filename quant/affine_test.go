package quant_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// Quantised tensors of torch have the values that torch dequantises them to, bit for bit:
// the files of testdata, and of interop/torch.sh when TENSORFILE_TORCH names their
// directory.
func TestQuantizedTensorsOfTorchHaveItsValues(t *testing.T) {
	dir := "../testdata/torch"
	if d := os.Getenv("TENSORFILE_TORCH"); d != "" {
		dir = d
	}
	var files [2]*tensorfile.File
	for i, name := range []string{"quantized.pt", "quantized_values.pt"} {
		f, err := tensorfile.Open(filepath.Join(dir, name), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	n := 0
	for w := range quant.Weights(files[0], nil) {
		got, err := tensor.Load[float32](w.Tensor)
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		want, err := tensor.Load[float32](files[1].Tensor(w.Name))
		if err != nil || !slices.Equal(got, want) || w.Scheme == "" ||
			!w.Tensor.Shape.Equal(files[1].Tensor(w.Name).Shape) {
			t.Errorf("%s of %s: %v, want %v", w.Name, w.Scheme, got, want)
		}
		n++
	}
	if n != files[1].Len() || n < 14 {
		t.Errorf("%d weights of %d", n, files[1].Len())
	}
}

// A quantised tensor whose parts do not fit has no values.
func TestQuantizedTensorsOfTorchThatAreWrongHaveNoValues(t *testing.T) {
	part := func(role string, x *tensor.Tensor) tensor.Part {
		return tensor.Part{Role: role, DType: x.DType, Data: x.Data}
	}
	scale, zero := tensor.New("", nil, []float64{.5}), tensor.New("", nil, []int64{3})
	pair := tensor.New("", nil, []float64{.5, .25})
	for name, c := range map[string]struct {
		parts     []tensor.Part
		isRefused bool
	}{
		"scale and zero point": {[]tensor.Part{part("scale", scale), part("zero_point", zero)},
			false},
		"no parts":      {nil, false},
		"no zero point": {[]tensor.Part{part("scale", scale)}, true},
		"two scales for one": {[]tensor.Part{part("scale", pair), part("zero_point", zero)},
			true},
		"no axis": {[]tensor.Part{part("scales", pair), part("zero_points", zero)},
			true},
		"an axis that is outside": {[]tensor.Part{part("scales", scale),
			part("zero_points", zero), part("axis", zero)}, true},
		"scales for another axis": {[]tensor.Part{part("scales", pair), part("zero_points", pair),
			part("axis", tensor.New("", nil, []int64{0}))}, true},
	} {
		x := &tensor.Tensor{Name: "w", DType: tensor.QI8, Shape: tensor.Shape{3, 2},
			Data: tensor.BlobOf([]byte("abcdef")), Parts: c.parts}
		f := tensorfile.FromTensors([]*tensor.Tensor{x}, nil)
		for w := range quant.Weights(f, nil) {
			if (w.Err != nil) != c.isRefused {
				t.Errorf("%s: %v", name, w.Err)
			}
			if b, err := w.Tensor.Data.ReadAll(); (err != nil) != c.isRefused {
				t.Errorf("%s: %v, %v", name, b, err)
			}
		}
	}
}

// Scales of torch's own quantised tensors are checked as all others are.
func TestScalesOfTorchAreChecked(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	narrow := func(v []float64) []float32 {
		out := make([]float32, len(v))
		for i := range v {
			out[i] = float32(v[i])
		}
		return out
	}
	for name, c := range map[string]struct {
		scales, zeros []float64
		want          int
	}{
		"sound":                 {[]float64{.5, 1e-9, 3}, []float64{0, -7, 1}, 0},
		"one of them 0":         {[]float64{.5, 0, 3}, []float64{0, 0, 0}, 0},
		"all 0":                 {[]float64{0, 0, 0}, []float64{0, 0, 0}, 1},
		"negative":              {[]float64{.5, -.5, 3}, []float64{0, 0, 0}, 1},
		"NaN":                   {[]float64{.5, nan, 3}, []float64{0, 0, 0}, 1},
		"infinite":              {[]float64{.5, .5, inf}, []float64{0, 0, 0}, 1},
		"negative and infinite": {[]float64{-.5, .5, inf}, []float64{0, 0, 0}, 2},
		"a zero point NaN":      {[]float64{.5, .5, .5}, []float64{nan, 0, 0}, 1},
	} {
		for _, form := range []string{"one scale", "a scale each", "a zero point of floats"} {
			at := []tensor.Part{}
			add := func(role string, x *tensor.Tensor) {
				at = append(at, tensor.Part{Role: role, DType: x.DType, Data: x.Data})
			}
			want := c.want
			switch form {
			case "one scale": // the one that is wrong
				i := slices.IndexFunc(c.scales, func(x float64) bool { return !(x >= 0) || x > 9 })
				scale := c.scales[max(i, 0)]
				add("scale", tensor.New("", nil, []float64{scale}))
				add("zero_point", tensor.New("", nil, []int64{3}))
				want = min(want, 1)
				if scale == .5 {
					want = 0
				}
			case "a scale each":
				add("scales", tensor.New("", tensor.Shape{3}, c.scales))
				add("zero_points", tensor.New("", tensor.Shape{3}, []int64{1, 2, 3}))
				add("axis", tensor.New("", nil, []int64{0}))
				if c.zeros[0] != c.zeros[0] {
					want = 0
				}
			default:
				add("scales", tensor.New("", tensor.Shape{3}, narrow(c.scales)))
				add("zero_points", tensor.New("", tensor.Shape{3}, narrow(c.zeros)))
				add("axis", tensor.New("", nil, []int64{0}))
			}
			x := &tensor.Tensor{Name: "w", DType: tensor.QI8, Shape: tensor.Shape{3, 2},
				Data: tensor.BlobOf([]byte("abcdef")), Parts: at}
			w := one(t, quant.Find(of(x), nil))
			found, err := w.Check(t.Context())
			if err != nil || w.Err != nil || len(found) != want {
				t.Errorf("%s, %s: %v, %v; %d findings are due", name, form, found, err, want)
			}
			for _, f := range found {
				if f.Code != quant.ScaleValue || f.Severity != tensor.SeverityError ||
					f.Tensor != "w" {
					t.Errorf("%s, %s: %+v", name, form, f)
				}
			}
		}
	}
}
