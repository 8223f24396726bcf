package convert

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A format that holds one tensor is not written with none.
func TestNPYOfNoTensorIsRefused(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "2"}, nil, map[string]string{"k": "v"})
	p, err := NewPlan(t.Context(), src, tensorfile.NPY, &Options{Allow: LossAll})
	if err == nil {
		err = p.WriteFile(t.Context(), filepath.Join(t.TempDir(), "x.npy"))
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// Where all that a source has is lost, there is no file; a source that has attributes
// alone becomes one without tensors.
func TestAllOfASourceIsLost(t *testing.T) {
	name := filepath.Join(t.TempDir(), "blob.ptd")
	w, err := ptd.Create(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.AddBlob("blob", tensor.BlobOf([]byte("bytes"))),
		w.Close()); err != nil {
		t.Fatal(err)
	}
	blob, err := tensorfile.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	unknown := tensorfile.FromTensors([]*tensor.Tensor{{Name: "s", Shape: tensor.Shape{2},
		Scheme: "of another program", Parts: []tensor.Part{{Role: "data", DType: tensor.U8,
			Data: tensor.BlobOf(make([]byte, 16))}}}}, nil)
	one := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("w", tensor.Shape{1}, []float32{1})}, nil)
	none := func(*tensor.Tensor) (string, tensor.DType, bool) { return "", 0, false }
	attributes := tensorfile.FromTensors(nil, map[string]string{"k": "v"})
	for _, target := range []tensorfile.Format{tensorfile.ZTensor, tensorfile.PTD, tensorfile.RTen,
		tensorfile.Primitiv, tensorfile.Safetensors, tensorfile.NPZ, tensorfile.GGUF} {
		for what, c := range map[string]struct {
			src  *tensorfile.File
			opts Options
			fine bool
		}{
			"a blob":                   {blob, Options{}, target == tensorfile.PTD},
			"an unknown scheme":        {unknown, Options{}, target == tensorfile.ZTensor},
			"a Map that keeps nothing": {one, Options{Map: none}, false},
			"attributes alone":         {attributes, Options{}, true},
		} {
			c.opts.Allow = LossAll
			out := filepath.Join(t.TempDir(), "out")
			p, err := NewPlan(t.Context(), c.src, target, &c.opts)
			if err == nil {
				err = p.WriteFile(t.Context(), out)
			}
			_, absent := os.Stat(out)
			if c.fine != (err == nil) || c.fine != (absent == nil) ||
				err != nil && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s to %v: %v", what, target, err)
			}
		}
	}
}

// A file of primitiv keeps its kind, and comes out the same.
func TestPrimitivKeepsItsKind(t *testing.T) {
	names, err := filepath.Glob("../testdata/primitiv/*.primitiv")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	var shape, batch bytes.Buffer
	ws := primitiv.NewWriter(&shape, &primitiv.WriterOptions{Kind: primitiv.KindShape})
	wt := primitiv.NewWriter(&batch, &primitiv.WriterOptions{Kind: primitiv.KindTensor, Batch: 3})
	x := tensor.New("tensor", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	x.Order = tensor.ColumnMajor(2)
	err = errors.Join(ws.SetShape(primitiv.Shape{Dims: []uint32{2, 3}, Batch: 5}), ws.Close(),
		wt.Add(x), wt.Close())
	if err != nil {
		t.Fatal(err)
	}
	files["shape"], files["batch"] = shape.Bytes(), batch.Bytes()
	seen := map[primitiv.Kind]bool{}
	for name, b := range files {
		r, err := primitiv.OpenBytes(b, nil)
		if err != nil {
			continue
		}
		seen[r.Kind()] = true
		p, err := NewPlan(t.Context(), open(t, b), tensorfile.Primitiv, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		var out bytes.Buffer
		if err := p.Write(t.Context(), &out); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		end, err := primitiv.OpenBytes(out.Bytes(), nil)
		if err != nil || end.Kind() != r.Kind() || end.Shape().String() != r.Shape().String() ||
			end.Len() != r.Len() {
			t.Errorf("%s: %v, a %v of shape %v became a %v of shape %v", name, err, r.Kind(),
				r.Shape(), end.Kind(), end.Shape())
		}
		if r.Kind() == primitiv.KindShape {
			p, err := NewPlan(t.Context(), open(t, b), tensorfile.Safetensors, nil)
			if err != nil || len(p.Losses()) != 1 || p.Losses()[0].Kind != LossShape {
				t.Errorf("%s to safetensors: %v, %v", name, p.Losses(), err)
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("kinds %v", seen)
	}
}

// A byte that is no bool is refused by every target, and copied by none.
// NumPy reads one array for w and w.npy.
func TestNamesThatNumPyConfusesAreALoss(t *testing.T) {
	for _, names := range [][2]string{{"w", "w.npy"}, {"w.npy", "w"}} {
		src := write(t, form{tensorfile.ZTensor, "2"}, []*tensor.Tensor{
			tensor.New(names[0], tensor.Shape{1}, []float32{1}),
			tensor.New(names[1], tensor.Shape{1}, []float32{2})}, nil)
		p, err := NewPlan(t.Context(), src, tensorfile.NPZ, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := p.Losses()
		if len(l) != 1 || l[0].Kind != LossNames || l[0].Field != fieldOf(src.Tensor("w.npy")) &&
			l[0].Field != fieldOf(src.Tensor("w")) {
			t.Errorf("%q: %v", names, l)
		}
	}
}

func TestInvalidBoolsAreMalformed(t *testing.T) {
	src := write(t, form{tensorfile.Safetensors, ""}, []*tensor.Tensor{
		{Name: "b", DType: tensor.Bool, Shape: tensor.Shape{3},
			Data: tensor.BlobOf([]byte{0, 77, 1})}}, nil)
	for _, to := range forms() {
		o := to.options()
		o.Allow = LossAll
		p, err := NewPlan(t.Context(), src, to.format, o)
		if err == nil {
			err = p.Write(t.Context(), io.Discard)
		}
		if !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%v: %v", to, err)
		}
	}
}

func TestDuplicatesAreCombinedAsAsked(t *testing.T) {
	x := &tensor.Tensor{Name: "s", DType: tensor.F32, Shape: tensor.Shape{3}, Scheme: "sparse_coo",
		Parts: []tensor.Part{
			{Role: "values", DType: tensor.F32,
				Data: tensor.New("", tensor.Shape{2}, []float32{1, 2}).Data},
			{Role: "coords", DType: tensor.U64,
				Data: tensor.New("", tensor.Shape{2}, []uint64{1, 1}).Data}}}
	src := write(t, form{tensorfile.ZTensor, "1.0"}, []*tensor.Tensor{x}, nil)
	for d, want := range map[sparse.Duplicates][]float32{sparse.Sum: {0, 3, 0},
		sparse.First: {0, 1, 0}} {
		for _, to := range []form{{tensorfile.Safetensors, ""}, {tensorfile.ZTensor, "2"}} {
			o := to.options()
			o.Allow, o.Duplicates = LossDensify, d
			end, p := run(t, src, to, o)
			y := first(t, end)
			if !y.Dense() {
				var err error
				if y, err = sparse.Densify(t.Context(), y, nil); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := tensor.Load[float32](y); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %v: %v, %v, losses %v", to, d, got, err, p.Losses())
			}
		}
	}
}

// The field of Options that is wrong is named.
func TestOptionErrorsNameTheOption(t *testing.T) {
	src := write(t, form{tensorfile.ZTensor, "2"},
		[]*tensor.Tensor{tensor.New("w", tensor.Shape{2}, []float32{1, 2})}, nil)
	for name, c := range map[string]struct {
		to     tensorfile.Format
		o      Options
		option string
	}{
		"sparse":   {tensorfile.NPZ, Options{Sparse: "sparse_csr"}, "Sparse"},
		"a scheme": {tensorfile.ZTensor, Options{Sparse: "csr"}, "Sparse"},
		"a dtype": {tensorfile.NPZ,
			Options{Map: dtypes(map[tensor.DType]tensor.DType{tensor.F32: tensor.BF16})}, "Map"},
		"a dtype to no other": {tensorfile.NPZ,
			Options{Map: dtypes(map[tensor.DType]tensor.DType{tensor.F32: tensor.F4E2M1FN})},
			"Map"},
		"a digest": {tensorfile.ZTensor,
			Options{Writer: &ztensor.WriterOptions{Version: "2", Digest: ztensor.SHA256}},
			"Writer"},
		"an alignment of .ptd": {tensorfile.PTD, Options{Writer: &ptd.WriterOptions{Alignment: 3}},
			"Writer"},
		"an alignment of .rten": {tensorfile.RTen,
			Options{Writer: &rten.WriterOptions{Alignment: 3}}, "Writer"},
		"a kind": {tensorfile.Primitiv, Options{Writer: &primitiv.WriterOptions{Kind: 9}},
			"Writer"},
	} {
		var oe *OptionError
		_, err := NewPlan(t.Context(), src, c.to, &c.o)
		if !errors.As(err, &oe) || oe.Option != c.option {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The size that the sources declare to decode to is compared with the limit before Write
// writes.
func TestDecodedTotalIsCheckedBeforeWriting(t *testing.T) {
	var file bytes.Buffer
	w := ztensor.NewWriter(&file, &ztensor.WriterOptions{Version: "1.0", Level: 1})
	for _, name := range []string{"a", "b"} {
		if err := w.Add(tensor.New(name, tensor.Shape{1 << 16},
			make([]uint8, 1<<16))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]error{1 << 17: nil, 1<<17 - 1: tensor.ErrLimit} {
		p, err := NewPlan(t.Context(), open(t, file.Bytes()), tensorfile.NPZ,
			&Options{Limits: tensor.Limits{MaxDecodedTotal: limit}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := p.Write(t.Context(), &out); !errors.Is(err, want) ||
			err != nil && out.Len() > 0 {
			t.Errorf("limit %d: %v, %d bytes written", limit, err, out.Len())
		}
	}
}

// Losses of one kind and reason are one line, and name the tensor of the source.
func TestGroupLossesJoinsKindAndReason(t *testing.T) {
	var all []*tensor.Tensor
	for i := range 9 {
		all = append(all, tensor.New(strings.Repeat("x", i+1), tensor.Shape{1},
			[]tensor.BFloat16{1}))
	}
	src := write(t, form{tensorfile.ZTensor, "2"}, all, nil)
	p, err := NewPlan(t.Context(), src, tensorfile.NPZ,
		&Options{Map: func(x *tensor.Tensor) (string, tensor.DType, bool) {
			return "new" + x.Name, tensor.Unknown, true
		}})
	if err != nil {
		t.Fatal(err)
	}
	groups := GroupLosses(p.Losses())
	if len(groups) != 1 || groups[0].String() != "9 tensors: bfloat16 is stored as float32 (widen)" || groups[0].Fields[0] != `tensors["x"]` {
		t.Errorf("%v", groups)
	}
}

func TestFileConvertsOneFile(t *testing.T) {
	const in = "../testdata/safetensors/dtypes.safetensors"
	dir := t.TempDir()
	var le *LossError
	if err := File(t.Context(), in, filepath.Join(dir, "out.npz"), nil); !errors.As(err, &le) {
		t.Error(err)
	}
	if err := File(t.Context(), in, filepath.Join(dir, "out.unknown"), nil); !errors.Is(err,
		fs.ErrInvalid) || strings.Contains(err.Error(), tensorfile.ErrUnknownFormat.Error()) {
		t.Error(err)
	}
	out := filepath.Join(dir, "out.ZT")
	if err := File(t.Context(), in, out, &Options{Allow: LossAll}); err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Format() != tensorfile.ZTensor || f.Len() == 0 {
		t.Errorf("%v, %d tensors", f.Format(), f.Len())
	}
}
