package rten

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestMinimalModelRuns(t *testing.T) {
	g := NewGraphBuilder()
	x := g.Input("x", tensor.F32, Symbol("n"), Fixed(2))
	w := g.Constant(tensor.New("W", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}))
	b := g.Constant(tensor.New("b", tensor.Shape{3}, []float32{.5, -.5, .25}))
	g.Output("y", g.Op("Add", nil, g.Op("MatMul", nil, x, w), b))
	for name, opts := range layouts {
		got, err := rtenproof(t, writeModel(t, g, opts), "x:1x2=1,2")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !regexp.MustCompile(`9\.5.*11\.5.*15\.25`).MatchString(strings.ReplaceAll(got, "\n",
			" ")) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
