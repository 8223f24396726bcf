package onnx

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// wanted is what interop/onnx/make.py noted next to each model.
type wanted struct {
	Version, Producer string
	Attributes        map[string]string
	Opsets            map[string]int64
	Functions         int
	Inputs, Outputs   []wantedValue
	Tensors           []wantedTensor
	ONNXRuntime       *struct{ Inputs, Outputs []wantedValue }
}

type wantedValue struct{ Name, Type string }

type wantedTensor struct {
	Name, DType, Scheme string
	Shape               []int64
	Bytes               int64
	SHA256              string
	Parts               []wantedTensor
}

// The models of the reference: the committed ones, or the models of interop/onnx.sh where
// TENSORFILE_ONNX names their directory.
func TestModelsOfTheReferenceHaveItsValues(t *testing.T) {
	dir, least := "../testdata/onnx", 16
	if d := os.Getenv("TENSORFILE_ONNX"); d != "" {
		dir, least = d, 1
	}
	var files []string
	for _, pattern := range []string{"*.onnx", "*/*.onnx"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < least {
		t.Fatalf("%d files", len(files))
	}
	for _, name := range files {
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			raw, err := os.ReadFile(name[:len(name)-len(".onnx")] + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var w wanted
			if err := json.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			for _, noMap := range []bool{false, true} {
				compare(t, name, noMap, &w)
			}
		})
	}
}

func compare(t *testing.T, name string, noMap bool, w *wanted) {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !Detect(readerOf(b), int64(len(b))) {
		t.Error("not detected")
	}
	r, err := Open(name, &ReaderOptions{NoMap: noMap})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Version() != w.Version || r.Model().Producer != w.Producer {
		t.Errorf("version %s of %q, want %s of %q", r.Version(), r.Model().Producer, w.Version,
			w.Producer)
	}
	if got := maps.Collect(r.Attributes()); !maps.Equal(got, w.Attributes) {
		t.Errorf("attributes %q, want %q", got, w.Attributes)
	}
	opsets := map[string]int64{}
	for _, o := range r.Model().Opsets {
		opsets[o.Domain] = o.Version
	}
	if !maps.Equal(opsets, w.Opsets) || len(r.Model().Functions) != w.Functions {
		t.Errorf("%v and %d functions, want %v and %d", opsets, len(r.Model().Functions), w.Opsets,
			w.Functions)
	}
	inputs := slices.Collect(r.Model().Graph.InputsOnly())
	sameValues(t, "inputs", inputs, w.Inputs)
	sameValues(t, "outputs", r.Model().Graph.Outputs, w.Outputs)
	if w.ONNXRuntime != nil {
		sameValues(t, "inputs of onnxruntime", inputs, w.ONNXRuntime.Inputs)
		sameValues(t, "outputs of onnxruntime", r.Model().Graph.Outputs, w.ONNXRuntime.Outputs)
	}
	all := slices.Collect(r.Tensors())
	if len(all) != len(w.Tensors) {
		t.Fatalf("%d tensors, want %d", len(all), len(w.Tensors))
	}
	for i, x := range all {
		e := &w.Tensors[i]
		if x.Name != e.Name || !slices.Equal(x.Shape, e.Shape) || x.Scheme != e.Scheme ||
			x.Check() != nil {
			t.Errorf("tensor %d is %q %v %s (%v), want %q %v %s", i, x.Name, x.Shape, x.Scheme,
				x.Check(), e.Name, e.Shape, e.Scheme)
		}
		if x.Scheme == "" {
			sameData(t, x.Name, x.DType, x.Data, e)
		}
		if len(x.Parts) != len(e.Parts) {
			t.Fatalf("%q has %d parts, want %d", x.Name, len(x.Parts), len(e.Parts))
		}
		for j, p := range x.Parts {
			if p.Role != e.Parts[j].Name {
				t.Errorf("part %q, want %q", p.Role, e.Parts[j].Name)
			}
			sameData(t, x.Name+":"+p.Role, p.DType, p.Data, &e.Parts[j])
		}
	}
	report, err := r.Verify(t.Context(), nil)
	if err != nil {
		t.Errorf("Verify: %v", report.Findings)
	}
	if w.ONNXRuntime != nil && w.Producer != "" { // models of tests are not always complete
		for _, f := range report.Findings {
			t.Logf("%v", f)
		}
	}
}

func sameValues(t *testing.T, what string, got []Value, want []wantedValue) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d %s, want %d", len(got), what, len(want))
	}
	for i, v := range got {
		if v.Name != want[i].Name || want[i].Type != "" && v.Type.String() != want[i].Type {
			t.Errorf("%s: %s %v, want %v", what, v.Name, v.Type, want[i])
		}
	}
}

func sameData(t *testing.T, name string, d tensor.DType, b tensor.Blob, want *wantedTensor) {
	t.Helper()
	word := d.String()
	if !d.Known() {
		st, _ := b.Stored()
		word = st.Type
	}
	if word != want.DType {
		t.Errorf("%q is %s, want %s", name, word, want.DType)
	}
	if want.SHA256 == "" {
		return
	}
	p, err := b.ReadAll()
	if sum := sha256.Sum256(p); err != nil || hex.EncodeToString(sum[:]) != want.SHA256 ||
		b.Size() != want.Bytes {
		t.Errorf("%q has %d bytes, %x, %v; want %d bytes", name, b.Size(), p[:min(len(p), 32)],
			err,
			want.Bytes)
	}
	// The same in pieces, from any place.
	for off := int64(0); off < int64(len(p)); off += 1 + int64(len(p))/3 {
		q := make([]byte, min(5, int64(len(p))-off))
		if _, err := b.ReadAt(q, off); err != nil ||
			string(q) != string(p[off:off+int64(len(q))]) {
			t.Errorf("%q at %d: %x, %v", name, off, q, err)
		}
	}
	if view, ok := b.Bytes(); ok && string(view) != string(p) {
		t.Errorf("%q: other bytes borrowed", name)
	}
}
