package rten

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files. More are in helpers_raw_test.go (models made by
// hand) and helpers_calls_test.go (a call of each operator).

// refuse opens a file in every form and requires the class of error.
func refuse(t *testing.T, what string, file []byte, class error) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		api.Same(t, file, func(r *Reader) string {
			t.Error("accepted")
			return ""
		})
		r, err := OpenBytes(file, nil)
		if err == nil {
			r.Close()
			return
		}
		var fe *tensor.FormatError
		if !errors.Is(err, class) || !errors.As(err, &fe) || fe.Format != "rten" {
			t.Errorf("%v is not %v", err, class)
		}
	})
}

func openBytes(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func patched(t testing.TB, r *Reader, opts *WriterOptions, edit ...func(p *Edit) error) []byte {
	t.Helper()
	p := NewEdit(r)
	for _, e := range edit {
		if err := e(p); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := p.Write(t.Context(), &b, opts); err != nil {
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

// nest is a model of n Ifs, one in the other; both branches are the same graph.
func nest(n int) []byte {
	var b raw
	graph := b.graph(nil, nil, nil, nil)
	for range n {
		b.Begin()
		b.Ref(rtenfb.SlotIfAttrsThenBranch, graph)
		b.Ref(rtenfb.SlotIfAttrsElseBranch, graph)
		graph = b.graph([]fb.Offset{b.operator(OpIf, int(rtenfb.OperatorAttrsIfAttrs), b.End(),
			nil, nil)}, nil, nil, nil)
	}
	return b.model(graph, 1)
}

// loops is a model of n Loops, one in the other.
func loops(n int) []byte {
	var b raw
	graph := b.graph(nil, nil, nil, nil)
	for range n {
		b.Begin()
		b.Ref(rtenfb.SlotLoopAttrsBody, graph)
		graph = b.graph([]fb.Offset{b.operator(OpLoop, int(rtenfb.OperatorAttrsLoopAttrs), b.End(),
			nil, nil)}, nil, nil, nil)
	}
	return b.model(graph, 1)
}

func ramp(shape ...int64) *tensor.Tensor { // 0.1, 0.2, …
	s := tensor.Shape(shape)
	n, _ := s.Elements()
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i+1) / 10
	}
	return tensor.New("", s, v)
}

func i32(v ...int32) *tensor.Tensor { return tensor.New("", tensor.Shape{int64(len(v))}, v) }

func f0(v float32) *tensor.Tensor { return tensor.New("", nil, []float32{v}) }

func i8(shape tensor.Shape, v ...int8) *tensor.Tensor { return tensor.New("", shape, v) }

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/rten/" + name + ".rten")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// describe walks everything that a reader has and writes it down.
func describe(r *Reader) string {
	h, v2 := r.Header()
	var b strings.Builder
	fmt.Fprintln(&b, r.Version(), h, v2, r.Size(), r.Len(), r.Warnings())
	for x := range r.Tensors() {
		st, _ := x.Data.Stored()
		fmt.Fprintf(&b, "%q %+v\n", x.Name, st)
	}
	return b.String() + content(r)
}

// content is what a file says, wherever it stands.
func content(r *Reader) string {
	var b strings.Builder
	for k, v := range r.Attributes() {
		fmt.Fprintf(&b, "%s=%q\n", k, v)
	}
	for x := range r.Tensors() {
		data, err := x.Data.ReadAll()
		fmt.Fprintf(&b, "%q %v %v %x %v\n", x.Name, x.DType, x.Shape, data, err)
	}
	for g := range r.Model().Graphs() {
		up, owner := g.Up()
		fmt.Fprintf(&b, "graph %q in %v (owner %d): %v %v %v\n", g.Path(), up != nil,
			owner.Index(), g.Inputs(), g.Outputs(), g.Captures())
		for n := range g.Nodes() {
			fmt.Fprintf(&b, "%d %v %q", n.Index(), n.Kind(), n.Label())
			if c, ok := n.Constant(); ok {
				fmt.Fprint(&b, " ", c.Tensor().Name)
			}
			if v, ok := n.Value(); ok {
				dims, ranked := v.Shape()
				d, typed := v.DType()
				fmt.Fprint(&b, dims, ranked, d, typed)
			}
			if op, ok := n.Operator(); ok {
				fmt.Fprint(&b, op.Type(), op.Inputs(), op.Outputs(), op.AttrsTable())
				for a := range op.Attributes() {
					if g, ok := a.Value.(*Graph); ok {
						a.Value = g.Path()
					}
					fmt.Fprintf(&b, " %s=%v(%v)", a.Name, a.Value, a.Set)
				}
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

// manyConstants is a version 2 file of n constants of 20 elements.
func manyConstants(t testing.TB, n int) []byte {
	var b fb.Builder
	nodes := make([]fb.Offset, n)
	for i := n - 1; i >= 0; i-- {
		name := b.String(fmt.Sprintf("model.layers.%d.weight", i))
		shape := b.Scalars([]byte{4, 0, 0, 0, 5, 0, 0, 0}, 4, 4)
		b.Begin()
		b.Scalar(rtenfb.SlotConstantNodeDataOffset, 8, uint64(i)*128, 1<<63)
		b.Ref(rtenfb.SlotConstantNodeShape, shape)
		b.Scalar(rtenfb.SlotConstantNodeDtype, 2, 1, 99)
		c := b.End()
		b.Begin()
		b.Ref(rtenfb.SlotNodeName, name)
		b.Ref(rtenfb.SlotNodeData, c)
		b.Scalar(rtenfb.SlotNodeDataType, 1, uint64(ConstantNode), 0)
		nodes[i] = b.End()
	}
	list := b.Offsets(nodes)
	b.Begin()
	b.Ref(rtenfb.SlotGraphNodes, list)
	g := b.End()
	b.Begin()
	b.Scalar(4, 4, 1, 0)
	b.Ref(rtenfb.SlotModelGraph, g)
	buf, err := b.Finish(b.End(), "")
	if err != nil {
		t.Fatal(err)
	}
	h := Header{32, int64(len(buf)), (32 + int64(len(buf)) + 63) / 64 * 64}
	file := append(h.append(nil), buf...)
	file = append(file, make([]byte, h.TensorOffset-int64(len(file)))...)
	return append(file, make([]byte, n*128)...)
}

// referenceFiles are the models that upstream's tools made, each with what the
// converter's own bindings read from it. RTEN_REFERENCE names a directory with more
// of them: interop/rten.sh makes it.
func referenceFiles(t testing.TB) []string {
	files, err := filepath.Glob("../testdata/rten/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("only %d files: %v", len(files), err)
	}
	if dir := os.Getenv("RTEN_REFERENCE"); dir != "" {
		rest, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(rest) < 10 {
			t.Fatalf("only %d files in %s: %v", len(rest), dir, err)
		}
		files = append(files, rest...)
	}
	return files
}

func writeModel(t testing.TB, g *GraphBuilder, opts *WriterOptions) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "model.rten")
	if err := g.WriteFile(t.Context(), name, opts); err != nil {
		t.Fatal(err)
	}
	return name
}

// walk opens a file and reads everything in it.
func walk(b []byte) error {
	r, err := OpenBytes(b, &ReaderOptions{Limits: tensor.Limits{MaxMetadata: maxModel}})
	if err != nil {
		return err
	}
	defer r.Close()
	_ = describe(r)
	r.Model().Requires()
	_, err = r.Verify(context.Background(), nil)
	return err
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
	if _, err := r.Verify(t.Context(), nil); err != nil {
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

var api = readtest.API[*Reader]{
	Open: func(name string, noMap bool) (*Reader, error) {
		return Open(name, &ReaderOptions{NoMap: noMap})
	},
	OpenBytes: func(b []byte) (*Reader, error) { return OpenBytes(b, nil) },
	NewReader: func(r io.ReaderAt, size int64) (*Reader, error) { return NewReader(r, size, nil) },
}

// rtenproof runs a model in the rten crate and returns what it prints of the
// outputs. RTENPROOF names the program: interop/tools.sh rtenproof makes it.
func rtenproof(t testing.TB, file string, inputs ...string) (string, error) {
	t.Helper()
	tool := os.Getenv("RTENPROOF")
	if tool == "" {
		t.Skip("skip: RTENPROOF does not name the program that interop/tools.sh rtenproof makes")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(tool, append([]string{file}, inputs...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	_, outputs, _ := strings.Cut(stdout.String(), "\n")
	return outputs, err
}

var layouts = map[string]*WriterOptions{
	"2":              nil,
	"1":              {Version: "1"},
	"2, all outside": {InlineElements: -1, Alignment: 4096},
	"2, all inline":  {InlineElements: 1 << 30},
}
