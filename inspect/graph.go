package inspect

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/rten"
)

// A Graph is a program as nodes, in groups such as the methods of a .pte or the
// subgraphs of a .rten or .onnx, and edges along which data goes.
type Graph struct {
	Groups []Group `json:"groups"`
	Links  []Link  `json:"links"`
}

// A Group is a method or a subgraph.
type Group struct {
	Name  string `json:"name"`
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
}

// A Node is a value or an operator, in the words of its format.
type Node struct {
	Label  string   `json:"label"`
	Detail string   `json:"detail"` // dtype and shape, or the name of an operator
	Kind   NodeKind `json:"kind"`
}

// A NodeKind says how a node is drawn.
type NodeKind string

// The kinds of nodes.
const (
	NodeInput    NodeKind = "input"
	NodeOutput   NodeKind = "output"
	NodeConstant NodeKind = "constant"
	NodeOperator NodeKind = "operator"
	NodeDelegate NodeKind = "delegate"
	NodeState    NodeKind = "state"
)

// An Edge goes from one node of its group to another, by index.
type Edge struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Label string `json:"label"`
}

// A Link goes from a node to a group that it runs.
type Link struct {
	Group int    `json:"group"`
	Node  int    `json:"node"`
	To    int    `json:"to"` // index of a group
	Label string `json:"label"`
}

// NewGraph returns the program of a .pte, .ptn, .rten or .onnx; it fails with
// errors.ErrUnsupported for other formats.
func NewGraph(f *tensorfile.File) (*Graph, error) {
	switch r := f.Sys().(type) {
	case *pte.Reader:
		return pteGraph(r), nil
	case *ptn.Reader:
		return ptnGraph(r), nil
	case *rten.Reader:
		return rtenGraph(r), nil
	case *onnx.Reader:
		return onnxGraph(r), nil
	}
	return nil, fmt.Errorf("%w: a %v file has no program", errors.ErrUnsupported, f.Format())
}

// Len returns the number of nodes.
func (g *Graph) Len() int {
	n := 0
	for i := range g.Groups {
		n += len(g.Groups[i].Nodes)
	}
	return n
}

// Select returns the groups for whose names isWanted returns true, and the links between
// them.
func (g *Graph) Select(isWanted func(name string) bool) *Graph {
	out := &Graph{Groups: []Group{}, Links: []Link{}}
	at := map[int]int{}
	for i, gr := range g.Groups {
		if isWanted(gr.Name) {
			at[i] = len(out.Groups)
			out.Groups = append(out.Groups, gr)
		}
	}
	for _, l := range g.Links {
		from, ok1 := at[l.Group]
		to, ok2 := at[l.To]
		if ok1 && ok2 {
			out.Links = append(out.Links, Link{from, l.Node, to, l.Label})
		}
	}
	return out
}

// DOT returns the graph in the language of Graphviz.
func (g *Graph) DOT() []byte {
	var b []byte
	str := func(s string) string {
		escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
		return `"` + escape.Replace(printable(s)) + `"`
	}
	add := func(format string, args ...any) { b = fmt.Appendf(b, format+"\n", args...) }
	add("digraph {")
	add("  compound=true; rankdir=TB; node [fontname=\"sans-serif\", fontsize=10]; " +
		"edge [fontname=\"sans-serif\", fontsize=8];")
	shapes := map[NodeKind]string{
		NodeInput: "shape=ellipse", NodeOutput: "shape=ellipse",
		NodeConstant: `shape=box, style="dashed"`,
		NodeOperator: `shape=box, style="rounded"`, NodeDelegate: `shape=component`,
		NodeState: "shape=cylinder",
	}
	for i, gr := range g.Groups {
		add("  subgraph cluster_%d {", i)
		add("    label=%s;", str(gr.Name))
		for j, n := range gr.Nodes {
			label := n.Label
			if n.Detail != "" {
				label += "\n" + n.Detail
			}
			add("    n%d_%d [label=%s, %s];", i, j, str(label), shapes[n.Kind])
		}
		for _, e := range gr.Edges {
			if e.Label == "" {
				add("    n%d_%d -> n%d_%d;", i, e.From, i, e.To)
			} else {
				add("    n%d_%d -> n%d_%d [label=%s];", i, e.From, i, e.To, str(e.Label))
			}
		}
		add("  }")
	}
	for _, l := range g.Links {
		if len(g.Groups[l.To].Nodes) > 0 {
			add("  n%d_%d -> n%d_0 [lhead=cluster_%d, style=dashed, label=%s];", l.Group, l.Node,
				l.To, l.To, str(l.Label))
		}
	}
	add("}")
	return b
}

// Mermaid returns the graph in the language of Mermaid, which GitHub draws.
func (g *Graph) Mermaid() []byte {
	var b []byte
	str := func(s string) string {
		var q strings.Builder
		q.WriteByte('"')
		for _, r := range printable(s) {
			switch {
			case r == '\n':
				q.WriteString("<br/>")
			case strings.ContainsRune("\"#<>&;`\\{}|", r): // syntax of Mermaid
				fmt.Fprintf(&q, "#%d;", r)
			default:
				q.WriteRune(r)
			}
		}
		q.WriteByte('"')
		return q.String()
	}
	add := func(format string, args ...any) { b = fmt.Appendf(b, format+"\n", args...) }
	add("flowchart TB")
	brackets := map[NodeKind][2]string{
		NodeInput: {"([", "])"}, NodeOutput: {"([", "])"}, NodeConstant: {"[/", "/]"},
		NodeOperator: {"(", ")"}, NodeDelegate: {"[[", "]]"}, NodeState: {"[(", ")]"},
	}
	for i, gr := range g.Groups {
		add("  subgraph g%d[%s]", i, str(gr.Name))
		for j, n := range gr.Nodes {
			label := n.Label
			if n.Detail != "" {
				label += "\n" + n.Detail
			}
			k := brackets[n.Kind]
			add("    n%d_%d%s%s%s", i, j, k[0], str(label), k[1])
		}
		for _, e := range gr.Edges {
			if e.Label == "" {
				add("    n%d_%d --> n%d_%d", i, e.From, i, e.To)
			} else {
				add("    n%d_%d -->|%s| n%d_%d", i, e.From, str(e.Label), i, e.To)
			}
		}
		add("  end")
	}
	for _, l := range g.Links {
		add("  n%d_%d -.->|%s| g%d", l.Group, l.Node, str(l.Label), l.To)
	}
	return b
}

// printable replaces runes that are not printable, and cuts text that is too long to
// draw.
func printable(s string) string {
	const maxRunes = 120
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > maxRunes {
			b.WriteString("…")
			break
		}
		if r != '\n' && !unicode.IsPrint(r) {
			r = '\ufffd'
		}
		b.WriteRune(r)
	}
	return b.String()
}
