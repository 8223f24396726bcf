package tensorfile_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestCreateWritesEveryFormatOfTensors(t *testing.T) {
	x := tensor.New("x", tensor.Shape{2, 2}, []float32{1, 2, 3, 4})
	for _, f := range tensorfile.Formats() {
		name := filepath.Join(t.TempDir(), "f"+f.Ext())
		if tensorfile.ByName(name) != f {
			t.Errorf("ByName(%q) is %v", name, tensorfile.ByName(name))
		}
		for _, version := range append([]string{""}, f.Writes()...) {
			w, err := tensorfile.Create(name, f, &tensorfile.WriterOptions{Version: version})
			if f.Caps().DTypes == nil {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("%v: %v", f, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(f, err)
			}
			in := x
			if f == tensorfile.Primitiv {
				if in, err = tensor.Reordered(x, tensor.ColumnMajor(2)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(w.Check(in), w.AddAll(t.Context(), tensor.Of(in)), w.Close(),
				w.Close()); err != nil {
				t.Errorf("%v %s: %v", f, version, err)
				continue
			}
			r, err := tensorfile.Open(name, nil)
			if err != nil {
				t.Fatal(f, version, err)
			}
			if r.Format() != f || r.Len() != 1 || version != "" && version != r.Version() &&
				r.Version() != "" {
				t.Errorf("%v %s came back as %v %s of %d tensors", f, version, r.Format(),
					r.Version(), r.Len())
			}
			for y := range r.Tensors() {
				if got, err := tensor.Convert[float32](y); err != nil ||
					!slices.Equal(got, []float32{1, 2, 3, 4}) {
					t.Errorf("%v: %v, %v", f, got, err)
				}
			}
			r.Close()
		}
	}
}

func TestCreateRefusesOptionsThatAFormatLacks(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		f tensorfile.Format
		o tensorfile.WriterOptions
	}{
		"no format": {0, tensorfile.WriterOptions{}},
		"another version": {tensorfile.ZTensor,
			tensorfile.WriterOptions{Version: "7"}},
		"attributes without a place": {tensorfile.PTD,
			tensorfile.WriterOptions{Attributes: map[string]string{"a": "b"}}},
		"a format that is only read":  {tensorfile.Torch, tensorfile.WriterOptions{}},
		"a program, made of a tensor": {tensorfile.PTE, tensorfile.WriterOptions{}},
	} {
		if w, err := tensorfile.Create(filepath.Join(dir, "f"), c.f, &c.o); w != nil ||
			!errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, err := tensorfile.Create(filepath.Join(dir, "f.rten"), tensorfile.RTen, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(tensor.New("x", tensor.Shape{1}, []float64{1})); err == nil {
		t.Error("a .rten took float64")
	}
	w.Abort()
	if w.Close() == nil {
		t.Error("Close after Abort reports no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestUnknownConstantsPrintTheirNumber: no String panics.
func TestUnknownConstantsPrintTheirNumber(t *testing.T) {
	for _, c := range []struct {
		s    fmt.Stringer
		want string
	}{
		{tensorfile.Orders(9), "Orders(9)"},
		{tensorfile.Names(99), "Names(99)"},
		{tensorfile.Format(99), "Format(99)"},
		{tensor.DType(200), "DType(200)"},
		{tensorfile.OnlyColumnMajor, "column-major"},
	} {
		if got := c.s.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestByNameGoesByExtension(t *testing.T) {
	for name, want := range map[string]tensorfile.Format{
		"a/B.SafeTensors": tensorfile.Safetensors, "x.zt": tensorfile.ZTensor, "noextension": 0,
		".zt.bak": 0, "": 0,
	} {
		if got := tensorfile.ByName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestFromTensorsGivesAFileInMemory(t *testing.T) {
	x := tensor.New("x", tensor.Shape{3}, []int8{1, 2, 3})
	f := tensorfile.FromTensors([]*tensor.Tensor{x, tensor.New("y", tensor.Shape{}, []float32{1})},
		map[string]string{"k": "v"})
	defer f.Close()
	s := f.Summary()
	if f.Len() != 2 || f.Tensor("x") != x || f.Tensor("z") != nil || s.Parameters != 4 ||
		s.Bytes != 7 {
		t.Errorf("%+v", s)
	}
	if got := maps.Collect(f.Attributes()); !maps.Equal(got, map[string]string{"k": "v"}) {
		t.Error(got)
	}
	if _, err := f.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	bad := tensorfile.FromTensors([]*tensor.Tensor{{Name: "bad", DType: tensor.F32,
		Shape: tensor.Shape{9}}}, nil)
	if _, err := bad.Verify(t.Context(), nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
}

func TestFromReaderKeepsTheFormatOfItsReader(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.safetensors")
	if err := safetensors.WriteFile(t.Context(), name,
		tensor.Of(tensor.New("x", tensor.Shape{1}, []int8{1})), nil); err != nil {
		t.Fatal(err)
	}
	r, err := safetensors.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := tensorfile.FromReader(r)
	defer f.Close()
	if f.Format() != tensorfile.Safetensors || f.Len() != 1 || f.Size() != r.Size() ||
		f.Sys() != r {
		t.Errorf("%v, %d tensors, %d bytes", f.Format(), f.Len(), f.Size())
	}
}

func ExampleCreate() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "weights.npz") // as the user named it

	w, err := tensorfile.Create(name, tensorfile.ByName(name), nil)
	if err != nil {
		panic(err)
	}
	defer w.Abort() // does nothing after Close
	if err := w.Add(tensor.New("bias", tensor.Shape{2}, []float32{1, 2})); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil { // the file appears whole
		panic(err)
	}
	f, err := tensorfile.Open(name, nil)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Println(f.Format(), f.Len())
	// Output: npz 1
}

// TestCreateRefusesASecondTensorOfAName: Check and Add report it, not Close, and the
// file has what was added before.
func TestCreateRefusesASecondTensorOfAName(t *testing.T) {
	for _, f := range []tensorfile.Format{tensorfile.Safetensors, tensorfile.PTD,
		tensorfile.ZTensor, tensorfile.Primitiv, tensorfile.NPZ, tensorfile.GGUF,
		tensorfile.RTen} {
		name := filepath.Join(t.TempDir(), "file")
		w, err := tensorfile.Create(name, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(tensor.New("a.b", tensor.Shape{1}, []float32{1})); err != nil {
			t.Fatal(f, err)
		}
		second := tensor.New("a.b", tensor.Shape{1}, []float32{2})
		if err := w.Check(second); !errors.Is(err, tensor.ErrDuplicate) {
			t.Errorf("%v: Check: %v", f, err)
		}
		if err := w.Add(second); !errors.Is(err, tensor.ErrDuplicate) {
			t.Errorf("%v: Add: %v", f, err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("%v: Close: %v", f, err)
			continue
		}
		r, err := tensorfile.Open(name, nil)
		if err != nil {
			t.Fatal(f, err)
		}
		if n := r.Len(); n != 1 {
			t.Errorf("%v: %d tensors", f, n)
		}
		r.Close()
	}
}
