package rten

import (
	"bytes"
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

func openBytes(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func patched(t testing.TB, r *Reader, opts *WriterOptions, edit ...func(p *Patch) error) []byte {
	t.Helper()
	p := NewPatch(r)
	for _, e := range edit {
		if err := e(p); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := p.Write(&b, opts); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func goldens(t testing.TB) map[string][]byte {
	files := make(map[string][]byte)
	for _, f := range referenceFiles(t) {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		b, err := os.ReadFile(strings.TrimSuffix(f, ".json") + ".rten")
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

func equalContent(t testing.TB, what string, got []byte, want string) *Reader {
	t.Helper()
	r, err := OpenBytes(got, nil)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if c := content(r); c != want {
		t.Errorf("%s differs: %s", what, firstDifference(c, want))
	}
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return r
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d:\n%.300s\nwant\n%.300s", i, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

func TestRewriting(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			r := openBytes(t, data)
			want := content(r)
			if !bytes.Equal(patched(t, r, nil), data) {
				t.Error("a copy without changes has other bytes")
			}
			other := 1
			if r.Version() == "1" {
				other = 2
			}
			once := patched(t, r, &WriterOptions{Version: other})
			there := equalContent(t, fmt.Sprint("version ", other), once, want)
			if there.Version() != fmt.Sprint(other) {
				t.Errorf("version %s", there.Version())
			}
			back := equalContent(t, "there and back", patched(t, there, &WriterOptions{Version: 3 - other}), want)
			equalContent(t, "and there again", patched(t, back, &WriterOptions{Version: other}), want)
			if again := patched(t, r, &WriterOptions{Version: other}); !bytes.Equal(again, once) {
				t.Error("the same twice gives other bytes")
			}
			for _, align := range []int64{4, 256, 4096} {
				got := equalContent(t, fmt.Sprint("aligned to ", align), patched(t, r, &WriterOptions{Version: 2, Align: align}), want)
				for x := range got.Tensors() {
					st, _ := x.Data.Stored()
					if h, _ := got.Header(); st.Offset >= h.TensorOffset && st.Offset%align != 0 {
						t.Errorf("%s at %d", x.Name, st.Offset)
					}
				}
			}
			all := equalContent(t, "nothing inline", patched(t, r, &WriterOptions{Version: 2, InlineElements: -1}), want)
			for c := range all.Model().Constants() {
				if c.Inline() {
					t.Errorf("%s is inline", c.Tensor().Name)
				}
			}
			if !strings.Contains(name, "control") {
				return
			}
			if err := readtest.FailedWrites(func(w io.Writer) error { return NewPatch(r).Write(w, nil) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMetadataEdits(t *testing.T) {
	for name, data := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			r := openBytes(t, data)
			for _, version := range []int{0, 1, 2} {
				got := openBytes(t, patched(t, r, &WriterOptions{Version: version},
					func(p *Patch) error { return p.SetMetadata("license", "Apache-2.0") },
					func(p *Patch) error { return p.SetMetadata("description", strings.Repeat("grün ", 1000)) },
					func(p *Patch) error { return p.RemoveMetadata("onnx_hash") }))
				want := map[string]string{"license": "Apache-2.0", "description": strings.Repeat("grün ", 1000)}
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
				for x := range r.Tensors() {
					y := got.Tensor(x.Name)
					if s, _ := y.Data.Stored(); s.Offset%64 != 0 && version == 0 {
						if old, _ := x.Data.Stored(); old.Offset%64 == 0 && old.Offset > r.header.ModelOffset+r.header.ModelSize && r.v2 {
							t.Errorf("%s moved from %d to %d", x.Name, old.Offset, s.Offset)
						}
					}
				}
				if err := got.Verify(t.Context(), nil); err != nil {
					t.Error(err)
				}
				gone := openBytes(t, patched(t, got, nil, func(p *Patch) error { return p.RemoveMetadata("license") }, func(p *Patch) error { return p.RemoveMetadata("description") }))
				for k := range gone.Attributes() {
					if k == "license" || k == "description" {
						t.Errorf("%s is still there", k)
					}
				}
			}
		})
	}
	p := NewPatch(openBytes(t, golden(t, "convert-0.22.0-basic")))
	for _, err := range []error{p.SetMetadata("author", "me"), p.RemoveMetadata("author")} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	}
	if err := p.SetMetadata("license", "\xff"); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("got %v", err)
	}
}

func TestWeightsReplacedInPlace(t *testing.T) {
	for _, name := range []string{"convert-0.22.0-basic", "convert-0.22.0-basic-v1"} {
		data := golden(t, name)
		r := openBytes(t, data)
		for i := range r.Len() {
			old := r.At(i)
			raw, err := old.Data.ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for j := range raw {
				raw[j] ^= 0x55
			}
			fresh := *old
			fresh.Data = tensor.BlobOf(raw)
			got := patched(t, r, nil, func(p *Patch) error { return p.Set(i, &fresh) })
			if len(got) != len(data) {
				t.Fatalf("%s: %d bytes, were %d", old.Name, len(got), len(data))
			}
			st, _ := old.Data.Stored()
			for j := range got {
				inside := int64(j) >= st.Offset && int64(j) < st.Offset+st.Size
				if want := data[j] ^ map[bool]byte{true: 0x55}[inside]; got[j] != want {
					t.Fatalf("%s: byte %d is %#x, want %#x", old.Name, j, got[j], want)
				}
			}
			for _, version := range []int{1, 2} {
				x := openBytes(t, patched(t, r, &WriterOptions{Version: version}, func(p *Patch) error { return p.Set(i, &fresh) })).At(i)
				if b, err := x.Data.ReadAll(); err != nil || !bytes.Equal(b, raw) {
					t.Errorf("%s in version %d: %x %v", old.Name, version, b, err)
				}
			}
			if err := NewPatch(r).Set(i, tensor.New("", tensor.Shape{1, 1, 1}, []int8{1})); !errors.Is(err, tensor.ErrDType) {
				t.Errorf("another shape: %v", err)
			}
		}
		p := NewPatch(r)
		for _, i := range []int{-1, r.Len()} {
			if p.Set(i, ramp(1)) == nil || p.Rename(i, "") == nil || p.Drop(i) == nil {
				t.Errorf("constant %d", i)
			}
		}
	}
}

func TestSharedWeights(t *testing.T) {
	g := NewGraphBuilder()
	shared := tensor.New("", tensor.Shape{20}, make([]float32, 20))
	g.Output("a", g.Op("Neg", nil, g.Constant(shared)))
	g.Output("b", g.Op("Neg", nil, g.Constant(shared)))
	var b bytes.Buffer
	if err := Write(&b, g, nil); err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, b.Bytes())
	first, _ := r.At(0).Data.Stored()
	second, _ := r.At(1).Data.Stored()
	if r.Len() != 2 || first != second {
		t.Fatalf("one tensor was stored twice: %+v %+v", first, second)
	}
	if err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
		t.Error(err)
	}
	p := NewPatch(r)
	fresh := ramp(20)
	if err := p.Set(0, fresh); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), `"#3"`) {
		t.Errorf("got %v", err)
	}
	p.AllowShared = true
	if err := p.Set(0, fresh); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []*WriterOptions{nil, {Version: 1}, {Align: 1024}} {
		var copied bytes.Buffer
		if err := p.Write(&copied, opts); err != nil {
			t.Fatal(err)
		}
		got := openBytes(t, copied.Bytes())
		for i := range 2 {
			if v, err := tensor.Load[float32](got.At(i)); err != nil || v[19] != 2 {
				t.Errorf("%v %v", v, err)
			}
		}
	}
}

func TestRenameAndDrop(t *testing.T) {
	r := openBytes(t, golden(t, "convert-0.22.0-control"))
	p := NewPatch(r)
	index := func(name string) int {
		for i := range r.Len() {
			if r.At(i).Name == name {
				return i
			}
		}
		t.Fatal(name)
		return 0
	}
	if err := p.Rename(index("trips"), "how often"); err != nil {
		t.Fatal(err)
	}
	if err := p.Rename(index("nodes[6].else_branch/k"), "other"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "\xff"} {
		if err := p.Rename(index("trips"), name); err == nil {
			t.Errorf("renamed to %q", name)
		}
	}
	if err := p.Drop(index("trips")); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "Loop") {
		t.Errorf("got %v", err)
	}
	want := strings.NewReplacer(`"k" nodes[6].else_branch/k`, `"other" nodes[6].else_branch/other`, `"trips"`, `"how often"`, "constant trips", "constant how often", " trips\n", " how often\n", `else_branch/k"`, `else_branch/other"`, "else_branch/k\n", "else_branch/other\n").Replace(content(r))
	for _, version := range []int{0, 1, 2} {
		var b bytes.Buffer
		if err := p.Write(&b, &WriterOptions{Version: version}); err != nil {
			t.Fatal(err)
		}
		got := openBytes(t, b.Bytes())
		if got.Tensor("how often") == nil || got.Tensor("nodes[6].else_branch/other") == nil || got.Tensor("trips") != nil {
			t.Errorf("version %d: not renamed", version)
		}
		if version == 0 {
			equalContent(t, "renamed", b.Bytes(), want)
		}
	}

	g := NewGraphBuilder()
	for i := range 5 {
		g.Constant(tensor.New(fmt.Sprint("t", i), tensor.Shape{20}, make([]int32, 20)))
	}
	c := g.Constant(ramp(3)) // nameless
	g.Output("y", g.Op("Neg", nil, c))
	for _, opts := range []*WriterOptions{nil, {Version: 1}} {
		var b bytes.Buffer
		if err := Write(&b, g, opts); err != nil {
			t.Fatal(err)
		}
		r := openBytes(t, b.Bytes())
		got := openBytes(t, patched(t, r, nil, func(p *Patch) error { return p.Drop(1) }, func(p *Patch) error { return p.Drop(3) }, func(p *Patch) error { return p.Rename(5, "named") }))
		var names []string
		for x := range got.Tensors() {
			names = append(names, x.Name)
		}
		if fmt.Sprint(names) != "[t0 t2 t4 named]" {
			t.Errorf("%v", names)
		}
		op, ok := got.Model().Graph().Node(5).Operator()
		if !ok || fmt.Sprint(op.Inputs(), op.Outputs(), got.Model().Graph().Outputs()) != "[3] [4] [4]" {
			t.Errorf("%v %v", op.Inputs(), op.Outputs())
		}
		if err := got.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
			t.Error(err)
		}
	}
}

// TestChangesCostTheSameEach counts visits of nodes and ranges, for 10 and 100 times
// as many changes.
func TestChangesCostTheSameEach(t *testing.T) {
	steps := func(n int, change func(p *Patch, i int, old *tensor.Tensor) error) float64 {
		p := NewPatch(openBytes(t, manyConstants(t, n)))
		i := 0
		for x := range p.r.Tensors() {
			if err := change(p, i, x); err != nil {
				t.Fatal(err)
			}
			i++
		}
		for _, version := range []int{1, 2} {
			if err := p.Write(io.Discard, &WriterOptions{Version: version}); err != nil {
				t.Fatal(err)
			}
		}
		return float64(p.made.steps+p.sectionSteps) / float64(n)
	}
	for name, change := range map[string]func(p *Patch, i int, old *tensor.Tensor) error{
		"set":    func(p *Patch, i int, old *tensor.Tensor) error { return p.Set(i, old) },
		"rename": func(p *Patch, i int, old *tensor.Tensor) error { return p.Rename(i, old.Name+"'") },
		"drop":   func(p *Patch, i int, _ *tensor.Tensor) error { return p.Drop(i) },
	} {
		t.Run(name, func(t *testing.T) {
			one := steps(1000, change)
			for _, n := range []int{10_000, 100_000} {
				if got := steps(n, change); got > 2*one {
					t.Errorf("%d constants: %.1f steps each, of 1,000 %.1f", n, got, one)
				}
			}
		})
	}
}
