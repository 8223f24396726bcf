package convert

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A writer takes everything that its format says that it holds, and nothing else.
func TestCapsAreTrue(t *testing.T) {
	for _, to := range forms() {
		for _, d := range tensor.DTypes() {
			x := sample(d, tensor.Shape{2, 4})
			if to.caps().Orders == tensorfile.OnlyColumnMajor {
				x.Order = tensor.ColumnMajor(2)
			}
			w, err := tensorfile.NewWriter(io.Discard, to.format,
				&tensorfile.WriterOptions{Version: to.version})
			if err == nil {
				err = cmp.Or(w.Add(x), w.Close())
			}
			if (err == nil) != to.caps().Holds(d) {
				t.Errorf("%v, %v: Caps say %v, the writer says %v", to, d, to.caps().Holds(d), err)
			}
		}
	}
}

// Each kind of loss by itself: named before a byte is written, refused, and
// done when it is allowed.
func TestEachKindOfLossIsNamedRefusedAndAllowed(t *testing.T) {
	z, z10 := form{tensorfile.ZTensor, "2"}, form{tensorfile.ZTensor, "1.0"}
	column := tensor.New("c", tensor.Shape{2, 3}, []float32{1, 4, 2, 5, 3, 6})
	column.Order = tensor.ColumnMajor(2)
	csr := &tensor.Tensor{Name: "s", DType: tensor.F32, Shape: tensor.Shape{2, 3},
		Scheme: "sparse_csr", Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32,
				Data: tensor.New("", tensor.Shape{2}, []float32{7, 8}).Data},
			{Role: "indices", DType: tensor.U64,
				Data: tensor.New("", tensor.Shape{2}, []uint64{2, 0}).Data},
			{Role: "indptr", DType: tensor.U64,
				Data: tensor.New("", tensor.Shape{3}, []uint64{0, 1, 2}).Data},
		}}
	one := func(x ...*tensor.Tensor) []*tensor.Tensor { return x }
	extra := tensor.New("w", tensor.Shape{2}, []float32{1, 2})
	extra.Parts = []tensor.Part{{Role: "zeros", DType: tensor.F32,
		Data: tensor.New("", tensor.Shape{1}, []float32{3}).Data}}
	var blobbed bytes.Buffer
	w := ptd.NewWriter(&blobbed, nil)
	if err := errors.Join(w.Add(tensor.New("w", tensor.Shape{1}, []float32{1})),
		w.AddBlob("b", tensor.BlobOf([]byte("blob"))), w.Close()); err != nil {
		t.Fatal(err)
	}
	twice := &tensor.Tensor{Name: "s", DType: tensor.U8, Shape: tensor.Shape{4},
		Scheme: "sparse_coo", Parts: []tensor.Part{
			{Role: "values", DType: tensor.U8, Data: tensor.BlobOf([]byte{1, 2})},
			{Role: "coords", DType: tensor.U64, Data: tensor.BlobOf(make([]byte, 16))}}}
	var every LossKind
	for name, c := range map[string]struct {
		src    *tensorfile.File
		to     form
		kind   LossKind
		field  string
		dtype  tensor.DType // of the one tensor that arrives, Unknown: none does
		values []float32
	}{
		"attributes": {write(t, z, one(tensor.New("w", tensor.Shape{1}, []float32{1})),
			map[string]string{"license": "MIT"}),
			form{tensorfile.PTD, ""}, LossAttributes, `attributes["license"]`, tensor.F32,
			[]float32{1}},
		"an attribute whose name zTensor 2 does not have": {write(t, z10,
			one(tensor.New("w", tensor.Shape{1}, []float32{1})),
			map[string]string{"": "MIT"}),
			form{tensorfile.ZTensor, "2"}, LossAttributes, `attributes[""]`, tensor.F32,
			[]float32{1}},
		"sparse": {write(t, z, one(csr), nil), form{tensorfile.PTD, ""}, LossDensify,
			`tensors["s"]`, tensor.F32, []float32{0, 0, 7, 8, 0, 0}},
		"order": {write(t, form{tensorfile.PTD, ""}, one(column), nil), z, LossReorder,
			`tensors["c"]`, tensor.F32, []float32{1, 2, 3, 4, 5, 6}},
		"widen": {write(t, z,
			one(tensor.New("w", tensor.Shape{2}, []tensor.BFloat16{0x3f80, 0xc000})), nil),
			form{tensorfile.NPZ, ""}, LossWiden, `tensors["w"]`, tensor.F32, []float32{1, -2}},
		"narrow": {write(t, z, one(tensor.New("w", tensor.Shape{2}, []float64{0.1, -2})), nil),
			form{tensorfile.RTen, ""}, LossNarrow, `tensors["w"]`, tensor.F32, []float32{0.1, -2}},
		"narrow integers": {write(t, z,
			one(tensor.New("w", tensor.Shape{2}, []int64{-5, 1 << 20})), nil),
			form{tensorfile.RTen, ""}, LossNarrow, `tensors["w"]`, tensor.I32,
			[]float32{-5, 1 << 20}},
		"a dtype that the target lacks": {write(t, z,
			one(tensor.New("w", tensor.Shape{1}, []complex64{1})), nil),
			form{tensorfile.Primitiv, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"a dimension of 0": {write(t, z, one(tensor.New("w", tensor.Shape{0}, []float32{})), nil),
			form{tensorfile.Primitiv, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"rank": {write(t, z,
			one(tensor.New("w", tensor.Shape{1, 1, 1, 1, 1, 1, 1, 1, 2}, []float32{1, 2})), nil),
			form{tensorfile.Primitiv, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"dimensions of 1": {write(t, z,
			one(tensor.New("w", tensor.Shape{2, 1, 1}, []float32{1, 2})), nil),
			form{tensorfile.Primitiv, ""}, LossShape, `tensors["w"]`, tensor.F32, []float32{1, 2}},
		"integers that do not fit": {write(t, z,
			one(tensor.New("w", tensor.Shape{2}, []int64{1, 1 << 31})), nil),
			form{tensorfile.RTen, ""}, LossTensors, `tensors["w"]`, tensor.Unknown, nil},
		"two values at one place": {write(t, z10, one(twice), nil),
			form{tensorfile.Safetensors, ""}, LossTensors, `tensors["s"]`, tensor.Unknown, nil},
		"no name in rten": {write(t, z10, one(tensor.New("", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.RTen, ""}, LossNames, `tensors[""]`, tensor.F32, []float32{1}},
		"a name with NUL in an archive": {write(t, z10,
			one(tensor.New("a\x00b", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.NPZ, ""}, LossNames, `tensors["a\x00b"]`, tensor.F32, []float32{1}},
		"names": {write(t, z, one(tensor.New("__metadata__", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.Safetensors, ""}, LossNames, `tensors["__metadata__"]`, tensor.F32,
			[]float32{1}},
		"a long name": {write(t, z10,
			one(tensor.New(strings.Repeat("ü", 513), tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.ZTensor, "2"}, LossNames,
			"tensors[" + naming.Quote(strings.Repeat("ü", 513)) + "]", tensor.F32, []float32{1}},
		"no name": {write(t, z10, one(tensor.New("", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.ZTensor, "2"}, LossNames, `tensors[""]`, tensor.F32, []float32{1}},
		"a name with NUL": {write(t, z10, one(tensor.New("a\x00b", tensor.Shape{1}, []float32{1})),
			nil),
			form{tensorfile.ZTensor, "2"}, LossNames, `tensors["a\x00b"]`, tensor.F32,
			[]float32{1}},
		"a name with NUL for NumPy": {write(t, z10,
			one(tensor.New("a\x00b", tensor.Shape{1}, []float32{1})), nil),
			form{tensorfile.NPZ, ""}, LossNames, `tensors["a\x00b"]`, tensor.F32, []float32{1}},
		"graph": {contents{tensors: one(tensor.New("w", tensor.Shape{1}, []float32{1}))}.file(t,
			form{tensorfile.PTE, ""}),
			z, LossGraph, "program", tensor.F32, []float32{1}},
		"parts": {write(t, z10, one(extra), nil), form{tensorfile.Safetensors, ""}, LossParts,
			`tensors["w"].zeros`, tensor.F32, []float32{1, 2}},
		"blobs": {open(t, blobbed.Bytes()), form{tensorfile.NPZ, ""}, LossBlobs, `blobs["b"]`,
			tensor.F32, []float32{1}},
	} {
		every |= c.kind
		t.Run(name, func(t *testing.T) {
			o := c.to.options()
			p, err := NewPlan(t.Context(), c.src, c.to.format, o)
			if err != nil {
				t.Fatal(err)
			}
			l := p.Losses()
			if len(l) != 1 || l[0].Kind != c.kind || l[0].Field != c.field ||
				!strings.HasPrefix(l[0].String(), c.field+": ") ||
				!strings.Contains(l[0].String(), "; allow convert.") {
				t.Fatalf("%v, want one of kind %v", l, c.kind)
			}
			var out bytes.Buffer
			var le *LossError
			if err := p.Write(t.Context(), &out); !errors.As(err, &le) ||
				!errors.Is(err, errors.ErrUnsupported) || len(le.Losses) != 1 || out.Len() != 0 {
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
			if c.dtype == tensor.Unknown {
				p, err := NewPlan(t.Context(), c.src, c.to.format, o)
				if err != nil {
					t.Fatal(err)
				}
				err = p.Err()
				if errors.As(err, &le) || !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("nothing to write: %v", err)
				}
				return
			}
			end, p := run(t, c.src, c.to, o)
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
	// The last two have tests of their own: TestCastPastAScaleIsALoss and
	// TestRequestedDTypesLoseWhatTheyName.
	if every |= LossScale | LossOverflow; every != LossAll {
		t.Errorf("no test for %v", LossAll&^every)
	}
}

func TestAllLossesAreReportedAtOnce(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "2"}, []*tensor.Tensor{
		tensor.New("a", tensor.Shape{2}, []complex128{1, 1}),
		tensor.New("b", tensor.Shape{2}, []tensor.BFloat16{1, 1}),
		tensor.New("c", tensor.Shape{2}, []float64{1, 1}),
	}, map[string]string{"k": "v"})
	p, err := NewPlan(t.Context(), src, tensorfile.Primitiv, nil)
	if err != nil {
		t.Fatal(err)
	}
	var le *LossError
	if err := p.Err(); !errors.As(err, &le) || len(GroupLosses(le.Losses)) != 4 {
		t.Fatalf("%v", err)
	}
	p.opts.Allow = LossWiden | LossNarrow
	if err := p.Err(); !errors.As(err, &le) || len(le.Losses) != 2 {
		t.Fatalf("%v", err)
	}
}

func TestTargetsThatAreNotWrittenAreUnsupported(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "1.0"},
		[]*tensor.Tensor{tensor.New("a", tensor.Shape{1}, []float32{1}),
			tensor.New("b", tensor.Shape{1}, []float32{1})}, nil)
	for _, f := range []tensorfile.Format{tensorfile.PTE, tensorfile.Torch, tensorfile.NPY, 0} {
		if _, err := NewPlan(t.Context(), src, f, nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", f, err)
		}
	}
	if _, err := NewPlan(t.Context(), src, tensorfile.PTD,
		&Options{Sparse: "sparse_coo"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
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
		{"2", matrix, ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C},
			tensor.ErrChecksum},
		{"1.0", x, ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C},
			tensor.ErrChecksum},
		{"2", matrix, ztensor.WriterOptions{Version: "1.0", Level: 1}, tensor.ErrMalformed},
		{"1.0", x, ztensor.WriterOptions{Version: "1.0", Level: 1}, tensor.ErrMalformed},
		{"2", matrix, ztensor.WriterOptions{Version: "2", Level: 1, KeepOrder: true},
			tensor.ErrMalformed},
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
		if o.Allow = LossAll; to == "1.0" {
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

// Names that several sources have are one loss to read, with the first new names.
func TestTakenNamesAreOneGroup(t *testing.T) {
	var ts []*tensor.Tensor
	for _, name := range []string{"a", "b", "c", "d"} {
		ts = append(ts, tensor.New(name, tensor.Shape{1}, []float32{1}))
	}
	src := tensorfile.FromTensors(ts, nil)
	for n, want := range map[int]string{
		1: `tensors["a"]: the name is taken: "a" becomes "a~2" (names)`,
		2: `tensors["a"], tensors["b"]: the name is taken: "a" becomes "a~2", "b" becomes "b~2" (names)`,
		4: `4 tensors: the name is taken: "a" becomes "a~2", "b" becomes "b~2", "c" becomes "c~2", … (names)`,
	} {
		others := tensorfile.FromTensors(ts[:n], nil)
		plan, err := NewPlan(t.Context(), src, tensorfile.Safetensors,
			&Options{More: []*tensorfile.File{others}})
		if err != nil {
			t.Fatal(err)
		}
		groups := GroupLosses(plan.Losses())
		if len(groups) != 1 || groups[0].String() != want {
			t.Errorf("%v", groups)
		}
	}
}
