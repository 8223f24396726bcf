package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/tensor"
)

// A graph is a program as a picture: nodes in groups, such as the methods of a
// .pte or the subgraphs of a .rten, and edges along which data goes.
type graph struct {
	groups []graphGroup
	links  []graphLink // from a node to a group that it runs
}

type graphGroup struct {
	name  string
	nodes []graphNode
	edges []graphEdge
}

// A graphNode says what it is, in words of its format, and of which kind, which
// is how it is drawn.
type graphNode struct {
	label  string
	detail string // dtype and shape, attributes: a second line
	kind   nodeKind
}

type nodeKind string

const (
	nodeInput    nodeKind = "input"
	nodeOutput   nodeKind = "output"
	nodeConstant nodeKind = "constant"
	nodeOperator nodeKind = "operator"
	nodeDelegate nodeKind = "delegate"
	nodeState    nodeKind = "state"
)

// A graphEdge goes from one node of its group to another, by index.
type graphEdge struct {
	from, to int
	label    string
}

type graphLink struct {
	group, node int
	to          int // a group
	label       string
}

func graphCommand(a *app) *cobra.Command {
	var as, out, only string
	var force bool
	most := 5000
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw the program of a .pte or .rten as DOT, Mermaid or SVG",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as == "" {
				as = map[string]string{".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid"}[strings.ToLower(filepath.Ext(out))]
			}
			if as == "" {
				as = "dot"
			}
			write := map[string]func(*graph) []byte{"dot": (*graph).dot, "mermaid": (*graph).mermaid, "svg": (*graph).svg}[as]
			if write == nil {
				return fmt.Errorf("--as: %q is none of dot, mermaid, svg", as)
			}
			if err := a.begin(); err != nil {
				return err
			}
			in, err := a.open(args[0])
			if err != nil {
				a.fail(args[0], err)
				return nil
			}
			defer in.Close()
			g, err := in.graph(only, most)
			if err != nil {
				return a.refuse(args[0], err)
			}
			var b []byte
			if a.json {
				b = append(appendJSON(nil, g.object(args[0])), '\n')
			} else {
				b = write(g)
			}
			if err := a.writeOut(out, b, force); err != nil {
				a.fail(out, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&as, "as", "", "`LANGUAGE`: dot, mermaid or svg; without it as -o ends, else dot")
	f.StringVarP(&out, "output", "o", "", "write to `FILE`")
	f.BoolVar(&force, "force", false, "replace FILE if it is there")
	f.StringVar(&only, "only", "", "only the groups (methods, subgraphs) that match `GLOB`")
	f.IntVar(&most, "most", most, "refuse more than `N` nodes")
	return cmd
}

// graph asks the format for its graph.
func (in *input) graph(only string, most int) (*graph, error) {
	if in.view.graph == nil {
		return nil, advise("a .pte or a .rten", fmt.Errorf("%w: a %v file has no program", errors.ErrUnsupported, in.Format()))
	}
	g := in.view.graph()
	if only != "" {
		if err := checkGlob(only); err != nil {
			return nil, wrong("a pattern such as forward or nodes*", "--only: %w", err)
		}
		if g = g.only(only); len(g.groups) == 0 {
			return nil, wrong("--only '*'", "no group is called %s", quote(only))
		}
	}
	n := 0
	for i := range g.groups {
		n += len(g.groups[i].nodes)
	}
	if n > most {
		return nil, advise(fmt.Sprintf("--only GLOB for a part of it, or --most %d", n), fmt.Errorf("%w: the graph has %d nodes, --most is %d", tensor.ErrLimit, n, most))
	}
	return g, nil
}

// only keeps the groups whose names match.
func (g *graph) only(pattern string) *graph {
	out := new(graph)
	at := map[int]int{}
	for i, gr := range g.groups {
		if ok, _ := glob(pattern, gr.name); ok {
			at[i] = len(out.groups)
			out.groups = append(out.groups, gr)
		}
	}
	for _, l := range g.links {
		from, ok1 := at[l.group]
		to, ok2 := at[l.to]
		if ok1 && ok2 {
			out.links = append(out.links, graphLink{from, l.node, to, l.label})
		}
	}
	return out
}

func (g *graph) object(name string) object {
	groups := []object{}
	for _, gr := range g.groups {
		nodes, edges := []object{}, []object{}
		for _, n := range gr.nodes {
			nodes = append(nodes, object{{"label", n.label}, {"detail", n.detail}, {"kind", string(n.kind)}})
		}
		for _, e := range gr.edges {
			edges = append(edges, object{{"from", e.from}, {"to", e.to}, {"label", e.label}})
		}
		groups = append(groups, object{{"name", gr.name}, {"nodes", nodes}, {"edges", edges}})
	}
	links := []object{}
	for _, l := range g.links {
		links = append(links, object{{"group", l.group}, {"node", l.node}, {"to", l.to}, {"label", l.label}})
	}
	return object{{"file", name}, {"groups", groups}, {"links", links}}
}

// dot writes Graphviz's language.
func (g *graph) dot() []byte {
	var b []byte
	str := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(clean(s)) + `"`
	}
	add := func(format string, args ...any) { b = fmt.Appendf(b, format+"\n", args...) }
	add("digraph {")
	add("  compound=true; rankdir=TB; node [fontname=\"sans-serif\", fontsize=10]; edge [fontname=\"sans-serif\", fontsize=8];")
	shapes := map[nodeKind]string{
		nodeInput: "shape=ellipse", nodeOutput: "shape=ellipse", nodeConstant: `shape=box, style="dashed"`,
		nodeOperator: `shape=box, style="rounded"`, nodeDelegate: `shape=component`, nodeState: "shape=cylinder",
	}
	for i, gr := range g.groups {
		add("  subgraph cluster_%d {", i)
		add("    label=%s;", str(gr.name))
		for j, n := range gr.nodes {
			label := n.label
			if n.detail != "" {
				label += "\n" + n.detail
			}
			add("    n%d_%d [label=%s, %s];", i, j, str(label), shapes[n.kind])
		}
		for _, e := range gr.edges {
			if e.label == "" {
				add("    n%d_%d -> n%d_%d;", i, e.from, i, e.to)
			} else {
				add("    n%d_%d -> n%d_%d [label=%s];", i, e.from, i, e.to, str(e.label))
			}
		}
		add("  }")
	}
	for _, l := range g.links {
		if len(g.groups[l.to].nodes) > 0 {
			add("  n%d_%d -> n%d_0 [lhead=cluster_%d, style=dashed, label=%s];", l.group, l.node, l.to, l.to, str(l.label))
		}
	}
	add("}")
	return b
}

// mermaid writes the language that GitHub and others draw.
func (g *graph) mermaid() []byte {
	var b []byte
	str := func(s string) string {
		var q strings.Builder
		q.WriteByte('"')
		for _, r := range clean(s) {
			switch {
			case r == '\n':
				q.WriteString("<br/>")
			case strings.ContainsRune("\"#<>&;`\\{}|", r): // all of which it gives a meaning
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
	brackets := map[nodeKind][2]string{
		nodeInput: {"([", "])"}, nodeOutput: {"([", "])"}, nodeConstant: {"[/", "/]"},
		nodeOperator: {"(", ")"}, nodeDelegate: {"[[", "]]"}, nodeState: {"[(", ")]"},
	}
	for i, gr := range g.groups {
		add("  subgraph g%d[%s]", i, str(gr.name))
		for j, n := range gr.nodes {
			label := n.label
			if n.detail != "" {
				label += "\n" + n.detail
			}
			k := brackets[n.kind]
			add("    n%d_%d%s%s%s", i, j, k[0], str(label), k[1])
		}
		for _, e := range gr.edges {
			if e.label == "" {
				add("    n%d_%d --> n%d_%d", i, e.from, i, e.to)
			} else {
				add("    n%d_%d -->|%s| n%d_%d", i, e.from, str(e.label), i, e.to)
			}
		}
		add("  end")
	}
	for _, l := range g.links {
		add("  n%d_%d -.->|%s| g%d", l.group, l.node, str(l.label), l.to)
	}
	return b
}

// clean replaces what is not printable, and cuts what is too long to draw.
func clean(s string) string {
	const most = 120
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if r != '\n' && !printable(r) {
			r = '\ufffd'
		}
		b.WriteRune(r)
	}
	return b.String()
}
