package convert

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// The indices of a sparse tensor of 1.0 have no dtype in the file: they are
// uint64, as in every other version.
func TestUntypedIndicesBecomeUint64(t *testing.T) {
	u64s := func(x ...uint64) tensor.Blob {
		return tensor.New("", tensor.Shape{int64(len(x))}, x).Data
	}
	values := tensor.New("", tensor.Shape{2}, []float32{7, 8}).Data
	sparse := []*tensor.Tensor{
		{Name: "csr", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_csr",
			Parts: []tensor.Part{
				{Role: "values", DType: tensor.F32, Data: values},
				{Role: "indices", DType: tensor.U64, Data: u64s(2, 0)},
				{Role: "indptr", DType: tensor.U64, Data: u64s(0, 1, 2)}}},
		{Name: "coo", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_coo",
			Parts: []tensor.Part{
				{Role: "values", DType: tensor.F32, Data: values},
				{Role: "coords", DType: tensor.U64, Data: u64s(0, 1, 2, 0)}}},
	}
	src := write(t, form{tensorfile.ZTensor, "1.0"}, sparse, nil)
	if d := src.Tensor("csr").Part("indices").DType; d != tensor.U64 {
		t.Fatalf("1.0 says %v", d)
	}
	for _, version := range []string{"1.0", "2"} {
		to := form{tensorfile.ZTensor, version}
		end, p := run(t, src, to, to.options())
		if l := p.Losses(); len(l) > 0 {
			t.Errorf("%s: %v", version, l)
		}
		st := form{tensorfile.Safetensors, ""}
		o := st.options()
		o.Allow = LossDensify
		dense, _ := run(t, end, st, o)
		for _, x := range sparse {
			if v, err := tensor.Load[float32](dense.Tensor(x.Name)); err != nil ||
				!slices.Equal(v, []float32{0, 0, 7, 8, 0, 0}) {
				t.Errorf("%s, %s: %v, %v", version, x.Name, v, err)
			}
		}
	}
}

// From primitiv to primitiv paths stay as they are, also those that their joined
// names do not tell; and statistics survive without their values.
func TestPathsOfPrimitivStayAsTheyAre(t *testing.T) {
	value := func(path ...string) *primitiv.Parameter {
		v := tensor.New("", tensor.Shape{2}, []float32{1, 2})
		batched := tensor.New("", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
		batched.Order = tensor.ColumnMajor(2)
		return &primitiv.Parameter{Path: path, Value: v,
			Stats: []primitiv.Statistic{{Name: "é", Tensor: v, Batch: 1},
				{Name: ".", Tensor: batched, Batch: 3}}}
	}
	var b bytes.Buffer
	w := primitiv.NewWriter(&b, nil)
	for _, err := range []error{w.AddParameter(value("a", "")), w.AddParameter(value("a.b")),
		w.AddParameter(value("a", "b")), w.AddParameter(value("\xff")), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	src, err := tensorfile.OpenBytes(b.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	to := form{tensorfile.Primitiv, ""}
	p, err := NewPlan(t.Context(), src, to.format, to.options())
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := p.Write(t.Context(), &again); err != nil || len(p.Losses()) > 0 ||
		!bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Errorf("%v, losses %v, equal: %v", err, p.Losses(),
			bytes.Equal(again.Bytes(), b.Bytes()))
	}
	o := to.options()
	o.Map = only(func(x *tensor.Tensor) bool {
		origin, _ := primitiv.OriginOf(x)
		return origin.IsStatistic && len(origin.Path) == 2
	})
	end, p := run(t, src, to, o)
	if end.Len() != 4 || end.Tensor("a.b:é") == nil {
		t.Errorf("%d tensors, losses %v", end.Len(), p.Losses())
	}
	for x := range end.Tensors() {
		if v, err := tensor.Load[float32](x); err != nil || v[1] != 2 {
			t.Errorf("%q: %v, %v", x.Name, v, err)
		}
	}
}

// A parameter of primitiv has none below it: names that say otherwise are losses.
func TestPathsBelowAParameterOfPrimitivAreRenamed(t *testing.T) {
	var all []*tensor.Tensor
	for i, name := range []string{"a", "a.b", "a.b.c", "a:m", "a.b:m", "a_", "ab"} {
		all = append(all, tensor.New(name, tensor.Shape{2}, []float32{float32(i), 0}))
	}
	to := form{tensorfile.Primitiv, ""}
	o := to.options()
	o.Allow = LossNames
	end, p := run(t, write(t, form{tensorfile.ZTensor, "2"}, all, nil), to, o)
	got := map[string]float32{}
	for x := range end.Tensors() {
		v, err := tensor.Load[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		got[x.Name] = v[0]
	}
	want := map[string]float32{"a__": 0, "a.b_": 1, "a.b.c": 2, "a__:m": 3, "a.b_:m": 4, "a_": 5,
		"ab": 6}
	if !maps.Equal(got, want) || len(p.Losses()) != 4 {
		t.Errorf("%v, losses %v", got, p.Losses())
	}
}

// An attribute of a tensor that version 2 cannot have is lost alone.
func TestAttributeThatVersion2CannotHaveIsLostAlone(t *testing.T) {
	src := version12(t, map[string]any{"": 1, "kept": 2.5},
		map[string]any{"": 1, "x\x00": 2, "kept": int64(3), "e\u0301": "twin"})
	to := form{tensorfile.ZTensor, "2"}
	o := to.options()
	o.Allow = LossAttributes
	end, p := run(t, src, to, o)
	var fields []string
	for _, l := range p.Losses() {
		fields = append(fields, l.Field)
	}
	slices.Sort(fields)
	if want := []string{`attributes[""]`, `tensors["w"].attributes[""]`,
		`tensors["w"].attributes["x\x00"]`}; !slices.Equal(fields, want) {
		t.Errorf("%q, want %q", fields, want)
	}
	z := end.Sys().(*ztensor.Reader)
	for k := range z.AttributeValues() {
		if k != "kept" {
			t.Errorf("the file has %q", k)
		}
	}
	own := 0
	for k := range z.TensorAttributes(end.Tensor("w")) {
		if own++; k != "kept" && k != "e\u0301" {
			t.Errorf("the tensor has %q", k)
		}
	}
	if own != 2 {
		t.Errorf("%d attributes of the tensor", own)
	}
}

func TestOrdersAndNamesChangeOnlyOnRequest(t *testing.T) {
	column := tensor.New("c", tensor.Shape{2, 3}, []float32{1, 4, 2, 5, 3, 6})
	column.Order = tensor.ColumnMajor(2)
	src := write(t, form{tensorfile.PTD, ""},
		[]*tensor.Tensor{column, tensor.New("i", tensor.Shape{2}, []int32{1, 2})}, nil)

	kept, _ := run(t, src, form{tensorfile.NPZ, ""}, nil)
	if kept.Tensor("c").Order.RowMajor() {
		t.Error("an order that the target has must be kept")
	}
	row, p := run(t, src, form{tensorfile.NPZ, ""},
		&Options{RowMajor: true, Map: func(x *tensor.Tensor) (string, tensor.DType, bool) {
			return strings.ToUpper(x.Name),
				map[tensor.DType]tensor.DType{tensor.F32: tensor.F16,
					tensor.I32: tensor.I64}[x.DType], true
		}})
	if c := row.Tensor("C"); c == nil || !c.Order.RowMajor() || c.DType != tensor.F16 ||
		len(p.Losses()) != 1 || len(requests(p)) != 1 {
		t.Fatalf("%+v %v", c, p.Losses())
	}
	if v, err := tensor.Convert[float32](row.Tensor("C")); err != nil ||
		!slices.Equal(v, []float32{1, 2, 3, 4, 5, 6}) {
		t.Error(v, err)
	}
	if v, err := tensor.Load[int64](row.Tensor("I")); err != nil ||
		!slices.Equal(v, []int64{1, 2}) {
		t.Error(v, err)
	}
	single, _ := run(t, src, form{tensorfile.NPY, ""},
		&Options{Map: only(func(x *tensor.Tensor) bool { return x.Name == "i" }),
			Allow: LossNames})
	if single.Len() != 1 || first(t, single).DType != tensor.I32 {
		t.Error("Select")
	}
	dense := write(t, form{tensorfile.ZTensor, "1.0"},
		[]*tensor.Tensor{tensor.New("w", tensor.Shape{2, 3}, []float32{0, 0, 7, 8, 0, 0})}, nil)
	for _, scheme := range []string{"sparse_csr", "sparse_coo"} {
		o := form{tensorfile.ZTensor, "1.0"}.options()
		o.Sparse = scheme
		sparse, _ := run(t, dense, form{tensorfile.ZTensor, "1.0"}, o)
		x := first(t, sparse)
		if v, err := tensor.Load[float32](&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2},
			Data: x.Part("values").Data}); x.Scheme != scheme || err != nil ||
			!slices.Equal(v, []float32{7, 8}) {
			t.Errorf("%s: %s %v %v", scheme, x.Scheme, v, err)
		}
		o = form{tensorfile.ZTensor, "1.0"}.options()
		o.Dense = true
		again, p := run(t, sparse, form{tensorfile.ZTensor, "1.0"}, o)
		if v, err := tensor.Load[float32](first(t, again)); err != nil ||
			!slices.Equal(v, []float32{0, 0, 7, 8, 0, 0}) || len(p.Losses()) != 0 {
			t.Error(v, err, p.Losses())
		}
	}
}

func TestAttributesAndBlobsAreCarried(t *testing.T) {
	want := map[string]string{"license": "MIT", "k\u00e9": "v"}
	src := write(t, form{tensorfile.Safetensors, ""}, nil, want)
	for _, to := range forms() {
		if to.format != tensorfile.ZTensor && to.format != tensorfile.Safetensors {
			continue
		}
		end, _ := run(t, src, to, to.options())
		if got := maps.Collect(end.Attributes()); !maps.Equal(got, want) {
			t.Errorf("%v: %v", to, got)
		}
	}
	var out bytes.Buffer
	w := ptd.NewWriter(&out, nil)
	if err := w.AddBlob("b", tensor.BlobOf([]byte("blob"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	src = open(t, out.Bytes())
	end, _ := run(t, src, form{tensorfile.PTD, ""}, nil)
	for name, b := range end.Blobs() {
		if p, err := b.ReadAll(); name != "b" || string(p) != "blob" || err != nil {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
	p, err := NewPlan(t.Context(), src, tensorfile.NPZ, nil)
	if err != nil || len(p.Losses()) != 1 || p.Losses()[0].Kind != LossBlobs ||
		p.Losses()[0].Field != `blobs["b"]` {
		t.Errorf("%v, %v", p.Losses(), err)
	}
}

func TestTypedAttributesStayTyped(t *testing.T) {
	var out bytes.Buffer
	w := ztensor.NewWriter(&out,
		&ztensor.WriterOptions{Version: "2", Attributes: map[string]any{"n": 7, "t": "x"}})
	if err := w.TensorAttributes("w", map[string]any{"scale": 0.5}); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(tensor.New("w", tensor.Shape{1}, []float32{1})); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	src := open(t, out.Bytes())
	end, p := run(t, src, form{tensorfile.ZTensor, "2"},
		form{tensorfile.ZTensor, "2"}.options())
	z := end.Sys().(*ztensor.Reader)
	for k, v := range z.TensorAttributes(end.Tensor("w")) {
		if k != "scale" || v.String() != "0.5" {
			t.Errorf("%s = %v", k, v)
		}
	}
	if got := fmt.Sprint(maps.Collect(z.AttributeValues())); got != "map[n:7 t:x]" ||
		len(p.Losses()) != 0 {
		t.Errorf("%s, %v", got, p.Losses())
	}
	p, err := NewPlan(t.Context(), src, tensorfile.ZTensor,
		&Options{Writer: &ztensor.WriterOptions{Version: "1.0"}})
	if err != nil || len(p.Losses()) != 2 {
		t.Errorf("%v, %v", p.Losses(), err)
	}
}

// The digest of a borrowed tensor and of one that is read as a stream: both are
// checked while they are copied.
func TestDigestsAreChecked(t *testing.T) {
	for _, level := range []int{0, 1} {
		var out bytes.Buffer
		w := ztensor.NewWriter(&out,
			&ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C, Level: level})
		if err := w.Add(tensor.New("w", tensor.Shape{1000}, make([]float32, 1000))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b := out.Bytes()
		b[70] ^= 1
		name := filepath.Join(t.TempDir(), "w.zt")
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, noMap := range []bool{false, true} {
			src, err := tensorfile.Open(name, &tensorfile.Options{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPlan(t.Context(), src, tensorfile.PTD, nil)
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(t.TempDir(), "w.ptd")
			if err := p.WriteFile(t.Context(), target); !errors.Is(err, tensor.ErrChecksum) &&
				!(level > 0 && errors.Is(err, tensor.ErrMalformed)) {
				t.Errorf("level %d, mapped %v: %v", level, !noMap, err)
			}
			if _, err := os.Stat(target); err == nil {
				t.Error("a file appeared")
			}
			src.Close()
		}
	}
}

func TestSeveralSourcesBecomeOneFile(t *testing.T) {
	file := func(name string, meta map[string]string, ts ...*tensor.Tensor) *tensorfile.File {
		var b bytes.Buffer
		w := safetensors.NewWriter(&b, &safetensors.WriterOptions{Attributes: meta})
		for _, x := range ts {
			if err := w.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.OpenBytes(b.Bytes(), nil)
		if err != nil {
			t.Fatal(name, err)
		}
		return f
	}
	one := func(name string, v float32) *tensor.Tensor {
		return tensor.New(name, tensor.Shape{1}, []float32{v})
	}
	a := file("a", map[string]string{"both": "1", "same": "x"}, one("w", 1))
	b := file("b", map[string]string{"both": "2", "same": "x", "new": "y"}, one("v", 2),
		one("w", 3))

	p, err := NewPlan(t.Context(), a, tensorfile.Safetensors,
		&Options{More: []*tensorfile.File{b}})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []LossKind
	for _, l := range p.Losses() {
		kinds = append(kinds, l.Kind)
	}
	if want := []LossKind{LossAttributes, LossNames}; !slices.Equal(kinds, want) ||
		p.Err() == nil {
		t.Errorf("losses %v: %v", p.Losses(), p.Err())
	}
	p, err = NewPlan(t.Context(), a, tensorfile.Safetensors,
		&Options{More: []*tensorfile.File{b}, Allow: LossAttributes | LossNames})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.OpenBytes(out.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float32{"w": 1, "v": 2, "w~2": 3} {
		if v, err := tensor.Load[float32](f.Tensor(name)); err != nil || v[0] != want {
			t.Errorf("%s is %v, %v", name, v, err)
		}
	}
	if got := f.Summary().Attributes; got["both"] != "1" || got["same"] != "x" ||
		got["new"] != "y" {
		t.Error(got)
	}
}
