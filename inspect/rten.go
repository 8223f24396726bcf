package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/rten"
)

// rtenContent describes the graphs of a model, without their version and storage.
func rtenContent(r *rten.Reader) programText {
	var o programText
	for g := range r.Model().Graphs() {
		at := func(what string) string {
			if g.Path() == "" {
				return what
			}
			return g.Path() + " " + what
		}
		o.set(at("inputs"), fmt.Sprint(g.Inputs()))
		o.set(at("outputs"), fmt.Sprint(g.Outputs()))
		o.set(at("captures"), fmt.Sprint(g.Captures()))
		for n := range g.Nodes() {
			o.set(at(fmt.Sprintf("node %d", n.Index())), rtenDescription(n))
		}
	}
	return o
}

// rtenDescription describes a node, without the elements of a constant.
func rtenDescription(n rten.Node) string {
	s := n.Kind().String()
	if name, named := n.Name(); named {
		s += " " + strconv.Quote(name)
	}
	op, ok := n.Operator()
	if !ok {
		if shape := rtenShape(n); shape != "" {
			s += " " + shape
		}
		return s
	}
	s += fmt.Sprintf(" %v %v to %v", op.Type(), op.Inputs(), op.Outputs())
	if t := op.AttrsTable(); t != "" {
		s += " " + t
	}
	for a := range op.Attributes() {
		if _, graph := a.Value.(*rten.Graph); !graph { // graphs have entries of their own
			s += fmt.Sprintf(" %s=%v", a.Name, a.Value)
		}
	}
	return s
}

// rtenGraph returns a group for each graph. Values between nodes are edges, labelled with
// the name of the value.
func rtenGraph(r *rten.Reader) *Graph {
	m := r.Model()
	out := &Graph{Groups: []Group{}, Links: []Link{}}
	groupOf := map[string]int{} // by path
	for g := range m.Graphs() {
		groupOf[g.Path()] = len(out.Groups)
		name := g.Path()
		if name == "" {
			name = "model"
		}
		out.Groups = append(out.Groups, rtenGroup(g, name))
	}
	for g := range m.Graphs() {
		if up, n := g.Up(); up != nil {
			op, _ := n.Operator()
			out.Links = append(out.Links,
				Link{groupOf[up.Path()], rtenNodeOf(up, n.Index()), groupOf[g.Path()],
					op.Type().String()})
		}
	}
	return out
}

// rtenNodeOf returns the index of an operator in its group: operators come first.
func rtenNodeOf(g *rten.Graph, index int) int {
	at := 0
	for n := range g.Nodes() {
		if n.Index() == index {
			break
		}
		if n.Kind() == rten.OperatorNode {
			at++
		}
	}
	return at
}

func rtenGroup(g *rten.Graph, name string) Group {
	gr := Group{Name: name, Nodes: []Node{}, Edges: []Edge{}}
	from := make([]int, g.Len()) // node that a value comes from, plus 1
	add := func(n Node) int {
		gr.Nodes = append(gr.Nodes, n)
		return len(gr.Nodes)
	}
	value := func(i int, kind NodeKind) int {
		n := g.Node(i)
		if n.Kind() == rten.ConstantNode && kind == NodeInput {
			kind = NodeConstant // the converter lists them among the captures
		}
		return add(Node{n.Label(), rtenShape(n), kind})
	}
	// Indices may be missing (-1) or invalid, which Verify reports.
	within := func(i int) bool { return i >= 0 && i < len(from) }
	for n := range g.Nodes() {
		if op, ok := n.Operator(); ok {
			name, _ := n.Name()
			at := add(Node{op.Type().String(), name, NodeOperator})
			for _, o := range op.Outputs() {
				if within(o) {
					from[o] = at
				}
			}
		}
	}
	for _, i := range slices.Concat(g.Inputs(), g.Captures()) {
		if within(i) && from[i] == 0 {
			from[i] = value(i, NodeInput)
		}
	}
	op := 0
	for n := range g.Nodes() {
		o, ok := n.Operator()
		if !ok {
			continue
		}
		for _, i := range o.Inputs() {
			if !within(i) {
				continue
			}
			if from[i] == 0 {
				from[i] = value(i, NodeInput)
			}
			label := ""
			if gr.Nodes[from[i]-1].Kind == NodeOperator {
				label = g.Node(i).Label()
			}
			gr.Edges = append(gr.Edges, Edge{from[i] - 1, op, label})
		}
		op++
	}
	for _, i := range g.Outputs() {
		if !within(i) {
			continue
		}
		at := value(i, NodeOutput)
		if from[i] > 0 {
			gr.Edges = append(gr.Edges, Edge{from[i] - 1, at - 1, ""})
		}
	}
	return gr
}

// rtenShape returns the dtype and shape of a value or constant, as far as they are known.
func rtenShape(n rten.Node) string {
	if c, ok := n.Constant(); ok {
		return c.Tensor().DType.String() + " " + c.Tensor().Shape.String()
	}
	v, ok := n.Value()
	if !ok {
		return ""
	}
	var parts []string
	if d, ok := v.DType(); ok {
		parts = append(parts, d.String())
	}
	if dims, ok := v.Shape(); ok {
		all := make([]string, len(dims))
		for i, d := range dims {
			all[i] = d.String()
		}
		parts = append(parts, "["+strings.Join(all, ", ")+"]")
	}
	return strings.Join(parts, " ")
}
