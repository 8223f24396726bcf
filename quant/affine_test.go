package quant_test

import (
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
func TestQuantizedTensorsOfTorch(t *testing.T) {
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
func TestQuantizedTensorsOfTorchThatAreWrong(t *testing.T) {
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
