package rten

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestRewritingKeepsTheContent(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			r := openBytes(t, data)
			want := content(r)
			equalContent(t, "a copy without changes", patched(t, r, nil), want)
			was, other := "2", "1"
			if r.Version() == "1" {
				was, other = other, was
			}
			once := patched(t, r, &WriterOptions{Version: other})
			there := equalContent(t, "version "+other, once, want)
			if there.Version() != other {
				t.Errorf("version %s", there.Version())
			}
			back := equalContent(t, "there and back",
				patched(t, there, &WriterOptions{Version: was}), want)
			equalContent(t, "and there again", patched(t, back, &WriterOptions{Version: other}),
				want)
			if again := patched(t, r, &WriterOptions{Version: other}); !bytes.Equal(again, once) {
				t.Error("the same twice gives other bytes")
			}
			for _, align := range []int64{4, 256, 4096} {
				got := equalContent(t, fmt.Sprint("aligned to ", align),
					patched(t, r, &WriterOptions{Version: "2", Alignment: align}), want)
				for x := range got.Tensors() {
					st, _ := x.Data.Stored()
					if h, _ := got.Header(); st.Offset >= h.TensorOffset && st.Offset%align != 0 {
						t.Errorf("%s at %d", x.Name, st.Offset)
					}
				}
			}
			all := equalContent(t, "nothing inline",
				patched(t, r, &WriterOptions{Version: "2", InlineElements: -1}), want)
			for c := range all.Model().Constants() {
				if c.Inline() {
					t.Errorf("%s is inline", c.Tensor().Name)
				}
			}
			if !strings.Contains(name, "control") {
				return
			}
			if err := readtest.FailedWrites(func(w io.Writer) error {
				return NewEdit(r).Write(t.Context(), w, nil)
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// chain is y = Neg(x @ w), with w of 2 × 2.
func chain(t testing.TB) *Reader {
	g := NewGraphBuilder()
	x := g.Input("x", tensor.F32, Fixed(1), Fixed(2))
	m := g.Op("MatMul", nil, x,
		g.Constant(tensor.New("w", tensor.Shape{2, 2}, []float32{1, 2, 3, 4})))
	g.Output("y", g.Op("Neg", nil, m))
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	return openBytes(t, b.Bytes())
}

func TestRenamesApplyAtOnce(t *testing.T) {
	g := NewGraphBuilder()
	for _, name := range []string{"a", "b", "c"} {
		g.Output(name+"_out",
			g.Op("Neg", nil,
				g.Constant(tensor.New(name, tensor.Shape{1}, []float32{float32(name[0])}))))
	}
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, b.Bytes())
	got := openBytes(t, patched(t, r, nil,
		func(p *Edit) error { return p.Rename("a", "b") },
		func(p *Edit) error { return p.Rename("b", "a") }))
	if v, err := tensor.Load[float32](got.Tensor("a")); err != nil || v[0] != 'b' ||
		got.Tensor("b") == nil {
		t.Errorf("%v %v", v, err)
	}
	p := NewEdit(r)
	if err := errors.Join(p.Rename("a", "z"), p.Rename("b", "z")); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), &b, nil); !errors.Is(err, tensor.ErrDuplicate) {
		t.Errorf("one name for two: %v", err)
	}
}

func TestWriteEndsWithItsContext(t *testing.T) {
	r := chain(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewEdit(r).Write(ctx, &bytes.Buffer{}, nil); !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v", err)
	}
	name := filepath.Join(t.TempDir(), "m.rten")
	if err := NewEdit(r).WriteFile(ctx, name, nil); !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("a file appeared")
	}
}

func TestMetadataEditsAreWrittenInEveryVersion(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			r := openBytes(t, data)
			for _, version := range []string{"", "1", "2"} {
				got := openBytes(t, patched(t, r, &WriterOptions{Version: version},
					func(p *Edit) error { return p.SetAttribute("license", "Apache-2.0") },
					func(p *Edit) error {
						return p.SetAttribute("description",
							strings.Repeat("grün ", 1000))
					},
					func(p *Edit) error { return p.RemoveAttribute("onnx_hash") }))
				want := map[string]string{"license": "Apache-2.0",
					"description": strings.Repeat("grün ", 1000)}
				for k, v := range r.Attributes() {
					if want[k] == "" && k != "onnx_hash" {
						want[k] = v
					}
				}
				n := 0
				for k, v := range got.Attributes() {
					n++
					if want[k] != v {
						t.Errorf("%s is %.50q", k, v)
					}
				}
				if n != len(want) {
					t.Errorf("%d attributes, want %d", n, len(want))
				}
				_, a, _ := strings.Cut(content(got), "graph ")
				_, b, _ := strings.Cut(content(r), "graph ")
				if a != b {
					t.Error(firstDifference(a, b))
				}
				if _, err := got.Verify(t.Context(), nil); err != nil {
					t.Error(err)
				}
				gone := openBytes(t,
					patched(t, got, nil,
						func(p *Edit) error { return p.RemoveAttribute("license") },
						func(p *Edit) error { return p.RemoveAttribute("description") }))
				for k := range gone.Attributes() {
					if k == "license" || k == "description" {
						t.Errorf("%s is still there", k)
					}
				}
			}
		})
	}
	p := NewEdit(openBytes(t, golden(t, "convert-0.22.0-basic")))
	for _, err := range []error{p.SetAttribute("author", "me"), p.RemoveAttribute("author")} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
	if err := p.SetAttribute("license", "\xff"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func TestWeightsAreReplaced(t *testing.T) {
	for _, name := range []string{"convert-0.22.0-basic", "convert-0.22.0-basic-v1"} {
		data := golden(t, name)
		r := openBytes(t, data)
		for i := range r.Len() {
			old := r.Model().Constant(i).Tensor()
			raw, err := old.Data.ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for j := range raw {
				raw[j] ^= 0x55
			}
			fresh := *old
			fresh.Data = tensor.BlobOf(raw)
			for _, version := range []string{"", "1", "2"} {
				x := openBytes(t,
					patched(t, r, &WriterOptions{Version: version},
						func(p *Edit) error {
							return p.Replace(old.Name,
								&fresh)
						})).Model().Constant(i).Tensor()
				if b, err := x.Data.ReadAll(); err != nil || !bytes.Equal(b, raw) {
					t.Errorf("%s in version %q: %x %v", old.Name, version, b, err)
				}
			}
			if err := NewEdit(r).Replace(old.Name,
				tensor.New("", tensor.Shape{1, 1, 1}, []int8{1})); !errors.Is(err,
				errors.ErrUnsupported) {
				t.Errorf("another shape: %v", err)
			}
		}
		p := NewEdit(r)
		for _, err := range []error{p.Replace("absent", ramp(1)), p.Rename("absent", ""),
			p.Remove("absent")} {
			if !errors.Is(err, tensor.ErrNoTensor) {
				t.Errorf("got %v", err)
			}
		}
	}
}

func TestSharedWeightsAreWrittenOnce(t *testing.T) {
	g := NewGraphBuilder()
	shared := tensor.New("", tensor.Shape{20}, make([]float32, 20))
	g.Output("a", g.Op("Neg", nil, g.Constant(shared)))
	g.Output("b", g.Op("Neg", nil, g.Constant(shared)))
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, b.Bytes())
	first, _ := r.Model().Constant(0).Tensor().Data.Stored()
	second, _ := r.Model().Constant(1).Tensor().Data.Stored()
	if r.Len() != 2 || first != second {
		t.Fatalf("one tensor was stored twice: %+v %+v", first, second)
	}
	if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
		t.Error(err)
	}
	for _, opts := range []*WriterOptions{nil, {Version: "1"}, {Alignment: 1024}} {
		got := openBytes(t, patched(t, r, opts, func(p *Edit) error {
			return p.Replace("#0", ramp(20))
		}))
		for i, want := range []float32{2, 0} {
			if v, err := tensor.Load[float32](got.Model().Constant(i).Tensor()); err != nil ||
				v[19] != want {
				t.Errorf("constant %d: %v %v", i, v, err)
			}
		}
	}
}

func TestRenameAndRemoveRefuseWhatDoesNotFit(t *testing.T) {
	r := openBytes(t, golden(t, "convert-0.22.0-control"))
	write := func(change func(p *Edit) error) error {
		p := NewEdit(r)
		if err := change(p); err != nil {
			return err
		}
		return p.Write(t.Context(), io.Discard, nil)
	}
	if err := write(func(p *Edit) error { return p.Rename("trips", "x") }); !errors.Is(err,
		tensor.ErrDuplicate) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := write(func(p *Edit) error { return p.Rename("trips", "\xff") }); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
	if err := write(func(p *Edit) error { return p.Remove("trips") }); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	p := NewEdit(r)
	if err := p.Rename("trips", "how often"); err != nil {
		t.Fatal(err)
	}
	if err := p.Rename("nodes[6].else_branch/k", "nodes[6].else_branch/other"); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"k" nodes[6].else_branch/k`, `"other" nodes[6].else_branch/other`,
		`"trips"`, `"how often"`, "constant trips", "constant how often", " trips\n",
		" how often\n", `else_branch/k"`, `else_branch/other"`, "else_branch/k\n",
		"else_branch/other\n").Replace(content(r))
	for _, version := range []string{"", "1", "2"} {
		var b bytes.Buffer
		if err := p.Write(t.Context(), &b, &WriterOptions{Version: version}); err != nil {
			t.Fatal(err)
		}
		got := openBytes(t, b.Bytes())
		if got.Tensor("how often") == nil || got.Tensor("nodes[6].else_branch/other") == nil ||
			got.Tensor("trips") != nil {
			t.Errorf("version %q: not renamed", version)
		}
		if version == "" {
			equalContent(t, "renamed", b.Bytes(), want)
		}
	}

	g := NewGraphBuilder()
	for i := range 5 {
		g.Constant(tensor.New(fmt.Sprint("t", i), tensor.Shape{20}, make([]int32, 20)))
	}
	c := g.Constant(ramp(3)) // nameless
	g.Output("y", g.Op("Neg", nil, c))
	for _, opts := range []*WriterOptions{nil, {Version: "1"}} {
		var b bytes.Buffer
		if err := g.Write(t.Context(), &b, opts); err != nil {
			t.Fatal(err)
		}
		r := openBytes(t, b.Bytes())
		got := openBytes(t, patched(t, r, nil, func(p *Edit) error { return p.Remove("t1") },
			func(p *Edit) error { return p.Remove("t3") },
			func(p *Edit) error { return p.Rename("#5", "named") }))
		var names []string
		for x := range got.Tensors() {
			names = append(names, x.Name)
		}
		if fmt.Sprint(names) != "[t0 t2 t4 named]" {
			t.Errorf("%v", names)
		}
		op, ok := got.Model().Graph().Node(5).Operator()
		if !ok || fmt.Sprint(op.Inputs(), op.Outputs(),
			got.Model().Graph().Outputs()) != "[3] [4] [4]" {
			t.Errorf("%v %v", op.Inputs(), op.Outputs())
		}
		if _, err := got.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
			t.Error(err)
		}
	}
}

// TestErrorsBeginWithTheFormat: each error that is not about a byte of a file has one
// prefix.
func TestErrorsBeginWithTheFormat(t *testing.T) {
	r := openBytes(t, golden(t, "convert-0.22.0-basic"))
	first := r.Model().Constant(0).Tensor().Name
	e := NewEdit(r)
	for what, err := range map[string]error{
		"a name that is absent":      e.Remove("absent"),
		"a key that is unknown":      e.SetAttribute("absent", ""),
		"a value that is not UTF-8":  e.SetAttribute("license", "\xff"),
		"another dtype":              e.Replace(first, &tensor.Tensor{DType: tensor.F64}),
		"a version that is unknown":  NewWriter(io.Discard, &WriterOptions{Version: "3"}).Close(),
		"a key in a new model":       keyInNewModel(),
		"an alignment that is wrong": NewWriter(io.Discard, &WriterOptions{Alignment: 3}).Close(),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "rten: ") ||
			strings.Count(err.Error(), "rten: ") != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func keyInNewModel() error {
	g := NewGraphBuilder()
	g.SetMetadata("absent", "")
	return g.Err()
}
