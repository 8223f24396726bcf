package repotest

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// Every format that holds a bag of tensors saves and loads a map of them.
func TestEveryFormatLoadsWhatItSaves(t *testing.T) {
	type bag = map[string]*tensor.Tensor
	for _, format := range []struct {
		name string
		save func(string, bag) error
		load func(string) (bag, error)
	}{
		{"safetensors", safetensors.Save, safetensors.Load},
		{"npz", npz.Save, npz.Load},
		{"gguf", gguf.Save, gguf.Load},
		{"ptd", ptd.Save, ptd.Load},
		{"ztensor", ztensor.Save, ztensor.Load},
		{"primitiv", primitiv.Save, primitiv.Load},
	} {
		t.Run(format.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "weights")
			w := tensor.New("another name", tensor.Shape{2, 3}, []float32{0, 1, 2, 3, 4, 5})
			if err := format.save(file, bag{"a.w": w, "b": tensor.New("b", tensor.Shape{1, 2},
				[]float32{6, 7})}); err != nil {
				t.Fatal(err)
			}
			got, err := format.load(file)
			if err != nil {
				t.Fatal(err)
			}
			x := got["a.w"]
			if len(got) != 2 || x == nil || x.Name != "a.w" || got["b"] == nil {
				t.Fatalf("%v", got)
			}
			if _, ok := x.Data.Memory(); !ok {
				t.Error("it is not in memory")
			}
			values, err := tensor.Slice(x) // row-major
			if err != nil {
				t.Fatal(err)
			}
			v, err := tensor.Load[float32](values)
			if err != nil || !x.Shape.Equal(w.Shape) ||
				!slices.Equal(v, []float32{0, 1, 2, 3, 4, 5}) {
				t.Errorf("%v %v, %v", x.Shape, v, err)
			}
			if w.Name != "another name" {
				t.Error("Save renamed the tensor of the caller")
			}
			if _, err := format.load(filepath.Join(t.TempDir(), "absent")); err == nil {
				t.Error("an absent file was loaded")
			}
		})
	}
}

// The parts of a sparse tensor are loaded, too.
func TestLoadReadsThePartsOfSparseTensors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.zt")
	s := &tensor.Tensor{Name: "s", DType: tensor.F32, Shape: tensor.Shape{2, 2}, Scheme: "csr",
		Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32, Data: tensor.BlobOf(make([]byte, 4))},
			{Role: "indices", DType: tensor.U64, Data: tensor.BlobOf(make([]byte, 8))},
			{Role: "indptr", DType: tensor.U64,
				Data: tensor.BlobOf([]byte{23: 0, 8: 1, 16: 1})},
		}}
	if err := ztensor.Save(file, map[string]*tensor.Tensor{"s": s}); err != nil {
		t.Fatal(err)
	}
	got, err := ztensor.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	x := got["s"]
	if x == nil || len(x.Parts) != 3 || x.Data.Size() != 0 {
		t.Fatalf("%v", x)
	}
	for _, p := range x.Parts {
		if _, ok := p.Data.Memory(); !ok || p.Data.Size() == 0 {
			t.Errorf("%s: %d bytes, in memory: %v", p.Role, p.Data.Size(), ok)
		}
	}
}
