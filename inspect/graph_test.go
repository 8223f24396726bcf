package inspect

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// A rectangle is a node, or the hull of a piece of a path.
type rectangle struct{ left, top, right, bottom float64 }

func (r rectangle) overlaps(s rectangle) bool {
	const rounding = 0.11
	return r.left < s.right-rounding && s.left < r.right-rounding && r.top < s.bottom-rounding &&
		s.top < r.bottom-rounding
}

var (
	nodePattern = regexp.MustCompile(
		`<rect class="node \w+" x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)" height="([-\d.]+)"`)
	pathPattern = regexp.MustCompile(`<path class="(\w+)[^"]*" d="([^"]*)"`)
	movePattern = regexp.MustCompile(`([MCVH])([-\d. ]+)`)
)

func numbers(t *testing.T, texts ...string) (all []float64) {
	t.Helper()
	for _, s := range texts {
		for _, f := range strings.Fields(s) {
			v, err := strconv.ParseFloat(f, 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
	}
	return all
}

// hulls returns one rectangle for each piece of a path: for a curve the rectangle of its
// control points.
func hulls(t *testing.T, path string) (all []rectangle) {
	t.Helper()
	var x, y float64
	for _, m := range movePattern.FindAllStringSubmatch(path, -1) {
		v := numbers(t, m[2])
		points := [][2]float64{{x, y}}
		switch m[1] {
		case "M":
			x, y = v[0], v[1]
			continue
		case "C":
			points = append(points, [2]float64{v[0], v[1]}, [2]float64{v[2], v[3]},
				[2]float64{v[4], v[5]})
			x, y = v[4], v[5]
		case "V":
			y = v[0]
		case "H":
			x = v[0]
		}
		points = append(points, [2]float64{x, y})
		r := rectangle{x, y, x, y}
		for _, p := range points {
			r.left, r.right = min(r.left, p[0]-0.5), max(r.right, p[0]+0.5)
			r.top, r.bottom = min(r.top, p[1]), max(r.bottom, p[1])
		}
		if m[1] != "V" {
			r.top, r.bottom = r.top+0.2, r.bottom-0.2 // ends touch nodes
		}
		all = append(all, r)
	}
	return all
}

// checkPicture fails where a node covers another one or a piece of an edge or link.
func checkPicture(t *testing.T, name string, g *Graph) {
	t.Helper()
	b, err := g.SVG()
	if err != nil {
		t.Fatal(name, err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(b))); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(name, err)
		}
	}
	var nodes []rectangle
	for _, m := range nodePattern.FindAllStringSubmatch(string(b), -1) {
		v := numbers(t, m[1:]...)
		nodes = append(nodes, rectangle{v[0], v[1], v[0] + v[2], v[1] + v[3]})
	}
	if len(nodes) != g.Len() {
		t.Errorf("%s: %d nodes are drawn, not %d", name, len(nodes), g.Len())
	}
	for i, n := range nodes {
		for _, m := range nodes[:i] {
			if n.overlaps(m) {
				t.Fatalf("%s: node %v covers %v", name, n, m)
			}
		}
	}
	links, edges := 0, 0
	for _, m := range pathPattern.FindAllStringSubmatch(string(b), -1) {
		if m[1] == "link" {
			links++
		} else {
			edges++
		}
		for _, r := range hulls(t, m[2]) {
			for _, n := range nodes {
				if r.overlaps(n) {
					t.Fatalf("%s: the path %s runs behind the node %v", name, m[2], n)
				}
			}
		}
	}
	if links != len(g.Links) {
		t.Errorf("%s: %d links are drawn, not %d", name, links, len(g.Links))
	}
	wanted := 0
	for i := range g.Groups {
		wanted += len(g.Groups[i].Edges)
	}
	if edges < wanted/2 {
		t.Errorf("%s: %d pieces of %d edges", name, edges, wanted)
	}
}

func TestEdgesNeverCrossNodes(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		g := &Graph{}
		for k := range 1 + rng.IntN(3) {
			gr := Group{Name: fmt.Sprint("group ", k)}
			for i := range 2 + rng.IntN(40) {
				gr.Nodes = append(gr.Nodes,
					Node{Label: strings.Repeat("x", rng.IntN(30)), Kind: NodeOperator})
				for range rng.IntN(3) {
					from, to := rng.IntN(i+1), i
					if seed%3 == 0 && rng.IntN(8) == 0 { // cycles and loops
						from, to = to, from
					}
					gr.Edges = append(gr.Edges, Edge{from, to, "value"})
				}
			}
			g.Groups = append(g.Groups, gr)
			if k > 0 {
				g.Links = append(g.Links, Link{0, rng.IntN(len(g.Groups[0].Nodes)), k, "If"})
			}
		}
		checkPicture(t, fmt.Sprint("seed ", seed), g)
	}
}

func TestEveryProgramHasAGraph(t *testing.T) {
	found := 0
	for _, dir := range []string{"pte", "rten"} {
		names, err := filepath.Glob("../testdata/" + dir + "/*." + dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			f, err := tensorfile.Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			g, err := NewGraph(f)
			if err != nil {
				t.Fatal(name, err)
			}
			checkPicture(t, name, g)
			if len(g.Groups) > 0 &&
				(!strings.Contains(string(g.DOT()), "cluster_0") ||
					!strings.HasPrefix(string(g.Mermaid()), "flowchart")) {
				t.Error(name)
			}
			found++
			f.Close()
		}
	}
	if found < 10 {
		t.Errorf("%d programs", found)
	}
	f, err := tensorfile.Open("../testdata/npy/column.npy", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := NewGraph(f); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// TestGraphShowsNamelessState has a buffer without name and initial data, which is how
// the exporter writes them by default.
func TestGraphShowsNamelessState(t *testing.T) {
	b := pte.NewBuilder()
	m := b.Method("forward")
	x := m.Input(tensor.F32, tensor.Shape{4}).Place(1, 0)
	state := m.Tensor(tensor.F32, tensor.Shape{4}).Place(1, 16)
	sum := m.Tensor(tensor.F32, tensor.Shape{4}).Place(1, 32)
	m.Call("aten::add.out", state, x, m.Value(1), sum, sum)
	m.Call("aten::copy_", state, sum, m.Value(false), state)
	m.Return(sum)
	var w bytes.Buffer
	if err := b.Write(t.Context(), &w, nil); err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.OpenBytes(w.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGraph(f)
	if err != nil {
		t.Fatal(err)
	}
	nodes, edges := g.Groups[0].Nodes, 0
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Kind == NodeState })
	for _, e := range g.Groups[0].Edges {
		if e.From == at {
			edges++
		}
	}
	if at < 0 || nodes[at].Detail != "float32[4]" || edges != 2 {
		t.Errorf("state is node %d with %d edges of %+v", at, edges, g.Groups[0])
	}
}

// TestWhatNoInputReachesIsAboveItsFirstUse draws a chain of operators, the last of which
// uses what two operators make of a constant, and an operator without inputs.
func TestWhatNoInputReachesIsAboveItsFirstUse(t *testing.T) {
	gr := Group{Nodes: []Node{{Kind: NodeInput}}}
	chain := 10
	for i := range chain {
		gr.Nodes = append(gr.Nodes, Node{Kind: NodeOperator})
		gr.Edges = append(gr.Edges, Edge{From: i, To: i + 1})
	}
	gr.Nodes = append(gr.Nodes, Node{Kind: NodeConstant}, Node{Kind: NodeOperator},
		Node{Kind: NodeOperator}, Node{Kind: NodeOperator})
	gr.Edges = append(gr.Edges, Edge{From: 11, To: 12}, Edge{From: 12, To: 13},
		Edge{From: 13, To: chain}, Edge{From: 14, To: chain}, Edge{From: 14, To: chain - 1})
	l, err := newLayered(&gr)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, b := range l.boxes[chain : chain+5] {
		got = append(got, b.layer)
	}
	if want := []int{10, 7, 8, 9, 8}; !slices.Equal(got, want) {
		t.Errorf("layers %v, want %v", got, want)
	}
}

func TestSVGRefusesTooManyBends(t *testing.T) {
	gr := Group{}
	for i := range 3000 {
		gr.Nodes = append(gr.Nodes, Node{Kind: NodeOperator})
		if i > 0 {
			gr.Edges = append(gr.Edges, Edge{i - 1, i, ""})
		}
	}
	for i := range 2000 {
		gr.Edges = append(gr.Edges, Edge{i, 2999, ""})
	}
	if _, err := (&Graph{Groups: []Group{gr}}).SVG(); !errors.Is(err, tensor.ErrLimit) {
		t.Error(err)
	}
}

func TestSelectKeepsLinksBetweenGroups(t *testing.T) {
	f, err := tensorfile.Open("../testdata/rten/convert-0.22.0-control.rten", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := NewGraph(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Links) == 0 {
		t.Fatal("no links")
	}
	selected := g.Select(func(name string) bool { return name != "model" })
	if len(selected.Groups) != len(g.Groups)-1 || len(selected.Links) >= len(g.Links) {
		t.Errorf("%d groups, %d links", len(selected.Groups), len(selected.Links))
	}
	if os.Getenv("TENSORFILE_SVG") != "" {
		b, _ := g.SVG()
		os.WriteFile(os.Getenv("TENSORFILE_SVG"), b, 0o666)
	}
}
