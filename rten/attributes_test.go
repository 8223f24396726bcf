package rten

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestAttributesOfOperatorsAreTyped(t *testing.T) {
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
