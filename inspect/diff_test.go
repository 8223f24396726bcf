package inspect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// Every file equals itself, whatever its tensors lack: data in another file, an initial
// value, a dtype of their own.
func TestEveryFileEqualsItself(t *testing.T) {
	err := filepath.WalkDir("../testdata", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if strings.Contains(name, "malformed") || tensorfile.ByName(name) == 0 {
			return nil
		}
		f, err := tensorfile.Open(name, nil)
		if err != nil {
			return nil // not all files are sound
		}
		defer f.Close()
		if all := changes(t, f, f, nil); len(all) > 0 {
			t.Errorf("%s: %q", name, all)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDiffMatchesTensorsByName(t *testing.T) {
	x := tensor.New("x", tensor.Shape{2}, []float32{1, 2})
	y := tensor.New("y", tensor.Shape{2}, []float32{1, 2})
	near := tensor.New("x", tensor.Shape{2}, []float32{1, 2.25})
	wide := tensor.New("x", tensor.Shape{2}, []float64{1, 2})
	long := tensor.New("x", tensor.Shape{3}, []float32{1, 2, 3})
	for name, c := range map[string]struct {
		a, b *tensorfile.File
		o    *DiffOptions
		want []string
	}{
		"order does not count": {fileOf(x, y), fileOf(y, x), nil, nil},
		"only in one": {fileOf(x), fileOf(y), nil,
			[]string{"tensor x only_a", "tensor y only_b"}},
		"duplicate names":      {fileOf(x, near), fileOf(x), nil, []string{"tensor x only_a"}},
		"values":               {fileOf(x), fileOf(near), nil, []string{"tensor x values"}},
		"within a tolerance":   {fileOf(x), fileOf(near), &DiffOptions{Tolerance: 0.25}, nil},
		"dtype":                {fileOf(x), fileOf(wide), nil, []string{"tensor x dtype"}},
		"dtype does not count": {fileOf(x), fileOf(wide), &DiffOptions{IgnoreDType: true}, nil},
		"shape":                {fileOf(x), fileOf(long), nil, []string{"tensor x shape"}},
		"a filter": {fileOf(x, y), fileOf(near, y),
			&DiffOptions{Filter: func(n string) bool { return n == "y" }}, nil},
		"complex and real": {fileOf(x),
			fileOf(tensor.New("x", tensor.Shape{2}, []complex64{1, 2})),
			&DiffOptions{IgnoreDType: true}, []string{"tensor x error"}},
		"data that does not fit": {fileOf(x),
			fileOf(&tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{2},
				Data: tensor.BlobOf([]byte{1})}), nil, []string{"tensor x error"}},
	} {
		if got := changes(t, c.a, c.b, c.o); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if _, err := Diff(t.Context(), fileOf(x), fileOf(x), &DiffOptions{Tolerance: -1}); err == nil {
		t.Error("a negative tolerance")
	}
}

func TestDiffComparesSparseWithDense(t *testing.T) {
	dense := tensor.New("s", tensor.Shape{3, 2}, []float32{0, 1, 0, 0, 2, 0})
	for _, scheme := range []string{sparse.CSR, sparse.COO} {
		s, err := sparse.Sparsify(t.Context(), dense, scheme, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := changes(t, fileOf(dense), fileOf(s), nil); got != nil {
			t.Errorf("%s: %q", scheme, got)
		}
		other, err := sparse.Sparsify(t.Context(),
			tensor.New("s", dense.Shape, []float32{0, 1, 0, 3, 2, 0}), scheme, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := changes(t, fileOf(other), fileOf(dense), nil); !slices.Equal(got,
			[]string{"tensor s values"}) {
			t.Errorf("%s: %q", scheme, got)
		}
	}
}

// A module of PyTorch and its state_dict have the same content; of two modules attributes
// are compared, too.
func TestModulesEqualTheirState(t *testing.T) {
	files := map[string]*tensorfile.File{}
	for _, name := range []string{"modules", "modules_state", "module"} {
		f, err := tensorfile.Open("../testdata/torch/"+name+".pt", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[name] = f
	}
	module, state := files["modules"], files["modules_state"]
	if got := append(changes(t, module, state, nil),
		changes(t, state, module, nil)...); got != nil {
		t.Errorf("%q", got)
	}
	x, err := Content(t.Context(), slices.Collect(module.Tensors()), nil)
	y, err2 := Content(t.Context(), slices.Collect(state.Tensors()), nil)
	if err != nil || err2 != nil || x != y {
		t.Errorf("%v %v, %v %v", x, err, y, err2)
	}
	if got := changes(t, module, files["module"], nil); !slices.Contains(got,
		"attribute model.1.eps only_a") {
		t.Errorf("%q", got)
	}
}

func TestDiffFindsAttributesAndProgramsThatDiffer(t *testing.T) {
	x := tensor.New("x", tensor.Shape{1}, []float32{1})
	a := tensorfile.FromTensors([]*tensor.Tensor{x}, map[string]string{"k": "1", "only": "a"})
	b := tensorfile.FromTensors([]*tensor.Tensor{x}, map[string]string{"k": "2"})
	if got := changes(t, a, b, nil); !slices.Equal(got,
		[]string{"attribute k value", "attribute only only_a"}) {
		t.Errorf("%q", got)
	}
	if got := changes(t, a, b, &DiffOptions{IgnoreAttributes: true}); got != nil {
		t.Errorf("%q", got)
	}
	number := func(x any) *tensorfile.File {
		v, err := gguf.NewValue(x)
		var out bytes.Buffer
		w := gguf.NewWriter(&out,
			&gguf.WriterOptions{Metadata: []gguf.KeyValue{{Key: "k", Value: v}}})
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := tensorfile.OpenBytes(out.Bytes(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if got := changes(t, number(uint32(1)), number("1"), nil); !slices.Equal(got,
		[]string{"attribute k value"}) {
		t.Errorf("a number and a string: %q", got)
	}
	if got := changes(t, number([]int32{1}), number([]uint8{1}), nil); got != nil {
		t.Errorf("arrays of the same numbers: %q", got)
	}
	rows := bytes.Repeat([]byte("a block of Q8_0 has 34 bytes in it"), 2)
	blocks := func(scheme, role string, d tensor.DType) *tensorfile.File {
		return fileOf(&tensor.Tensor{Name: "b", DType: d, Shape: tensor.Shape{2, 32},
			Scheme: scheme,
			Parts:  []tensor.Part{{Role: role, DType: d, Data: tensor.BlobOf(rows)}}})
	}
	old, layout := blocks("Q8_0", "blocks", tensor.Unknown),
		blocks("gguf.q8_0/1", "data", tensor.U8)
	if got := changes(t, old, layout, nil); got != nil {
		t.Errorf("blocks in two layouts: %q", got)
	}
	sum1, err1 := Content(t.Context(), slices.Collect(old.Tensors()), nil)
	sum2, err2 := Content(t.Context(), slices.Collect(layout.Tensors()), nil)
	if err1 != nil || err2 != nil || sum1 != sum2 {
		t.Errorf("blocks in two layouts: %v, %v, %v, %v", sum1, sum2, err1, err2)
	}
	numbers, err := tensor.As(old.Tensor("b"), tensor.F32)
	if err != nil {
		t.Fatal(err)
	}
	if got := changes(t, old, fileOf(numbers), &DiffOptions{IgnoreDType: true}); got != nil {
		t.Errorf("blocks and their values: %q", got)
	}
	open := func(name string) *tensorfile.File {
		f, err := tensorfile.Open("../testdata/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	if got := changes(t, open("rten/convert-0.22.0-basic-v1.rten"),
		open("rten/convert-0.22.0-basic.rten"), nil); got != nil {
		t.Errorf("two layouts of a model: %q", got)
	}
	if got := changes(t, open("pte/export-1.5.1-linear.pte"),
		open("pte/export-1.5.1-two-layers.pte"), nil); len(got) < 5 {
		t.Errorf("two programs: %q", got)
	}
}

func TestLargestFindsWhatChangedMost(t *testing.T) {
	tensors := func(scale float32) *tensorfile.File {
		var all []*tensor.Tensor
		for i, name := range []string{"a", "b", "c"} {
			all = append(all,
				tensor.New(name, tensor.Shape{2}, []float32{float32(i+1) * scale, 100}))
		}
		return fileOf(all...)
	}
	r, err := Diff(t.Context(), tensors(1), tensors(2), &DiffOptions{Figures: true})
	if err != nil {
		t.Fatal(err)
	}
	top := r.Largest(2)
	if len(top) != 2 || top[0].Name != "c" || top[1].Name != "b" ||
		!(top[0].RelativeRMS > top[1].RelativeRMS) || top[0].Largest != 3 {
		t.Errorf("%+v", top)
	}
}

func TestLargestBeginsWithWhatBecameNaN(t *testing.T) {
	tensors := func(a float32) *tensorfile.File {
		return fileOf(tensor.New("a", tensor.Shape{2}, []float32{a, 1}),
			tensor.New("b", tensor.Shape{2}, []float32{a + 9, 1}),
			tensor.New("c", tensor.Shape{2}, []float32{100 * a, 1}))
	}
	x, y := tensors(1), tensors(2)
	clear := tensor.New("b", tensor.Shape{2}, []float32{float32(math.NaN()), 1})
	*y.Tensor("b") = *clear
	for _, figures := range []bool{false, true} {
		r, err := Diff(t.Context(), x, y, &DiffOptions{Figures: figures})
		if err != nil {
			t.Fatal(err)
		}
		if top := r.Largest(2); len(top) != 2 || top[0].Name != "b" || top[1].Name != "c" {
			t.Errorf("%+v", top)
		}
	}
}

// Integers that a float64 does not tell apart are different nevertheless.
func TestIntegersAreComparedExactly(t *testing.T) {
	x := tensor.New("", tensor.Shape{4}, []int64{1<<53 + 1, math.MinInt64, -1, 5})
	y := tensor.New("", tensor.Shape{4}, []int64{1 << 53, math.MinInt64, -1, 5})
	z := tensor.New("", tensor.Shape{4}, []uint64{1<<53 + 1, 1 << 63, math.MaxUint64, 5})
	w := tensor.New("", tensor.Shape{4}, []uint64{1 << 53, 1 << 63, math.MaxUint64, 5})
	narrow := tensor.New("", tensor.Shape{4}, []int32{1, -7, -1, 5})
	for _, c := range []struct {
		a, b      *tensor.Tensor
		tolerance float64
		numeric   bool
		different int64
		largest   float64
	}{
		{x, y, 0, false, 1, 1},
		{x, y, 0.5, true, 1, 1},
		{x, y, 1, true, 0, 1},
		{x, z, 1, true, 2, 1 << 64},
		{x, w, 0, true, 3, 1 << 64},
		{z, x, 1 << 64, true, 0, 1 << 64},
		{narrow, z, 0, true, 3, 1 << 64},
	} {
		o := &CompareOptions{Tolerance: c.tolerance, Numeric: c.numeric}
		n, err := Compare(t.Context(), c.a, c.b, o)
		if err != nil {
			t.Fatal(err)
		}
		if n.Different != c.different || float64(n.Largest) != c.largest {
			t.Errorf("%v, %v within %v: %d differ, by up to %v; want %d, %v", c.a.DType, c.b.DType,
				c.tolerance, n.Different, n.Largest, c.different, c.largest)
		}
	}
}

func TestHashEachReportsDataThatDoesNotFit(t *testing.T) {
	ts := []*tensor.Tensor{
		{Name: "short", DType: tensor.F32, Shape: tensor.Shape{2},
			Data: tensor.BlobOf(make([]byte, 7))},
		{Name: "absent", Shape: tensor.Shape{2}},
		{Name: "empty", DType: tensor.F32, Shape: tensor.Shape{0}},
		{Name: "external", DType: tensor.F32, Shape: tensor.Shape{2}, External: true},
	}
	want := []error{tensor.ErrMalformed, tensor.ErrMalformed, nil, ErrExternal}
	i := 0
	for all, err := range HashEach(t.Context(), slices.Values(ts), nil) {
		if err != nil || len(all) != 1 || !errors.Is(all[0].Err, want[i]) {
			t.Errorf("%s: %+v, %v", ts[i].Name, all, err)
		}
		i++
	}
	if i != len(ts) {
		t.Errorf("%d results", i)
	}
}

func TestStatsEachIsInOrder(t *testing.T) {
	var ts []*tensor.Tensor
	for i := range 50 {
		n := 10 + i%3*300_000 // some are larger than a piece
		v := make([]float32, n)
		v[0] = float32(i)
		ts = append(ts, tensor.New("x", tensor.Shape{int64(n)}, v))
	}
	read := int64(0)
	i := 0
	for all, err := range StatsEach(t.Context(), slices.Values(ts),
		&StatsOptions{Progress: func(done, _ int64) { read = done }}) {
		if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Summary.Max != float32(i) {
			t.Fatalf("%d: %+v, %v", i, all, err)
		}
		if i++; i == 40 {
			break
		}
	}
	if read == 0 {
		t.Error("no progress")
	}
}

// endless is a stream without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

func TestLoopsEndOnCancel(t *testing.T) {
	b := tensor.BlobFunc(1<<60, func() (io.ReadCloser, error) { return endless{}, nil })
	x := &tensor.Tensor{Name: "x", DType: tensor.U8, Shape: tensor.Shape{1 << 60}, Data: b}
	y := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{1 << 58}, Data: b}
	last := func(seq func(yield func(error) bool)) (err error) {
		for e := range seq {
			err = e
		}
		return err
	}
	for name, loop := range map[string]func(ctx context.Context) error{
		"Hash":  func(ctx context.Context) error { _, err := Hash(ctx, b, nil); return err },
		"Stats": func(ctx context.Context) error { _, err := Stats(ctx, y, nil); return err },
		"Diff": func(ctx context.Context) error {
			_, err := Diff(ctx, fileOf(x), fileOf(x), nil)
			return err
		},
		"HashEach": func(ctx context.Context) error {
			return last(errorsOf(HashEach(ctx, slices.Values([]*tensor.Tensor{x}), nil)))
		},
		"StatsEach": func(ctx context.Context) error {
			return last(errorsOf(StatsEach(ctx, slices.Values([]*tensor.Tensor{y}), nil)))
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := loop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func errorsOf[T any](seq iter.Seq2[T, error]) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		for _, err := range seq {
			if !yield(err) {
				return
			}
		}
	}
}
