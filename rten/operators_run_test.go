package rten

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// A small language for models of constants.

// sequenceModels cover the operators on sequences, and those that own graphs.
func sequenceModels() map[string]*GraphBuilder {
	models := make(map[string]*GraphBuilder)
	g := NewGraphBuilder()
	seq := g.Op("SequenceConstruct", nil, g.Constant(f32(1, 2)), g.Constant(f32(3, 4)))
	seq = g.Op("SequenceInsert", nil, seq, g.Constant(f32(5, 6)), g.Constant(i0(0)))
	seq = g.Op("SequenceErase", nil, seq, g.Constant(i0(1)))
	g.Output("n", g.Op("SequenceLength", nil, seq))
	g.Output("first", g.Op("SequenceAt", nil, seq, g.Constant(i0(0))))
	g.Output("all", g.Op("ConcatFromSequence", Attrs{"axis": 0, "new_axis": true}, seq))
	g.Output("flat", g.Op("ConcatFromSequence", Attrs{"axis": 0}, seq))
	models["sequences"] = g

	g = NewGraphBuilder()
	seq = g.Op("SequenceInsert", nil, g.Op("SequenceEmpty", Attrs{"dtype": tensor.I32}),
		g.Constant(i32(1)))
	g.Output("i", g.Op("SequenceAt", nil, seq, g.Constant(i0(0))))
	seq = g.Op("SequenceInsert", nil, g.Op("SequenceEmpty", nil), g.Constant(f32(1)))
	g.Output("f", g.Op("SequenceAt", nil, seq, g.Constant(i0(0))))
	seq = g.Op("SplitToSequence", Attrs{"axis": 1, "keep_dims": false}, g.Constant(ramp(2, 3)))
	g.Output("part", g.Op("SequenceAt", nil, seq, g.Constant(i0(2))))
	seq = g.Op("SplitToSequence", nil, g.Constant(ramp(2, 3)), g.Constant(i0(1)))
	g.Output("row", g.Op("SequenceAt", nil, seq, g.Constant(i0(1))))
	models["sequences of types"] = g

	g = NewGraphBuilder()
	x := g.Input("x", tensor.F32, Fixed(2))
	c := g.Input("c", tensor.I32, []Dim{}...)
	hidden := g.Op("Add", nil, x, g.Constant(f0(1))) // has no name of its own, and is captured
	then, els := g.Subgraph(), g.Subgraph()
	inner, inner2 := then.Subgraph(), then.Subgraph()
	inner.Output("i", inner.Op("Mul", nil, hidden,
		inner.Constant(tensor.New("k", tensor.Shape{2}, []float32{10, 100}))))
	inner2.Output("i", inner2.Op("Neg", nil, x))
	then.Output("t", then.Op("If", Attrs{"then_branch": inner, "else_branch": inner2}, c))
	els.Output("e", els.Op("Sub", nil, hidden, els.Constant(f0(5))))
	y := g.Op("If", Attrs{"then_branch": then, "else_branch": els}, c)
	g.Output("y", y)
	body := g.Subgraph()
	body.Input("i", tensor.I32, []Dim{}...)
	rest := body.Input("more", tensor.I32, []Dim{}...)
	acc := body.Input("acc", tensor.F32)
	body.Output("again", body.Op("Identity", nil, rest))
	body.Output("next", body.Op("Add", nil, acc, x))
	g.Output("sum", g.Op("Loop", Attrs{"body": body}, g.Constant(i0(3)), Ref{}, y))
	models["graphs"] = g
	return models
}

// sameRun runs a file, and copies of it in every version and layout, and requires
// the same output of all. It returns that.
func sameRun(t testing.TB, what, file string, random bool, inputs ...string) string {
	t.Helper()
	want, err := rtenproof(t, file, inputs...)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return ""
	}
	r, err := Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	other := filepath.Join(t.TempDir(), "copy.rten")
	for _, opts := range []WriterOptions{{Version: "1"}, {Version: "2"},
		{Version: "2", Alignment: 4096}, {Version: "2", InlineElements: -1}, {}} {
		p := NewEdit(r)
		if opts.Version == "" || opts.Alignment != 0 {
			if err := p.SetAttribute("run_id",
				"a longer string than any that was there"); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.WriteFile(t.Context(), other, &opts); err != nil {
			t.Errorf("%s, %+v: %v", what, opts, err)
			continue
		}
		switch got, err := rtenproof(t, other, inputs...); {
		case err != nil:
			t.Errorf("%s, %+v: %v", what, opts, err)
		case got != want && !random:
			t.Errorf("%s, %+v:\n%s\nwant\n%s", what, opts, got, want)
		}
	}
	return want
}

func TestEveryOperatorRuns(t *testing.T) {
	used := make(map[string]bool)
	run := func(name string, g *GraphBuilder, inputs ...string) {
		t.Helper()
		file := writeModel(t, g, nil)
		random := strings.Contains(name, "Random") || strings.HasPrefix(name, "Dropout") ||
			strings.HasPrefix(name, "Multinomial")
		want := sameRun(t, name, file, random, inputs...)
		for layout, opts := range layouts {
			if got, err := rtenproof(t, writeModel(t, g, opts), inputs...); err != nil ||
				got != want && !random {
				t.Errorf("%s, %s:\n%s%v\nwant\n%s", name, layout, got, err, want)
			}
		}
		r, err := Open(file, &ReaderOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for g := range r.Model().Graphs() {
			for n := range g.Nodes() {
				if op, ok := n.Operator(); ok {
					used[op.Type().String()] = true
				}
			}
		}
	}
	for _, c := range calls() {
		run(fmt.Sprint(c.op, c.attrs), c.build(t))
	}
	for name, g := range sequenceModels() {
		if name == "graphs" {
			run(name, g, "x:2=1,2", "c=1")
			run(name, g, "x:2=1,2", "c=0")
			continue
		}
		run(name, g)
	}
	for i := range rules {
		if name := OpType(i).String(); !used[name] {
			t.Errorf("%s was not run", name)
		}
	}
	t.Logf("%d operators", len(used))
}

// TestReferenceModelsRun rewrites what the official tools wrote. RTEN_REFERENCE
// may name a directory with more models, each with its inputs in NAME.inputs.
func TestReferenceModelsRun(t *testing.T) {
	models := map[string][]string{
		"../testdata/rten/convert-0.22.0-basic.rten":    {"x:2x4=1,2,3,4,5,6,7,8"},
		"../testdata/rten/convert-0.22.0-basic-v1.rten": {"x:2x4=1,2,3,4,5,6,7,8"},
		"../testdata/rten/convert-0.14.0-basic.rten":    {"x:1x4=1,2,3,4"},
		"../testdata/rten/convert-0.10.0-basic.rten":    {"x:1x4=1,2,3,4"},
		"../testdata/rten/convert-0.4.0-basic.rten":     {"x:1x4=1,2,3,4"},
		"../testdata/rten/convert-0.22.0-control.rten":  {"x:3=1,2,3", "c=1", "c2=0"},
		"../testdata/rten/rust-0.23.0-v1.rten":          {"x:1x2=1,2", "c=1"},
		"../testdata/rten/rust-0.23.0-v2.rten":          {"x:1x2=1,2", "c=0"},
	}
	for _, file := range referenceFiles(t) {
		file = strings.TrimSuffix(file, ".json")
		if b, err := os.ReadFile(file + ".inputs"); err == nil {
			models[file+".rten"] = strings.Fields(string(b))
		}
	}
	for file, inputs := range models {
		t.Run(filepath.Base(file), func(t *testing.T) { sameRun(t, file, file, false, inputs...) })
	}
	t.Logf("%d models", len(models))
}

// fieldOf is where an error says that it is, "" for none.
func fieldOf(err error) string {
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return fe.Field
	}
	return ""
}

// TestWriteRefusesWhatVerifyReports: a model is not written that our own Verify, asked
// strictly, does not take.
func TestWriteRefusesWhatVerifyReports(t *testing.T) {
	for name, build := range map[string]func(g *GraphBuilder, x Ref){
		"MatMul of one input": func(g *GraphBuilder, x Ref) {
			g.Output("y", g.Op("MatMul", nil, x))
		},
		"Add without its first input": func(g *GraphBuilder, x Ref) {
			g.Output("y", g.Op("Add", nil, Ref{}, x))
		},
		"Resize without scales and sizes": func(g *GraphBuilder, x Ref) {
			g.Output("y", g.Op("Resize", nil, x))
		},
		"an input of size 0": func(g *GraphBuilder, x Ref) {
			g.Output("y", g.Op("Neg", nil, g.Input("z", tensor.F32, Fixed(0))))
		},
		"a branch without an input": func(g *GraphBuilder, x Ref) {
			branch := g.Subgraph()
			branch.Output("b", branch.Op("Add", nil, x))
			g.Output("y", g.Op("If", Attrs{"then_branch": branch, "else_branch": branch}, x))
		},
	} {
		g := NewGraphBuilder()
		build(g, g.Input("x", tensor.F32, Fixed(2)))
		file := unverified(t, g)
		r, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, found := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
		for _, version := range []string{"1", "2"} {
			err := g.Write(t.Context(), io.Discard, &WriterOptions{Version: version})
			if fieldOf(found) == "" || fieldOf(err) != fieldOf(found) {
				t.Errorf("%s: Write of version %s: %v, Verify: %v", name, version, err, found)
			}
		}
	}
}

// unverified writes a model that Write would refuse.
func unverified(t *testing.T, g *GraphBuilder) (file string) {
	t.Helper()
	o, err := (*WriterOptions)(nil).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	g.finish()
	l, err := g.encode(o)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "model.rten")
	var b bytes.Buffer
	if err := format.WriteTo(t.Context(), &b, func(out *format.Output) error {
		return format.WriteSections(out, nil, l.list, l.size)
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMissingInputsAreFoundAsRTenFindsThem leaves out inputs of every operator: strict
// verification must report those that RTen cannot run without, and no others, and Write
// must refuse the same.
func TestMissingInputsAreFoundAsRTenFindsThem(t *testing.T) {
	required := make(map[string]int)
	try := func(c call) {
		g := c.build(t)
		file := unverified(t, g)
		_, ran := rtenproof(t, file)
		r, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		_, found := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})
		missing := ran != nil &&
			regexp.MustCompile(
				"required inputs were missing|MissingInputs|must be set|input tensor count").MatchString(ran.Error())
		if missing {
			required[c.op]++
		}
		if missing != (found != nil) {
			t.Errorf("%s with inputs %v: the crate says %v, verifying %v", c.op, c.inputs, ran,
				found)
		}
		for _, version := range []string{"1", "2"} {
			err := g.Write(t.Context(), io.Discard, &WriterOptions{Version: version})
			if fieldOf(err) != fieldOf(found) {
				t.Errorf("%s with inputs %v: Write of version %s: %v, verifying %v", c.op,
					c.inputs, version, err, found)
			}
		}
	}
	for _, c := range calls() {
		for i, x := range c.inputs {
			if x == nil {
				continue
			}
			cut, without := c, c
			cut.inputs = c.inputs[:i]
			try(cut)
			without.inputs = slices.Clone(c.inputs)
			without.inputs[i] = nil
			try(without)
		}
	}
	for op := range OpType(len(rules)) {
		sequenced := strings.Contains(op.String(), "Sequence") || op == OpIf || op == OpLoop
		if op.MinInputs() > 0 && required[op.String()] == 0 && !sequenced {
			t.Errorf("%v was not tried", op)
		}
	}
}
