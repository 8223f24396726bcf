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

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/tensor"
)

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

// formula is a graph as calls of its operators.
func formula(r *Reader) string {
	g := r.Model().Graph()
	var list []string
	for n := range g.Nodes() {
		op, ok := n.Operator()
		if !ok {
			continue
		}
		var in []string
		for _, i := range op.Inputs() {
			in = append(in, g.Node(i).Label())
		}
		list = append(list, fmt.Sprintf("%s=%v(%s)", g.Node(op.Outputs()[0]).Label(), op.Type(),
			strings.Join(in, ",")))
	}
	for _, i := range g.Outputs() {
		list = append(list, "return "+g.Node(i).Label())
	}
	return strings.Join(list, " ")
}

var operatorEdits = []struct {
	name string
	edit func(e *Edit, g *Graph) error
	want string
	runs string // what RTen computes for x = [1, 1]
}{
	{"after a result", func(e *Edit, g *Graph) error {
		y, _ := g.Lookup("y")
		return e.InsertAfter(y, "Clip", nil, tensor.New("low", nil, []float32{-5}))
	}, "MatMul_2=MatMul(x,w) y_Clip=Neg(MatMul_2) y=Clip(y_Clip,low) return y", "[-4.0, -5.0]"},
	{"twice after one", func(e *Edit, g *Graph) error {
		y, _ := g.Lookup("y")
		return errors.Join(e.InsertAfter(y, "Abs", nil), e.InsertAfter(y, "Neg", nil))
	}, "MatMul_2=MatMul(x,w) y_Abs=Neg(MatMul_2) y_Neg=Abs(y_Abs) y=Neg(y_Neg) return y",
		"[-4.0, -6.0]"},
	{"after an input", func(e *Edit, g *Graph) error {
		x, _ := g.Lookup("x")
		return e.InsertAfter(x, "Add", nil, tensor.New("one", nil, []float32{1}))
	}, "x_Add=Add(x,one) MatMul_2=MatMul(x_Add,w) y=Neg(MatMul_2) return y", "[-8.0, -12.0]"},
	{"after a constant", func(e *Edit, g *Graph) error {
		w, _ := g.Lookup("w")
		return e.InsertAfter(w, "Transpose", Attrs{"perm": []int{1, 0}})
	}, "w_Transpose=Transpose(w) MatMul_2=MatMul(x,w_Transpose) y=Neg(MatMul_2) return y",
		"[-3.0, -7.0]"},
	{"the last removed", func(e *Edit, g *Graph) error {
		y, _ := g.Lookup("y")
		op, _ := y.Producer()
		return e.RemoveOperator(op)
	}, "y=MatMul(x,w) return y", "[4.0, 6.0]"},
	{"the first removed, and its weights", func(e *Edit, g *Graph) error {
		w, _ := g.Lookup("w")
		for op := range w.Consumers() {
			return errors.Join(e.RemoveOperator(op), e.Remove("w"))
		}
		return errors.New("no consumer")
	}, "y=Neg(x) return y", "[-1.0, -1.0]"},
	{"replaced", func(e *Edit, g *Graph) error {
		w, _ := g.Lookup("w")
		y, _ := g.Lookup("y")
		op, _ := y.Producer()
		return errors.Join(e.RemoveOperator(op), e.InsertAfter(w, "Neg", nil),
			e.SetAttribute("license", "MIT"),
			e.Replace("w", tensor.New("", tensor.Shape{2, 2}, []float32{1, 1, 1, 2})))
	}, "w_Neg=Neg(w) y=MatMul(x,w_Neg) return y", "[-2.0, -3.0]"},
}

func TestOperatorEdits(t *testing.T) {
	for _, c := range operatorEdits {
		for _, version := range []string{"1", "2"} {
			r := chain(t)
			e := NewEdit(r)
			if err := c.edit(e, r.Model().Graph()); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			var b bytes.Buffer
			if err := e.Write(t.Context(), &b, &WriterOptions{Version: version}); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			got := openBytes(t, b.Bytes())
			if s := formula(got); s != c.want {
				t.Errorf("%s: %s, want %s", c.name, s, c.want)
			}
			if _, err := got.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

func TestOperatorEditsRun(t *testing.T) {
	for _, c := range operatorEdits {
		r := chain(t)
		e := NewEdit(r)
		if err := c.edit(e, r.Model().Graph()); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "m.rten")
		if err := e.WriteFile(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := rtenproof(t, name, "x:1x2=1,1"); err != nil ||
			!strings.Contains(got, c.runs) {
			t.Errorf("%s: %s %v, want %s", c.name, got, err, c.runs)
		}
	}
	t.Logf("%d changed models", len(operatorEdits))
}

func TestOperatorEditsRefused(t *testing.T) {
	data, err := os.ReadFile("../testdata/rten/convert-0.22.0-control.rten")
	if err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, data)
	g := r.Model().Graph()
	x, _ := g.Lookup("x")
	var owner Operator
	for n := range g.Nodes() {
		if op, ok := n.Operator(); ok && op.Type() == OpIf {
			owner = op
		}
	}
	for name, change := range map[string]func(e *Edit) error{
		"captured by a graph inside": func(e *Edit) error { return e.InsertAfter(x, "Neg", nil) },
		"after an operator": func(e *Edit) error {
			return e.InsertAfter(owner.Node(), "Neg", nil)
		},
		"an operator that is none": func(e *Edit) error {
			return e.InsertAfter(g.Node(0), "Swish", nil)
		},
		"more inputs than it takes": func(e *Edit) error {
			return e.InsertAfter(g.Node(0), "Neg", nil, ramp(1))
		},
		"a dtype that RTen does not have": func(e *Edit) error {
			return e.InsertAfter(g.Node(0), "Add", nil, tensor.New("", nil, []float64{1}))
		},
		"a node of another model": func(e *Edit) error {
			return e.InsertAfter(chain(t).Model().Graph().Node(0), "Neg", nil)
		},
		"a name that is taken": func(e *Edit) error {
			c := chain(t)
			w, _ := c.Model().Graph().Lookup("w")
			return NewEdit(c).InsertAfter(w, "Add", nil, tensor.New("x", nil, []float32{1}))
		},
	} {
		if err := change(NewEdit(r)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := len(subgraphNames(owner)); n != 2 {
		t.Errorf("an If has %d graphs", n)
	}
}

// Readers of what is removed would read it again, and writing would not end.
func TestOperatorsOfACycleAreNotRemoved(t *testing.T) {
	var b raw
	operator := func(in, out uint32) fb.Offset {
		return b.operator(OpNeg, 0, 0, []uint32{in}, []uint32{out})
	}
	nodes := []fb.Offset{b.value("a"), b.value("b"), b.value("c"), b.value("d"),
		operator(0, 1), operator(1, 0), operator(1, 2), operator(3, 3)}
	r := openBytes(t, b.model(b.graph(nodes, nil, []uint32{2}, nil), 1))
	remove := func(e *Edit, node int) error {
		op, _ := r.Model().Graph().Node(node).Operator()
		return e.RemoveOperator(op)
	}
	e := NewEdit(r)
	if err := errors.Join(remove(e, 7), remove(e, 4)); err != nil {
		t.Fatal(err)
	}
	if err := remove(e, 5); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the rest of the cycle: %v", err)
	}
	if err := e.Write(t.Context(), io.Discard, nil); err != nil {
		t.Error(err)
	}
}

// Damage that Verify only warns of: two operators compute a value, and an operator is an
// output of the graph. A file without the removed node could not be opened.
func TestOperatorsThatAreStillUsedAreNotRemoved(t *testing.T) {
	var b raw
	operator := func(in, out uint32) fb.Offset {
		return b.operator(OpNeg, 0, 0, []uint32{in}, []uint32{out})
	}
	nodes := []fb.Offset{b.value("a"), b.value("b"), b.value("c"), operator(0, 1),
		operator(0, 1), operator(1, 2)}
	r := openBytes(t, b.model(b.graph(nodes, []uint32{0}, []uint32{2, 5}, nil), 1))
	for node, want := range map[int]string{3: `"b" is used by node 4, Neg`,
		5: `is an output of its graph`} {
		e := NewEdit(r)
		op, _ := r.Model().Graph().Node(node).Operator()
		err := e.RemoveOperator(op)
		if err == nil {
			err = e.Write(t.Context(), io.Discard, nil)
		}
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("node %d: %v, want %s", node, err, want)
		}
	}
}

func subgraphNames(op Operator) (names []string) {
	for name, g := range op.Subgraphs() {
		if up, n := g.Up(); up == nil || n != op.Node() {
			return nil
		}
		names = append(names, name)
	}
	return names
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

func TestTypedAttributes(t *testing.T) {
	g := NewGraphBuilder()
	x := g.Input("x", tensor.F32)
	g.Output("y", g.Op("Gemm", Attrs{"alpha": 0.5, "transpose_b": true}, x, x))
	g.Output("z", g.Op("Transpose", Attrs{"perm": []int{1, 0}}, x))
	g.Output("p", g.Op("Pad", Attrs{"mode": "Edge"}, x, g.Constant(i32(1, 1))))
	g.Output("e", g.Op("Einsum", Attrs{"equation": "ij->ji"}, x))
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	top := openBytes(t, b.Bytes()).Model().Graph()
	by := func(name string) Operator {
		n, _ := top.Lookup(name)
		op, ok := n.Producer()
		if !ok {
			t.Fatalf("nothing computes %s", name)
		}
		return op
	}
	alpha, ok1 := by("y").Float("alpha")
	transposed, ok2 := by("y").Int("transpose_b")
	perm, ok3 := by("z").Ints("perm")
	mode, ok4 := by("p").Enum("mode")
	equation, ok5 := by("e").Text("equation")
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || alpha != 0.5 || transposed != 1 ||
		fmt.Sprint(perm) != "[1 0]" || mode.String() != "Edge" || equation != "ij->ji" {
		t.Error(alpha, transposed, perm, mode, equation)
	}
	if _, ok := by("y").Ints("alpha"); ok {
		t.Error("a float as integers")
	}
	if _, ok := by("y").Int("no such"); ok {
		t.Error("an attribute that is absent")
	}
	n, _ := top.Lookup("x")
	var types []string
	for op := range n.Consumers() {
		types = append(types, op.Type().String())
	}
	if fmt.Sprint(types) != "[Gemm Gemm Transpose Pad Einsum]" {
		t.Error(types)
	}
	if _, ok := n.Producer(); ok {
		t.Error("an input has a producer")
	}
}

// TestInsertAfterThatFailsChangesNothing: neither its constants nor their names stay.
func TestInsertAfterThatFailsChangesNothing(t *testing.T) {
	r := chain(t)
	e := NewEdit(r)
	g := r.Model().Graph()
	x, _ := g.Lookup("x")
	fresh := tensor.New("fresh", nil, []float32{1})
	taken := tensor.New("w", nil, []float32{2})
	if err := e.InsertAfter(x, "Clip", nil, fresh, taken); !errors.Is(err, tensor.ErrDuplicate) {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := e.Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	after := openBytes(t, out.Bytes())
	if after.Len() != r.Len() || formula(after) != formula(r) || after.Size() != r.Size() {
		t.Errorf("%d constants, %s", after.Len(), formula(after))
	}
	if err := e.InsertAfter(x, "Add", nil, fresh); err != nil {
		t.Error(err)
	}
}

// TestRemoveOperatorThatFailsChangesNothing: Split has a second output that is read.
func TestRemoveOperatorThatFailsChangesNothing(t *testing.T) {
	g := NewGraphBuilder()
	x := g.Input("x", tensor.F32, Fixed(4))
	parts := g.Ops("Split", Attrs{"axis": 0, "num_outputs": 2}, 2, x)
	g.Output("y", g.Op("Add", nil, parts[0], parts[1]))
	var b bytes.Buffer
	if err := g.Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, b.Bytes())
	e := NewEdit(r)
	for n := range r.Model().Graph().Nodes() {
		if op, ok := n.Operator(); ok && op.Type() == OpSplit {
			if err := e.RemoveOperator(op); !errors.Is(err, errors.ErrUnsupported) {
				t.Fatal(err)
			}
		}
	}
	var out bytes.Buffer
	if err := e.Write(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), b.Bytes()) {
		t.Errorf("%s", formula(openBytes(t, out.Bytes())))
	}
}
