package primitiv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

func scalar(name string, v float32) *tensor.Tensor { return tensor.New(name, nil, []float32{v}) }

// bytesOf writes a file of that kind through do.
func bytesOf(t testing.TB, opts *primitiv.WriterOptions,
	do func(w *primitiv.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	w := primitiv.NewWriter(&b, opts)
	if err := do(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestEveryKindIsWritten(t *testing.T) {
	// Examples written by hand, byte for byte; the reference has no code for the first
	// two kinds.
	shape := bytesOf(t, &primitiv.WriterOptions{Kind: primitiv.KindShape},
		func(w *primitiv.Writer) error {
			return w.SetShape(primitiv.Shape{Dims: []uint32{2, 3, 1}, Batch: 1})
		})
	if want := join(head(0x000), "\x92", 2, 3, 1); !bytes.Equal(shape, want) {
		t.Errorf("shape: %x", shape)
	}
	if r := open(t, shape); r.Kind() != primitiv.KindShape || r.Shape().String() != "[2,3]x1" ||
		r.Len() != 0 {
		t.Errorf("%v %v", r.Kind(), r.Shape())
	}
	x := tensor.New("any", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	x.Order = tensor.ColumnMajor(2)
	data := bytesOf(t, &primitiv.WriterOptions{Kind: primitiv.KindTensor},
		func(w *primitiv.Writer) error { return w.Add(x) })
	if want := join(head(0x100), "\x92", 2, 3, 1,
		"\xc4\x18\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x00\x00\xc0@"); !bytes.Equal(data, want) {
		t.Errorf("tensor: %x", data)
	}
	x.Shape, x.Order = tensor.Shape{1, 2, 3}, tensor.ColumnMajor(3)
	data = bytesOf(t, &primitiv.WriterOptions{Kind: primitiv.KindTensor, Batch: 3},
		func(w *primitiv.Writer) error { return w.Add(x) })
	r := open(t, data)
	if r.Shape().String() != "[1,2]x3" || names(r) != "tensor[1, 2, 3]" ||
		!bytes.Equal(copyOf(t, r, primitiv.WriterOptions{}), data) {
		t.Errorf("%v %s", r.Shape(), names(r))
	}
	data = bytesOf(t, nil, func(*primitiv.Writer) error { return nil })
	if !bytes.Equal(data, join(head(0x300), 0)) {
		t.Errorf("an empty model: %x", data)
	}
}

// Tensors from anywhere are placed by their names.
func TestAddPlacesTensorsByTheirNames(t *testing.T) {
	add := []*tensor.Tensor{scalar("b:0:m", 1), scalar("w:0", 2), scalar("a.w", 3),
		scalar("a.w:Adam.m1", 4), scalar("b:0", 5), scalar("a.w:x:y", 6)}
	data := bytesOf(t, nil, func(w *primitiv.Writer) error {
		return w.AddAll(t.Context(), tensor.Of(add...))
	})
	r := open(t, data)
	if got := names(r); got != "a.w[] a.w:Adam.m1[] a.w:x:y[] b:0[] b:0:m[] w:0[]" {
		t.Error(got)
	}
	if p := r.Parameter("a", "w"); p == nil || len(p.Stats) != 2 || r.Parameter("a.w") != nil {
		t.Errorf("%+v", p)
	}
	// From a Reader they go where they were, dots in names or not, unless they are
	// renamed.
	files, _ := goldens(t)
	r = open(t, files["model-unicode.primitiv"])
	var list []*tensor.Tensor
	for x := range r.Tensors() {
		if c := *x; c.Name == "sm.p" && x.Shape.Equal(tensor.Shape{}) {
			c.Name = "renamed.p"
			x = &c
		}
		list = append(list, x)
	}
	r = open(t, bytesOf(t, nil,
		func(w *primitiv.Writer) error { return w.AddAll(t.Context(), tensor.Of(list...)) }))
	if r.Parameter("renamed", "p") == nil || r.Parameter("sm.p") != nil ||
		r.Parameter("sm", "p") == nil {
		t.Error(names(r))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := primitiv.NewWriter(io.Discard, nil).AddAll(ctx, tensor.Of(add...)); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}

func TestRowMajorIsReorderedOnlyWhenAsked(t *testing.T) {
	x := tensor.New("x", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	if err := primitiv.NewWriter(io.Discard, nil).Add(x); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	r := open(t, bytesOf(t, &primitiv.WriterOptions{Reorder: true},
		func(w *primitiv.Writer) error { return w.Add(x) }))
	if v, err := tensor.Convert[float32](r.Tensor("x")); err != nil ||
		!slices.Equal(v, []float32{1, 2, 3, 4, 5, 6}) {
		t.Error(v, err)
	}
	if v, _ := tensor.Load[float32](r.Tensor("x")); !slices.Equal(v, []float32{1, 4, 2, 5, 3, 6}) {
		t.Error(v)
	}
	x.Shape = tensor.Shape{1, 6, 1} // both orders at once
	if err := primitiv.NewWriter(io.Discard, nil).Add(x); err != nil {
		t.Error(err)
	}
}

// TestCheckRefusesWhatAddRefuses: also where the kind of the file is the reason.
func TestCheckRefusesWhatAddRefuses(t *testing.T) {
	batched := tensor.New("x", tensor.Shape{2}, []float32{1, 2})
	x := scalar("x", 1)
	type options = primitiv.WriterOptions
	for name, c := range map[string]struct {
		opts  options
		first bool
		t     *tensor.Tensor
	}{
		"a shape file":        {options{Kind: primitiv.KindShape}, false, x},
		"an optimizer file":   {options{Kind: primitiv.KindOptimizer}, false, x},
		"a second tensor":     {options{Kind: primitiv.KindTensor}, true, scalar("y", 1)},
		"another batch":       {options{Kind: primitiv.KindTensor, Batch: 3}, false, batched},
		"a batch":             {options{Kind: primitiv.KindTensor, Batch: 2}, false, batched},
		"a tensor of a model": {options{}, false, x},
	} {
		w := primitiv.NewWriter(io.Discard, &c.opts)
		if c.first {
			if err := w.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		checked, added := w.Check(c.t), w.Add(c.t)
		if fmt.Sprint(checked) != fmt.Sprint(added) {
			t.Errorf("%s: Check: %v; Add: %v", name, checked, added)
		}
	}
}

func TestAddRefusesWhatTheFormatCannotHold(t *testing.T) {
	huge := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{1 << 30},
		Data: tensor.BlobFunc(4<<30,
			func() (io.ReadCloser, error) { return nil, errors.New("not read") })}
	for what, c := range map[string]struct {
		t     *tensor.Tensor
		class error
	}{
		"float64": {tensor.New("x", tensor.Shape{1}, []float64{1}), errors.ErrUnsupported},
		"no size": {&tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{1},
			Data: tensor.BlobFunc(-1,
				func() (io.ReadCloser,
					error) {
					return io.NopCloser(bytes.NewReader(make([]byte, 4))), nil
				})}, errors.ErrUnsupported},
		"rank 9": {tensor.New("x", tensor.Shape{1, 1, 1, 1, 1, 1, 1, 1, 2}, []float32{1, 2}),
			errors.ErrUnsupported},
		"empty":      {tensor.New("x", tensor.Shape{0}, []float32{}), errors.ErrUnsupported},
		"2^30":       {huge, errors.ErrUnsupported},
		"short data": {tensor.New("x", tensor.Shape{3}, []float32{1, 2}), tensor.ErrMalformed},
		"sparse": {&tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{1},
			Scheme: "sparse_csr"}, errors.ErrUnsupported},
		"external": {&tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{1},
			External: true}, errors.ErrUnsupported},
		"nil": {nil, tensor.ErrNoTensor},
		"nine, eight": {tensor.New("x", tensor.Shape{2, 1, 1, 1, 1, 1, 1, 1, 1}, []float32{1, 2}),
			nil},
	} {
		if err := primitiv.NewWriter(io.Discard,
			&primitiv.WriterOptions{Reorder: true}).Add(c.t); !errors.Is(err, c.class) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p := func(path ...string) primitiv.Parameter {
		return primitiv.Parameter{Path: path, Value: scalar("", 1)}
	}
	stats := p("a")
	stats.Stats = []primitiv.Statistic{{Name: "m", Tensor: scalar("", 1)},
		{Name: "m", Tensor: scalar("", 2)}}
	for what, c := range map[string]struct {
		m    parameters
		want error
	}{
		"twice":            {parameters{p("a"), p("b"), p("a")}, tensor.ErrDuplicate},
		"below":            {parameters{p("a", "b"), p("a"), p("a!")}, tensor.ErrDuplicate},
		"no path":          {parameters{p()}, fs.ErrInvalid},
		"statistics twice": {parameters{stats}, tensor.ErrDuplicate},
	} {
		if err := c.m.Write(io.Discard, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, o := range []primitiv.WriterOptions{{Kind: 9}, {Batch: 2}} {
		if err := primitiv.NewWriter(io.Discard, &o).Close(); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The disk fails at every byte, the data is shorter or longer than promised; a file
// appears whole or not at all.
func TestWriterFailsAtEveryByte(t *testing.T) {
	files, _ := goldens(t)
	r := open(t, files["model-nested.primitiv"])
	if err := readtest.FailedWrites(func(w io.Writer) error {
		return parametersOf(r).Write(w, nil)
	}); err != nil {
		t.Error(err)
	}
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 3, 5, 200_000} {
		bad := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{25_000},
			Data: tensor.BlobFunc(100_000,
				func() (io.ReadCloser,
					error) {
					return io.NopCloser(bytes.NewReader(make([]byte, n))), nil
				})}
		if err := primitiv.WriteFile(t.Context(), name, tensor.Of(scalar("a", 1), bad),
			nil); err == nil {
			t.Errorf("%d bytes in place of 100000", n)
		}
	}
	for what, open := range map[string]func() (io.ReadCloser, error){
		"panics": func() (io.ReadCloser, error) { panic("in a source") },
		"fails":  func() (io.ReadCloser, error) { return nil, readtest.ErrInjected },
	} {
		bad := &tensor.Tensor{Name: "x", DType: tensor.F32, Shape: tensor.Shape{1},
			Data: tensor.BlobFunc(4, open)}
		func() {
			defer func() { recover() }()
			if err := primitiv.WriteFile(t.Context(), name, tensor.Of(scalar("a", 1), bad),
				nil); err == nil {
				t.Errorf("a source that %s", what)
			}
		}()
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := primitiv.Create(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddAll(ctx, func(yield func(*tensor.Tensor, error) bool) {
		for i := 0; yield(scalar(fmt.Sprint(i), 1), nil); i++ {
			if i == 10 {
				cancel()
			}
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	w.Abort()
	if w, err = primitiv.Create(name, nil); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if err := w.Add(scalar("a", 1)); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close after Abort: %v", err)
	}
	if b, _ := os.ReadFile(name); string(b) != "before" {
		t.Errorf("%q", b)
	}
	if left, _ := os.ReadDir(filepath.Dir(name)); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

// NoReplace keeps a file that is there; the last call of Progress has all bytes of the
// file.
func TestNoReplaceKeepsTheFileAndProgressReachesTheTotal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	var done, total int64
	opts := &primitiv.WriterOptions{NoReplace: true,
		Progress: func(d, t int64) { done, total = d, t }}
	if err := primitiv.WriteFile(t.Context(), name, tensor.Of(scalar("a", 1), scalar("b", 2)),
		opts); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || done != total || total != info.Size() {
		t.Errorf("%d of %d bytes; %v, %v", done, total, info, err)
	}
	if _, err := primitiv.Create(name, opts); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that exists: %v", err)
	}
	r, err := primitiv.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := primitiv.NewEdit(r).WriteFile(t.Context(), name, opts); !errors.Is(err,
		fs.ErrExist) {
		t.Errorf("WriteFile of an Edit: %v", err)
	}
}

func TestSettingsOfOptimizersAreSet(t *testing.T) {
	files, _ := goldens(t)
	o := open(t, files["optimizer-Adam-default.primitiv"]).Optimizer()
	if err := errors.Join(o.Set(primitiv.Epoch, "7"), o.Set("Adam.eps", "1e-6"),
		o.Set("mine", "2")); err != nil {
		t.Fatal(err)
	}
	if o.Set(primitiv.Epoch, "-1") == nil || o.Set("Adam.eps", "much") == nil ||
		!o.Remove("Adam.beta1") || o.Remove("Adam.beta1") {
		t.Error("settings")
	}
	if o.Uints[0].Value != 7 || len(o.Floats) != 7 || o.Name() != "Adam" {
		t.Errorf("%+v", o)
	}
}

// One small read a tensor, and no byte of a payload that is not next to a header.
func TestListingTakesOneSmallReadATensor(t *testing.T) {
	var m parameters
	for i := range 20 {
		m = append(m, primitiv.Parameter{Path: []string{fmt.Sprintf("p%02d", i)},
			Value: tensor.New("", tensor.Shape{50_000}, make([]float32, 50_000))})
	}
	data := written(t, m, nil)
	c := readtest.NewCounter(data)
	r, err := primitiv.NewReader(c, int64(len(data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Calls(); n > 1+r.Len() || c.Bytes() > int64(n)*4096 {
		t.Errorf("%d reads of %d bytes for %d tensors", n, c.Bytes(), r.Len())
	}
}
