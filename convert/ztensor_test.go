package convert

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// strict opens a file of version 2 as strictly as can be, and verifies it.
func strict(t *testing.T, b []byte) *ztensor.Reader {
	t.Helper()
	r, err := ztensor.OpenBytes(b, &ztensor.ReaderOptions{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
		t.Fatal(report.Findings)
	}
	return r
}

// planned carries a plan out that loses nothing but what is allowed.
func planned(t *testing.T, src *tensorfile.File, o *Options) (*ztensor.Reader, *Plan) {
	t.Helper()
	p, err := NewPlan(t.Context(), src, tensorfile.ZTensor, o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return strict(t, out.Bytes()), p
}

// Version 2 requires columns that ascend, and one value for an element.
func TestUnsortedSparseTensorsAreSortedForVersion2(t *testing.T) {
	u8 := func(v ...uint8) tensor.Blob { return tensor.BlobOf(v) }
	csr := func(name string, columns ...uint8) *tensor.Tensor {
		return &tensor.Tensor{Name: name, DType: tensor.U8, Shape: tensor.Shape{2, 4},
			Scheme: "sparse_csr", Parts: []tensor.Part{
				{Role: "values", DType: tensor.U8, Data: u8(1, 2, 3, 4)},
				{Role: "indices", DType: tensor.U8, Data: u8(columns...)},
				{Role: "indptr", DType: tensor.U8, Data: u8(0, 3, 4)},
			}}
	}
	coo := func(name string, coords ...uint8) *tensor.Tensor {
		return &tensor.Tensor{Name: name, DType: tensor.U8, Shape: tensor.Shape{2, 4},
			Scheme: "sparse_coo", Parts: []tensor.Part{
				{Role: "values", DType: tensor.U8, Data: u8(1, 2)},
				{Role: "coords", DType: tensor.U8, Data: u8(coords...)},
			}}
	}
	src := write(t, form{tensorfile.ZTensor, "1.0"}, []*tensor.Tensor{
		csr("sorted", 0, 1, 3, 2), csr("unsorted", 3, 0, 1, 2), csr("twice", 1, 0, 1, 2),
		coo("backwards", 1, 0, 0, 3), coo("coo twice", 1, 1, 2, 2),
	}, nil)
	o := version2.options()
	p, err := NewPlan(t.Context(), src, tensorfile.ZTensor, o)
	if err != nil {
		t.Fatal(err)
	}
	var lost []string
	for _, l := range p.Losses() {
		if l.Kind != LossTensors {
			t.Error(l)
		}
		lost = append(lost, l.Field)
	}
	slices.Sort(lost)
	if want := []string{`tensors["coo twice"]`, `tensors["twice"]`}; !slices.Equal(lost, want) {
		t.Errorf("losses %q, want %q", lost, want)
	}
	o.Allow = LossTensors
	r, _ := planned(t, src, o)
	for _, name := range []string{"sorted", "unsorted", "backwards"} {
		var dense [2][]byte
		for i, x := range []*tensor.Tensor{src.Tensor(name), r.Tensor(name)} {
			as := *x
			as.Scheme = map[string]string{"zt.sparse_csr/1": "sparse_csr",
				"zt.sparse_coo/1": "sparse_coo"}[x.Scheme]
			if as.Scheme == "" {
				as.Scheme = x.Scheme
			}
			d, err := sparse.Densify(t.Context(), &as, nil)
			if err == nil {
				dense[i], err = d.Data.ReadAll()
			}
			if err != nil {
				t.Fatal(name, err)
			}
		}
		if !bytes.Equal(dense[0], dense[1]) {
			t.Errorf("%s: %v became %v", name, dense[0], dense[1])
		}
	}
}

// Version 2 has layouts for the blocks of .gguf files: nothing is lost, not even
// their meaning.
func TestBlocksOfGGUFHaveALayout(t *testing.T) {
	src, err := tensorfile.Open("../testdata/gguf/types.gguf", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	o := version2.options()
	o.Allow = LossAttributes
	r, p := planned(t, src, o)
	for _, l := range p.Losses() {
		if l.Kind != LossAttributes {
			t.Error(l)
		}
	}
	blocks := 0
	for x := range src.Tensors() {
		y := r.Tensor(x.Name)
		if y == nil {
			t.Errorf("%s is gone", x.Name)
			continue
		}
		if x.Dense() {
			continue
		}
		a, err1 := x.Parts[0].Data.ReadAll()
		b, err2 := y.Parts[0].Data.ReadAll()
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) || !x.Shape.Equal(y.Shape) {
			t.Errorf("%s has changed: %v, %v", x.Name, err1, err2)
		}
		if want := "gguf." + strings.ToLower(x.Scheme) + "/1"; ztensor.HasBlocks(want) {
			blocks++
			if y.Scheme != want || y.Parts[0].Role != "data" {
				t.Errorf("%s of %s became %s", x.Name, x.Scheme, y.Scheme)
			}
		}
	}
	if blocks < 10 {
		t.Errorf("%d tensors of blocks", blocks)
	}
	back := open(t, bytesOf(t, r))
	// from version 2 to version 2, attributes come along
	again, _ := planned(t, back, version2.options())
	for x := range r.Tensors() {
		if y := again.Tensor(x.Name); y == nil || y.Scheme != x.Scheme {
			t.Errorf("%s: %v", x.Name, y)
		}
	}
}

func bytesOf(t *testing.T, r *ztensor.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	w := ztensor.NewWriter(&out, &ztensor.WriterOptions{Version: "2"})
	for x := range r.Tensors() {
		own := map[string]any{}
		for k, v := range r.TensorAttributes(x) {
			own[k] = v
		}
		if err := w.TensorAttributes(x.Name, own); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.AddAll(t.Context(), tensor.Each(r.Tensors())); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
