package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/gguf"
	"github.com/tensorfile/tensorfile/bridge/npy"
	"github.com/tensorfile/tensorfile/bridge/npz"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A form is a format in one of the versions that are written.
type form struct {
	format  tensorfile.Format
	version string
}

func (f form) String() string { return strings.TrimSuffix(f.format.String()+"@"+f.version, "@") }

func (f form) caps() tensorfile.Caps { return f.format.CapsOf(f.version) }

func (f form) options() *Options {
	if f.format == tensorfile.ZTensor {
		return &Options{ZTensor: &ztensor.WriterOptions{Version: f.version}}
	}
	return &Options{}
}

// forms are all formats and versions that are written from tensors.
func forms() []form {
	var all []form
	for _, f := range tensorfile.Formats() {
		if len(f.Caps().DTypes) == 0 {
			continue
		}
		if f != tensorfile.ZTensor {
			all = append(all, form{f, ""})
			continue
		}
		for _, v := range f.Writes() {
			all = append(all, form{f, v})
		}
	}
	return all
}

// write makes a file of the form with the writer of its own package.
func write(t testing.TB, f form, ts []*tensor.Tensor, attributes map[string]string) *tensorfile.File {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch f.format {
	case tensorfile.ZTensor:
		o := &ztensor.WriterOptions{Version: f.version, Digest: ztensor.CRC32C, Attributes: map[string]any{}}
		if f.version == "2" {
			o.Digest = ztensor.NoDigest
		}
		for k, v := range attributes {
			o.Attributes[k] = v
		}
		w := ztensor.NewWriter(&out, o)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.PTD:
		w := ptd.NewWriter(&out, nil)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.Safetensors:
		w := safetensors.NewWriter(&out, &safetensors.WriterOptions{Metadata: attributes, KeepOrder: true})
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.GGUF:
		o := &gguf.WriterOptions{}
		for _, k := range slices.Sorted(maps.Keys(attributes)) {
			o.Metadata = append(o.Metadata, entryOfGGUF(t, k, attributes[k]))
		}
		w := gguf.NewWriter(&out, o)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.NPZ:
		w := npz.NewWriter(&out, nil)
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.NPY:
		w := npy.NewWriter(&out, nil)
		if err = w.Add(ts[0]); err == nil {
			err = w.Close()
		}
	case tensorfile.Primitiv:
		w := primitiv.NewWriter(&out, &primitiv.WriterOptions{Reorder: true})
		if err = w.AddAll(t.Context(), tensor.Of(ts...)); err == nil {
			err = w.Close()
		}
	case tensorfile.RTen:
		g := rten.NewGraphBuilder()
		for _, x := range ts {
			g.Constant(x)
		}
		err = g.Write(t.Context(), &out, nil)
	default:
		t.Fatalf("no writer of %v", f)
	}
	if err != nil {
		t.Fatalf("writing %v: %v", f, err)
	}
	return open(t, out.Bytes())
}

func entryOfGGUF(t testing.TB, key string, x any) gguf.KeyValue {
	t.Helper()
	v, err := gguf.NewValue(x)
	if err != nil {
		t.Fatal(err)
	}
	return gguf.KeyValue{Key: key, Value: v}
}

func open(t testing.TB, b []byte) *tensorfile.File {
	t.Helper()
	f, err := tensorfile.OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func run(t testing.TB, src *tensorfile.File, to form, o *Options) (*tensorfile.File, *Plan) {
	t.Helper()
	p, err := NewPlan(t.Context(), src, to.format, o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(t.Context(), &out); err != nil {
		t.Fatalf("to %v: %v", to, err)
	}
	end := open(t, out.Bytes())
	if p.Target() != end.Format() {
		t.Errorf("a plan for %v wrote %v", p.Target(), end.Format())
	}
	planned := map[string]*tensor.Tensor{}
	for x := range p.Tensors() {
		planned[x.Name] = x
	}
	for x := range end.Tensors() {
		w := planned[x.Name]
		if end.Format() == tensorfile.NPY || w == nil && planned[""] != nil { // which has no names, or not this one
			for _, w = range planned {
			}
		}
		sameShape := w != nil && (slices.Equal(w.Shape, x.Shape) || end.Format() == tensorfile.Primitiv) // which drops ones at the end
		if !sameShape || w.DType != x.DType || w.Parts == nil && w.Data.Size() != x.Data.Size() {
			t.Errorf("to %v: %v was written, the plan was %v", to, x, w)
		}
	}
	return end, p
}

// sample is a tensor of that type with distinct bytes that are valid values.
func sample(d tensor.DType, shape tensor.Shape) *tensor.Tensor {
	n, _ := shape.Elements()
	size, _ := d.Bytes(n)
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*37 + 11)
		if d == tensor.Bool {
			b[i] = byte(i*37) >> 3 & 1
		}
	}
	return &tensor.Tensor{Name: "layer.weight", DType: d, Shape: shape, Data: tensor.BlobOf(b)}
}

// only selects tensors.
func only(keep func(*tensor.Tensor) bool) func(*tensor.Tensor) (string, tensor.DType, bool) {
	return func(x *tensor.Tensor) (string, tensor.DType, bool) { return x.Name, tensor.Unknown, keep(x) }
}

// dtypes maps dtypes.
func dtypes(to map[tensor.DType]tensor.DType) func(*tensor.Tensor) (string, tensor.DType, bool) {
	return func(x *tensor.Tensor) (string, tensor.DType, bool) { return x.Name, to[x.DType], true }
}

func first(t testing.TB, f *tensorfile.File) *tensor.Tensor {
	t.Helper()
	for x := range f.Tensors() {
		return x
	}
	t.Fatal("no tensor")
	return nil
}

func rowMajor(t testing.TB, x *tensor.Tensor) []byte {
	t.Helper()
	if !x.Order.RowMajor() {
		r, err := tensor.Reordered(x, nil)
		if err != nil {
			t.Fatal(err)
		}
		x = r
	}
	b, err := x.Data.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What a format says that it holds, its writer takes, and nothing else.
func TestCapsAreTrue(t *testing.T) {
	for _, to := range forms() {
		for _, d := range tensor.DTypes() {
			p := &Plan{target: to.format, version: to.version, caps: to.caps()}
			x := sample(d, tensor.Shape{2, 4})
			if to.caps().Orders == tensorfile.OnlyColumnMajor {
				x.Order = tensor.ColumnMajor(2)
			}
			p.items = []item{{src: x, t: *x}}
			err := p.write(t.Context(), io.Discard)
			if (err == nil) != to.caps().Holds(d) {
				t.Errorf("%v, %v: Caps say %v, the writer says %v", to, d, to.caps().Holds(d), err)
			}
		}
	}
}

// The indices of a sparse tensor of 1.0 have no dtype in the file: they are
// uint64, as in every other version.
func TestSparseOfUntypedIndices(t *testing.T) {
	u64s := func(x ...uint64) tensor.Blob { return tensor.New("", tensor.Shape{int64(len(x))}, x).Data }
	values := tensor.New("", tensor.Shape{2}, []float32{7, 8}).Data
	sparse := []*tensor.Tensor{
		{Name: "csr", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_csr", Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32, Data: values}, {Role: "indices", DType: tensor.U64, Data: u64s(2, 0)}, {Role: "indptr", DType: tensor.U64, Data: u64s(0, 1, 2)}}},
		{Name: "coo", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_coo", Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32, Data: values}, {Role: "coords", DType: tensor.U64, Data: u64s(0, 1, 2, 0)}}},
	}
	src := write(t, form{tensorfile.ZTensor, "1.0"}, sparse, nil)
	if d := src.Tensor("csr").Part("indices").DType; d != tensor.U64 {
		t.Fatalf("1.0 says %v", d)
	}
	for _, version := range []string{"1.0", "1.1", "1.2", "2"} {
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
			if v, err := tensor.Load[float32](dense.Tensor(x.Name)); err != nil || !slices.Equal(v, []float32{0, 0, 7, 8, 0, 0}) {
				t.Errorf("%s, %s: %v, %v", version, x.Name, v, err)
			}
		}
	}
}

// From primitiv to primitiv paths stay as they are, also those that their joined
// names do not tell; and statistics survive without their values.
func TestPathsOfPrimitiv(t *testing.T) {
	value := func(path ...string) *primitiv.Parameter {
		v := tensor.New("", tensor.Shape{2}, []float32{1, 2})
		batched := tensor.New("", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
		batched.Order = tensor.ColumnMajor(2)
		return &primitiv.Parameter{Path: path, Value: v, Stats: []primitiv.Statistic{{Name: "é", Tensor: v, Batch: 1}, {Name: ".", Tensor: batched, Batch: 3}}}
	}
	var b bytes.Buffer
	w := primitiv.NewWriter(&b, nil)
	for _, err := range []error{w.AddParameter(value("a", "")), w.AddParameter(value("a.b")), w.AddParameter(value("a", "b")), w.AddParameter(value("\xff")), w.Close()} {
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
	if err := p.Write(t.Context(), &again); err != nil || len(p.Losses()) > 0 || !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Errorf("%v, losses %v, equal: %v", err, p.Losses(), bytes.Equal(again.Bytes(), b.Bytes()))
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
func TestPathsBelowAnother(t *testing.T) {
	var all []*tensor.Tensor
	for i, name := range []string{"a", "a.b", "a.b.c", "a:m", "a.b:m", "a_", "ab"} {
		all = append(all, tensor.New(name, tensor.Shape{2}, []float32{float32(i), 0}))
	}
	to := form{tensorfile.Primitiv, ""}
	o := to.options()
	o.Allow = LossNames
	end, p := run(t, write(t, form{tensorfile.ZTensor, "1.2"}, all, nil), to, o)
	got := map[string]float32{}
	for x := range end.Tensors() {
		v, err := tensor.Load[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		got[x.Name] = v[0]
	}
	want := map[string]float32{"a__": 0, "a.b_": 1, "a.b.c": 2, "a__:m": 3, "a.b_:m": 4, "a_": 5, "ab": 6}
	if !maps.Equal(got, want) || len(p.Losses()) != 4 {
		t.Errorf("%v, losses %v", got, p.Losses())
	}
}

// What one attribute of a tensor cannot be in version 2 is lost alone.
func TestTensorAttributes(t *testing.T) {
	var b bytes.Buffer
	w := ztensor.NewWriter(&b, &ztensor.WriterOptions{Version: "1.2", Attributes: map[string]any{"": 1, "kept": 2.5}})
	for _, err := range []error{w.TensorAttributes("w", map[string]any{"": 1, "x\x00": 2, "kept": int64(3), "e\u0301": "twin"}), w.Add(tensor.New("w", tensor.Shape{1}, []float32{1})), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	src, err := tensorfile.OpenBytes(b.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	to := form{tensorfile.ZTensor, "2"}
	o := to.options()
	o.Allow = LossAttributes
	end, p := run(t, src, to, o)
	var fields []string
	for _, l := range p.Losses() {
		fields = append(fields, l.Field)
	}
	slices.Sort(fields)
	if want := []string{`attributes[""]`, `tensors["w"].attributes[""]`, `tensors["w"].attributes["x\x00"]`}; !slices.Equal(fields, want) {
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

// Each kind of loss by itself: named before a byte is written, refused, and
// done when it is allowed.
func TestLosses(t *testing.T) {
	z := form{tensorfile.ZTensor, "1.2"}
	column := tensor.New("c", tensor.Shape{2, 3}, []float32{1, 4, 2, 5, 3, 6})
	column.Order = tensor.ColumnMajor(2)
	csr := &tensor.Tensor{Name: "s", DType: tensor.F32, Shape: tensor.Shape{2, 3}, Scheme: "sparse_csr", Parts: []tensor.Part{
		{Role: "values", DType: tensor.F32, Data: tensor.New("", tensor.Shape{2}, []float32{7, 8}).Data},
		{Role: "indices", DType: tensor.U64, Data: tensor.New("", tensor.Shape{2}, []uint64{2, 0}).Data},
		{Role: "indptr", DType: tensor.U64, Data: tensor.New("", tensor.Shape{3}, []uint64{0, 1, 2}).Data},
	}}
	one := func(x ...*tensor.Tensor) []*tensor.Tensor { return x }
	extra := tensor.New("w", tensor.Shape{2}, []float32{1, 2})
	extra.Parts = []tensor.Part{{Role: "zeros", DType: tensor.F32, Data: tensor.New("", tensor.Shape{1}, []float32{3}).Data}}
	var blobbed bytes.Buffer
	w := ptd.NewWriter(&blobbed, nil)
	if err := errors.Join(w.Add(tensor.New("w", tensor.Shape{1}, []float32{1})), w.AddBlob("b", tensor.BlobOf([]byte("blob"))), w.Close()); err != nil {
		t.Fatal(err)
	}
	twice := &tensor.Tensor{Name: "s", DType: tensor.U8, Shape: tensor.Shape{4}, Scheme: "sparse_coo", Parts: []tensor.Part{
		{Role: "values", DType: tensor.U8, Data: tensor.BlobOf([]byte{1, 2})}, {Role: "coords", DType: tensor.U64, Data: tensor.BlobOf(make([]byte, 16))}}}
	var every LossKind
	for name, c := range map[string]struct {
		src    *tensorfile.File
		to     form
		kind   LossKind
		field  string
		dtype  tensor.DType // of the one tensor that arrives, Unknown: none does
		values []float32
	}{
		"attributes": {write(t, z, one(tensor.New("w", tensor.Shape{1}, []float32{1})), map[string]string{"license": "MIT"}),
			form{tensorfile.PTD, ""}, LossAttributes, `attributes["license"]`, tensor.F32, []float32{1}},
		"an attribute whose name zTensor 2 does not have": {write(t, z, one(tensor.New("w", tensor.Shape{1}, []float32{1})), map[string]string{"": "MIT"}),
			form{tensorfile.ZTensor, "2"}, LossAttributes, `attributes[""]`, tensor.F32, []float32{1}},
		"sparse": {write(t, z, one(csr), nil), form{tensorfile.PTD, ""}, LossDensify, `tensors["s"]`, tensor.F32, []float32{0, 0, 7, 8, 0, 0}},
		"order":  {write(t, form{tensorfile.PTD, ""}, one(column), nil), z, LossReorder, `tensors["c"]`, tensor.F32, []float32{1, 2, 3, 4, 5, 6}},
		"widen": {write(t, z, one(tensor.New("w", tensor.Shape{2}, []tensor.BFloat16{0x3f80, 0xc000})), nil),
			form{tensorfile.NPZ, ""}, LossWiden, `tensors["w"]`, tensor.F32, []float32{1, -2}},
		"narrow": {write(t, z, one(tensor.New("w", tensor.Shape{2}, []float64{0.1, -2})), nil),
			form{tensorfile.RTen, ""}, LossNarrow, `tensors["w"]`, tensor.F32, []float32{0.1, -2}},
		"narrow integers": {write(t, z, one(tensor.New("w", tensor.Shape{2}, []int64{-5, 1 << 20})), nil),
			form{tensorfile.RTen, ""}, LossNarrow, `tensors["w"]`, tensor.I32, []float32{-5, 1 << 20}},
		"a type that has no place": {write(t, z, one(tensor.New("w", tensor.Shape{1}, []complex64{1})), nil),
			form{tensorfile.Primitiv, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"a dimension of 0": {write(t, z, one(tensor.New("w", tensor.Shape{0}, []float32{})), nil),
			form{tensorfile.Primitiv, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"rank": {write(t, z, one(tensor.New("w", tensor.Shape{1, 1, 1, 1, 1, 1, 1, 1, 2}, []float32{1, 2})), nil),
			form{tensorfile.Primitiv, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"dimensions of 1": {write(t, z, one(tensor.New("w", tensor.Shape{2, 1, 1}, []float32{1, 2})), nil),
			form{tensorfile.Primitiv, ""}, LossShape, `tensors["w"]`, tensor.F32, []float32{1, 2}},
		"integers that do not fit": {write(t, z, one(tensor.New("w", tensor.Shape{2}, []int64{1, 1 << 31})), nil),
			form{tensorfile.RTen, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"two values at one place": {write(t, z, one(twice), nil), form{tensorfile.Safetensors, ""}, LossTensors, `tensors["s"]`, tensor.Unknown, nil},
		"no name in rten": {write(t, z, one(tensor.New("", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.RTen, ""}, LossNames, `tensors[""]`, tensor.F32, []float32{1}},
		"a name with NUL in an archive": {write(t, z, one(tensor.New("a\x00b", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.NPZ, ""}, LossNames, `tensors["a\x00b"]`, tensor.F32, []float32{1}},
		"names": {write(t, z, one(tensor.New("__metadata__", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.Safetensors, ""}, LossNames, `tensors["__metadata__"]`, tensor.F32, []float32{1}},
		"a long name": {write(t, z, one(tensor.New(strings.Repeat("ü", 513), tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.ZTensor, "2"}, LossNames, "tensors[" + quote.Name(strings.Repeat("ü", 513)) + "]", tensor.F32, []float32{1}},
		"no name": {write(t, z, one(tensor.New("", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.ZTensor, "2"}, LossNames, `tensors[""]`, tensor.F32, []float32{1}},
		"a name with NUL": {write(t, z, one(tensor.New("a\x00b", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.ZTensor, "2"}, LossNames, `tensors["a\x00b"]`, tensor.F32, []float32{1}},
		"a name with NUL for NumPy": {write(t, z, one(tensor.New("a\x00b", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.NPZ, ""}, LossNames, `tensors["a\x00b"]`, tensor.F32, []float32{1}},
		"graph": {contents{tensors: one(tensor.New("w", tensor.Shape{1}, []float32{1}))}.file(t, form{tensorfile.PTE, ""}),
			z, LossGraph, "program", tensor.F32, []float32{1}},
		"parts": {write(t, z, one(extra), nil), form{tensorfile.Safetensors, ""}, LossParts, `tensors["w"].zeros`, tensor.F32, []float32{1, 2}},
		"blobs": {open(t, blobbed.Bytes()), form{tensorfile.NPZ, ""}, LossBlobs, `blobs["b"]`, tensor.F32, []float32{1}},
	} {
		every |= c.kind
		t.Run(name, func(t *testing.T) {
			o := c.to.options()
			p, err := NewPlan(t.Context(), c.src, c.to.format, o)
			if err != nil {
				t.Fatal(err)
			}
			l := p.Losses()
			if len(l) != 1 || l[0].Kind != c.kind || l[0].Field != c.field || !strings.HasPrefix(l[0].String(), c.field+": ") || !strings.Contains(l[0].String(), "; allow convert.") {
				t.Fatalf("%v, want one of kind %v", l, c.kind)
			}
			var out bytes.Buffer
			var le *LossError
			if err := p.Write(t.Context(), &out); !errors.As(err, &le) || !errors.Is(err, errors.ErrUnsupported) || len(le.Losses) != 1 || out.Len() != 0 {
				t.Fatalf("%v, %d bytes written", err, out.Len())
			}
			name := filepath.Join(t.TempDir(), "out")
			if err := p.WriteFile(t.Context(), name); !errors.As(err, &le) {
				t.Fatal(err)
			}
			if _, err := os.Stat(name); err == nil {
				t.Error("a file was written")
			}
			o.Allow = c.kind
			end, p := run(t, c.src, c.to, o)
			if c.dtype == tensor.Unknown {
				if end.Len() != 0 {
					t.Errorf("%d tensors", end.Len())
				}
				return
			}
			x := first(t, end)
			got, err := tensor.Convert[float32](x)
			if err != nil || x.DType != c.dtype || !slices.Equal(got, c.values) {
				t.Errorf("%v %v, %v; want %v %v", x.DType, got, err, c.dtype, c.values)
			}
			if err := p.Err(); err != nil {
				t.Error(err)
			}
		})
	}
	if every != LossAll {
		t.Errorf("no test for %v", LossAll&^every)
	}
}

func TestAllLossesAtOnce(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "1.2"}, []*tensor.Tensor{
		tensor.New("a", tensor.Shape{2}, []complex128{1, 1}), tensor.New("b", tensor.Shape{2}, []tensor.BFloat16{1, 1}), tensor.New("c", tensor.Shape{2}, []float64{1, 1}),
	}, map[string]string{"k": "v"})
	p, err := NewPlan(t.Context(), src, tensorfile.Primitiv, nil)
	if err != nil {
		t.Fatal(err)
	}
	var le *LossError
	if err := p.Err(); !errors.As(err, &le) || len(le.Losses) != 4 || strings.Count(err.Error(), "; ") != 3 {
		t.Fatalf("%v", err)
	}
	p.opts.Allow = LossWiden | LossNarrow
	if err := p.Err(); !errors.As(err, &le) || len(le.Losses) != 2 {
		t.Fatalf("%v", err)
	}
}

func TestTargetsThatAreNotWritten(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "1.0"}, []*tensor.Tensor{tensor.New("a", tensor.Shape{1}, []float32{1}), tensor.New("b", tensor.Shape{1}, []float32{1})}, nil)
	for _, f := range []tensorfile.Format{tensorfile.PTE, tensorfile.Torch, tensorfile.NPY, 0} {
		if _, err := NewPlan(t.Context(), src, f, nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", f, err)
		}
	}
	if _, err := NewPlan(t.Context(), src, tensorfile.PTD, &Options{Sparse: "sparse_coo"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestOnRequest(t *testing.T) {
	column := tensor.New("c", tensor.Shape{2, 3}, []float32{1, 4, 2, 5, 3, 6})
	column.Order = tensor.ColumnMajor(2)
	src := write(t, form{tensorfile.PTD, ""}, []*tensor.Tensor{column, tensor.New("i", tensor.Shape{2}, []int32{1, 2})}, nil)

	kept, _ := run(t, src, form{tensorfile.NPZ, ""}, nil)
	if kept.Tensor("c").Order.RowMajor() {
		t.Error("an order that the target has must be kept")
	}
	row, p := run(t, src, form{tensorfile.NPZ, ""}, &Options{RowMajor: true, Map: func(x *tensor.Tensor) (string, tensor.DType, bool) {
		return strings.ToUpper(x.Name), map[tensor.DType]tensor.DType{tensor.F32: tensor.F16, tensor.I32: tensor.I64}[x.DType], true
	}})
	if c := row.Tensor("C"); c == nil || !c.Order.RowMajor() || c.DType != tensor.F16 || len(p.Losses()) != 0 {
		t.Fatalf("%+v %v", c, p.Losses())
	}
	if v, err := tensor.Convert[float32](row.Tensor("C")); err != nil || !slices.Equal(v, []float32{1, 2, 3, 4, 5, 6}) {
		t.Error(v, err)
	}
	if v, err := tensor.Load[int64](row.Tensor("I")); err != nil || !slices.Equal(v, []int64{1, 2}) {
		t.Error(v, err)
	}
	single, _ := run(t, src, form{tensorfile.NPY, ""}, &Options{Map: only(func(x *tensor.Tensor) bool { return x.Name == "i" }), Allow: LossNames})
	if single.Len() != 1 || first(t, single).DType != tensor.I32 {
		t.Error("Select")
	}
	dense := write(t, form{tensorfile.ZTensor, "1.0"}, []*tensor.Tensor{tensor.New("w", tensor.Shape{2, 3}, []float32{0, 0, 7, 8, 0, 0})}, nil)
	for _, scheme := range []string{"sparse_csr", "sparse_coo"} {
		o := form{tensorfile.ZTensor, "1.0"}.options()
		o.Sparse = scheme
		sparse, _ := run(t, dense, form{tensorfile.ZTensor, "1.0"}, o)
		x := first(t, sparse)
		if v, err := tensor.Load[float32](&tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{2}, Data: x.Part("values").Data}); x.Scheme != scheme || err != nil || !slices.Equal(v, []float32{7, 8}) {
			t.Errorf("%s: %s %v %v", scheme, x.Scheme, v, err)
		}
		o = form{tensorfile.ZTensor, "1.0"}.options()
		o.Dense = true
		again, p := run(t, sparse, form{tensorfile.ZTensor, "1.0"}, o)
		if v, err := tensor.Load[float32](first(t, again)); err != nil || !slices.Equal(v, []float32{0, 0, 7, 8, 0, 0}) || len(p.Losses()) != 0 {
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
	if err != nil || len(p.Losses()) != 1 || p.Losses()[0].Kind != LossBlobs || p.Losses()[0].Field != `blobs["b"]` {
		t.Errorf("%v, %v", p.Losses(), err)
	}
}

func TestTypedAttributes(t *testing.T) {
	var out bytes.Buffer
	w := ztensor.NewWriter(&out, &ztensor.WriterOptions{Version: "1.2", Attributes: map[string]any{"n": 7, "t": "x"}})
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
	end, p := run(t, src, form{tensorfile.ZTensor, "1.2"}, form{tensorfile.ZTensor, "1.2"}.options())
	z := end.Sys().(*ztensor.Reader)
	for k, v := range z.TensorAttributes(end.Tensor("w")) {
		if k != "scale" || v.String() != "0.5" {
			t.Errorf("%s = %v", k, v)
		}
	}
	if got := fmt.Sprint(maps.Collect(z.AttributeValues())); got != "map[n:7 t:x]" || len(p.Losses()) != 0 {
		t.Errorf("%s, %v", got, p.Losses())
	}
	p, err := NewPlan(t.Context(), src, tensorfile.ZTensor, &Options{ZTensor: &ztensor.WriterOptions{Version: "1.0"}})
	if err != nil || len(p.Losses()) != 2 {
		t.Errorf("%v, %v", p.Losses(), err)
	}
}

// The digest of a borrowed tensor and of one that is read as a stream: both are
// checked while they are copied.
func TestDigestsAreChecked(t *testing.T) {
	for _, level := range []int{0, 1} {
		var out bytes.Buffer
		w := ztensor.NewWriter(&out, &ztensor.WriterOptions{Version: "1.2", Digest: ztensor.CRC32C, Level: level})
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
			if err := p.WriteFile(t.Context(), target); !errors.Is(err, tensor.ErrChecksum) && !(level > 0 && errors.Is(err, tensor.ErrMalformed)) {
				t.Errorf("level %d, mapped %v: %v", level, !noMap, err)
			}
			if _, err := os.Stat(target); err == nil {
				t.Error("a file appeared")
			}
			src.Close()
		}
	}
}

// Damage that planning comes across is no loss that can be allowed: Write fails with it.
func TestDamageIsNoLoss(t *testing.T) {
	x := tensor.New("x", tensor.Shape{20, 30}, slices.Repeat([]float32{0, 1, 2}, 200))
	matrix, err := sparse.Sparsify(t.Context(), x, "sparse_csr", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to   string
		in   *tensor.Tensor
		how  ztensor.WriterOptions
		want error
	}{
		{"2", matrix, ztensor.WriterOptions{Version: "1.2", Digest: ztensor.CRC32C}, tensor.ErrChecksum},
		{"1.2", x, ztensor.WriterOptions{Version: "1.2", Digest: ztensor.CRC32C}, tensor.ErrChecksum},
		{"2", matrix, ztensor.WriterOptions{Version: "1.2", Level: 1}, tensor.ErrMalformed},
		{"1.2", x, ztensor.WriterOptions{Version: "1.2", Level: 1}, tensor.ErrMalformed},
		{"2", matrix, ztensor.WriterOptions{Version: "2", Level: 1, KeepOrder: true}, tensor.ErrMalformed},
	} {
		to, in := c.to, c.in
		var file bytes.Buffer
		zw := ztensor.NewWriter(&file, &c.how)
		if err := errors.Join(zw.Add(in), zw.Close()); err != nil {
			t.Fatal(err)
		}
		b := file.Bytes()
		src, err := tensorfile.NewReader(bytes.NewReader(b), int64(len(b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		st, _ := src.Tensor("x").Data.Stored()
		if p := src.Tensor("x").Part("indices"); p != nil {
			st, _ = p.Data.Stored()
		}
		b[st.Offset] ^= 1 // where a zstd frame would say that it is one
		if src, err = tensorfile.OpenBytes(b, nil); err != nil {
			t.Fatal(err)
		}
		o := form{tensorfile.ZTensor, to}.options()
		if o.Allow = LossAll; to == "1.2" {
			o.Sparse = "sparse_coo"
		}
		p, err := NewPlan(t.Context(), src, tensorfile.ZTensor, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(t.Context(), io.Discard); !errors.Is(err, c.want) {
			t.Errorf("to %s, %+v: %v, losses %v", to, c.how, err, p.Losses())
		}
	}
}

// cancelling is a writer that cancels after so many bytes.
type cancelling struct {
	left   int
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		c.cancel()
	}
	return len(p), nil
}

func TestCancel(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "1.0"}, []*tensor.Tensor{tensor.New("w", tensor.Shape{16 << 20}, make([]uint8, 16<<20))}, nil)
	for _, to := range forms() {
		o := to.options()
		o.Allow = LossAll
		calls := 0
		o.Progress = func(done, total int64) {
			if calls++; done > total {
				t.Errorf("%v: %d of %d bytes", to, done, total)
			}
		}
		p, err := NewPlan(t.Context(), src, to.format, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := &cancelling{left: 3 << 20, cancel: cancel}
		if err := p.Write(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", to, err)
		}
		if c.left < -4<<20 || calls == 0 {
			t.Errorf("%v: %d bytes written after the cancellation, %d calls of Progress", to, -c.left, calls)
		}
		cancel()
	}
}

// A file that is not mapped takes its time: the end does not wait until the tensor lies in its temporary file, or the indices
// were seen.
func TestCancelBeforeTheFirstByte(t *testing.T) {
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	at := make([]byte, 16<<20)
	for i := range len(at) / 8 {
		at[8*i], at[8*i+1], at[8*i+2] = byte(i), byte(i>>8), byte(i>>16)
	}
	for _, x := range []*tensor.Tensor{
		tensor.New("w", tensor.Shape{4 << 10, 4 << 10}, make([]uint8, 16<<20)),
		{Name: "s", DType: tensor.U8, Shape: tensor.Shape{2 << 20}, Scheme: "sparse_coo", Parts: []tensor.Part{
			{Role: "values", DType: tensor.U8, Data: tensor.BlobOf(bytes.Repeat([]byte{1}, 2<<20))}, {Role: "coords", DType: tensor.U64, Data: tensor.BlobOf(at)}}},
	} {
		var file bytes.Buffer
		zw := ztensor.NewWriter(&file, nil)
		if err := errors.Join(zw.Add(x), zw.Close()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &cancellingReader{r: bytes.NewReader(file.Bytes()), left: math.MaxInt, cancel: cancel}
		src, err := tensorfile.NewReader(r, int64(file.Len()), nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(t.Context(), src, tensorfile.Primitiv, &Options{Allow: LossAll, Map: dtypes(map[tensor.DType]tensor.DType{tensor.U8: tensor.F32})})
		if err != nil {
			t.Fatal(err)
		}
		r.left = 1 << 20
		if err := p.Write(ctx, io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", x.Name, err)
		}
		if r.left < -1<<20 {
			t.Errorf("%s: %d bytes read after the end", x.Name, -r.left)
		}
		if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind: %v, %v", x.Name, left, err)
		}
		cancel()
	}
}

// cancellingReader cancels after so many bytes.
type cancellingReader struct {
	r      io.ReaderAt
	left   int
	cancel func()
}

func (c *cancellingReader) ReadAt(p []byte, off int64) (int, error) {
	if c.left -= len(p); c.left < 0 {
		c.cancel()
	}
	return c.r.ReadAt(p, off)
}

// Write takes 64 MiB of its own, whatever the size of the tensors, from a mapped file and from one that is read, to each target;
// also where elements become others or change their order.
func TestStreams(t *testing.T) {
	readtest.Measure(t)
	const n = 12 << 20 // elements
	name := filepath.Join(t.TempDir(), "w.zt")
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	if err := ztensor.WriteFile(t.Context(), name, tensor.Of(tensor.New("w", tensor.Shape{3 << 10, 4 << 10}, make([]float32, n))), &ztensor.WriterOptions{Version: "1.2", Digest: ztensor.CRC32C}); err != nil {
		t.Fatal(err)
	}
	for _, noMap := range []bool{false, true} {
		src, err := tensorfile.Open(name, &tensorfile.Options{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		for _, to := range forms() {
			for _, as := range []tensor.DType{tensor.F32, tensor.F16} {
				if !to.caps().Holds(as) {
					continue
				}
				o := to.options()
				o.Allow, o.Map = LossAll, dtypes(map[tensor.DType]tensor.DType{tensor.F32: as})
				p, err := NewPlan(t.Context(), src, to.format, o)
				if err != nil {
					t.Fatal(err)
				}
				peak := readtest.PeakHeap(func() { err = p.Write(t.Context(), io.Discard) })
				if err != nil || peak > 64<<20 {
					t.Errorf("%v to %v, mapped %v: %d bytes, %v", as, to, !noMap, peak, err)
				}
				t.Logf("%v to %v, mapped %v: %.1f MiB", as, to, !noMap, float64(peak)/(1<<20))
			}
		}
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAFailingTargetIsReported(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "1.0"}, []*tensor.Tensor{tensor.New("w", tensor.Shape{1000}, make([]float32, 1000))}, nil)
	for _, to := range forms() {
		o := to.options()
		o.Allow = LossAll
		p, err := NewPlan(t.Context(), src, to.format, o)
		if err != nil {
			t.Fatal(err)
		}
		pr, pw := io.Pipe()
		pr.CloseWithError(os.ErrDeadlineExceeded)
		if err := p.Write(t.Context(), pw); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v: %v", to, err)
		}
	}
}

func TestLossKindParses(t *testing.T) {
	for i := range kinds {
		a := LossKind(1) << i
		if got, err := ParseLossKind(a.String()); err != nil || got != a {
			t.Errorf("%v: %v, %v", a, got, err)
		}
	}
	if a, err := ParseLossKind("densify, reorder,"); err != nil || a != LossDensify|LossReorder {
		t.Error(a, err)
	}
	if a, err := ParseLossKind("all"); err != nil || a != LossAll {
		t.Error(a, err)
	}
	if _, err := ParseLossKind("densify,x"); err == nil {
		t.Error("x is no loss")
	}
}

func TestSeveralSources(t *testing.T) {
	file := func(name string, meta map[string]string, ts ...*tensor.Tensor) *tensorfile.File {
		var b bytes.Buffer
		w := safetensors.NewWriter(&b, &safetensors.WriterOptions{Metadata: meta})
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
	one := func(name string, v float32) *tensor.Tensor { return tensor.New(name, tensor.Shape{1}, []float32{v}) }
	a := file("a", map[string]string{"both": "1", "same": "x"}, one("w", 1))
	b := file("b", map[string]string{"both": "2", "same": "x", "new": "y"}, one("v", 2), one("w", 3))

	p, err := NewPlan(t.Context(), a, tensorfile.Safetensors, &Options{More: []*tensorfile.File{b}})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []LossKind
	for _, l := range p.Losses() {
		kinds = append(kinds, l.Kind)
	}
	if want := []LossKind{LossAttributes, LossNames}; !slices.Equal(kinds, want) || p.Err() == nil {
		t.Errorf("losses %v: %v", p.Losses(), p.Err())
	}
	p, err = NewPlan(t.Context(), a, tensorfile.Safetensors, &Options{More: []*tensorfile.File{b}, Allow: LossAttributes | LossNames})
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
	if got := f.Summary().Attributes; got["both"] != "1" || got["same"] != "x" || got["new"] != "y" {
		t.Error(got)
	}
}

// Sparse tensors that are made or made dense take memory for their indices and values.
func TestStreamsSparse(t *testing.T) {
	if testing.Short() {
		t.Skip("6 million elements")
	}
	const rows, cols = 2000, 3000
	values := make([]float32, rows*cols)
	for i := range values {
		values[i] = float32(i % 3) // two in three are not 0
	}
	dir := t.TempDir()
	dense, csr, coo := filepath.Join(dir, "dense.zt"), filepath.Join(dir, "csr.zt"), filepath.Join(dir, "coo.zt")
	if err := ztensor.WriteFile(t.Context(), dense, tensor.Of(tensor.New("w", tensor.Shape{rows, cols}, values)), nil); err != nil {
		t.Fatal(err)
	}
	run := func(from, to string, format tensorfile.Format, o *Options) {
		t.Helper()
		src, err := tensorfile.Open(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		const limit = 64<<20 + 40*rows*cols*2/3
		peak := readtest.PeakHeap(func() {
			var p *Plan
			if p, err = NewPlan(t.Context(), src, format, o); err == nil {
				err = p.WriteFile(t.Context(), to)
			}
		})
		if err != nil || peak > limit {
			t.Errorf("%s to %s: %d bytes, %v", filepath.Base(from), filepath.Base(to), peak, err)
		}
		t.Logf("%s to %s: %.1f MiB", filepath.Base(from), filepath.Base(to), float64(peak)/(1<<20))
	}
	run(dense, csr, tensorfile.ZTensor, &Options{Sparse: "sparse_csr"})
	run(dense, coo, tensorfile.ZTensor, &Options{Sparse: "sparse_coo"})
	for _, sparse := range []string{csr, coo} {
		back := filepath.Join(dir, "back.npy")
		run(sparse, back, tensorfile.NPY, &Options{Allow: LossAll, Dense: true})
		f, err := tensorfile.Open(back, nil)
		if err != nil {
			t.Fatal(err)
		}
		for x := range f.Tensors() {
			if got, err := tensor.Load[float32](x); err != nil || !slices.Equal(got, values) {
				t.Errorf("%s: other values, %v", filepath.Base(sparse), err)
			}
		}
		f.Close()
	}
}
