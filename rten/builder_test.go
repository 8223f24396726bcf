package rten

import (
	"bytes"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestBuildAndRead(t *testing.T) {
	g := NewGraphBuilder()
	g.SetMetadata("license", "MIT")
	x := g.Input("x", tensor.F32, Symbol("n"), Fixed(2))
	w := tensor.New("W", tensor.Shape{2, 20}, make([]float32, 40))
	big := tensor.New("big", tensor.Shape{2000}, make([]float32, 2000))
	y := g.Op("MatMul", nil, x, g.Constant(w))
	c := g.Input("c", tensor.I32, []Dim{}...)
	then := g.Subgraph()
	then.Output("t", then.Op("Add", nil, y, then.Constant(tensor.New("", nil, []float32{1}))))
	els := g.Subgraph()
	els.Output("e", els.Op("Gemm", Attrs{"alpha": 2}, y, els.Constant(big)))
	g.Output("y", g.Op("If", Attrs{"then_branch": then, "else_branch": els}, c))
	g.Output("", g.Op("Conv", Attrs{"strides": []int{2, 2}, "auto_pad": "Same"}, x, x))
	for _, opts := range []*WriterOptions{nil, {Version: 1}, {Align: 4096, InlineElements: -1}} {
		var b bytes.Buffer
		if err := Write(&b, g, opts); err != nil {
			t.Fatal(err)
		}
		r, err := OpenBytes(b.Bytes(), &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
			t.Error(err)
		}
		t.Log(describe(r)[:200])
		rel, why := r.Model().Requires()
		t.Log(rel, why)
	}
}
