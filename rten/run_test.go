package rten

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

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
