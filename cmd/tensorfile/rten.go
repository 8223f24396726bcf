package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/rten"
)

func rtenView(r *rten.Reader) view {
	return view{
		facts:   func() object { return rtenFacts(r) },
		content: func() object { return rtenContent(r) },
		graph:   func() *graph { return rtenGraph(r) },
		metadata: func() []span {
			h, ok := r.Header()
			if !ok {
				return []span{{0, r.Size(), "model"}} // its weights are in it
			}
			return []span{{0, 32, "header"}, {h.ModelOffset, h.ModelSize, "model"}}
		},
	}
}

func rtenFacts(r *rten.Reader) object {
	m := r.Model()
	top := m.Graph()
	list := func(nodes []int) ([]string, []object) {
		names, values := []string{}, []object{}
		for _, i := range nodes {
			if i < 0 || i >= top.Len() {
				continue // verify tells
			}
			n := top.Node(i)
			names = append(names, n.Label())
			o := object{{"name", n.Label()}}
			if v, ok := n.Value(); ok {
				if d, ok := v.DType(); ok {
					o.set("dtype", d.String())
				}
				if dims, ok := v.Shape(); ok {
					shape := make([]any, len(dims))
					for i, d := range dims {
						if size, ok := d.Size(); ok {
							shape[i] = size
						} else {
							shape[i], _ = d.Symbol()
						}
					}
					o.set("shape", shape)
				}
			}
			values = append(values, o)
		}
		return names, values
	}
	inputs, inputValues := list(top.Inputs())
	outputs, outputValues := list(top.Outputs())
	counts := map[string]int{}
	graphs := 0
	for g := range m.Graphs() {
		graphs++
		for n := range g.Nodes() {
			if op, ok := n.Operator(); ok {
				counts[op.Type().String()]++
			}
		}
	}
	operators, metadata := object{}, object{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		operators.set(name, counts[name])
	}
	for k, v := range m.Metadata() {
		metadata.set(k, v)
	}
	facts := object{
		{"inputs", inputs}, {"outputs", outputs}, {"operators", operators}, {"metadata", metadata},
		{"graphs", graphs}, {"values", append(inputValues, outputValues...)},
	}
	lowest, because := m.Requires()
	requires := []object{}
	for _, b := range because {
		o := object{{"release", b.Release}, {"what", b.What}}
		if b.Field != "" {
			o.set("field", b.Field)
		}
		requires = append(requires, o)
	}
	if lowest != "" {
		facts.set("release", lowest)
	} else {
		facts.set("release", nil)
	}
	facts.set("requires", requires)
	return facts
}

// rtenContent is everything that the graphs say, whatever the version and place
// of it.
func rtenContent(r *rten.Reader) object {
	o := object{}
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

// rtenDescription is a node without the elements of a constant.
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
		if _, graph := a.Value.(*rten.Graph); !graph { // graphs are told apart on their own
			s += fmt.Sprintf(" %s=%v", a.Name, a.Value)
		}
	}
	return s
}

// rtenGraph draws a group a graph. Values in between are edges, with the name of
// the value.
func rtenGraph(r *rten.Reader) *graph {
	m := r.Model()
	out := new(graph)
	groupOf := map[string]int{} // by path
	for g := range m.Graphs() {
		groupOf[g.Path()] = len(out.groups)
		name := g.Path()
		if name == "" {
			name = "model"
		}
		out.groups = append(out.groups, rtenGroup(g, name))
	}
	for g := range m.Graphs() {
		if up, n := g.Up(); up != nil {
			op, _ := n.Operator()
			out.links = append(out.links, graphLink{groupOf[up.Path()], rtenNodeOf(up, n.Index()), groupOf[g.Path()], op.Type().String()})
		}
	}
	return out
}

// rtenNodeOf is the place of an operator in its group: operators come first.
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

func rtenGroup(g *rten.Graph, name string) graphGroup {
	gr := graphGroup{name: name}
	from := make([]int, g.Len()) // node that a value comes from, plus 1
	add := func(n graphNode) int {
		gr.nodes = append(gr.nodes, n)
		return len(gr.nodes)
	}
	value := func(i int, kind nodeKind) int {
		n := g.Node(i)
		if n.Kind() == rten.ConstantNode && kind == nodeInput {
			kind = nodeConstant // the converter lists them among the captures
		}
		return add(graphNode{n.Label(), rtenShape(n), kind})
	}
	// Indices may be missing, or what verify tells about.
	within := func(i int) bool { return i >= 0 && i < len(from) }
	for n := range g.Nodes() {
		if op, ok := n.Operator(); ok {
			name, _ := n.Name()
			at := add(graphNode{op.Type().String(), name, nodeOperator})
			for _, o := range op.Outputs() {
				if within(o) {
					from[o] = at
				}
			}
		}
	}
	for _, i := range slices.Concat(g.Inputs(), g.Captures()) {
		if within(i) && from[i] == 0 {
			from[i] = value(i, nodeInput)
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
				from[i] = value(i, nodeInput)
			}
			label := ""
			if gr.nodes[from[i]-1].kind == nodeOperator {
				label = g.Node(i).Label()
			}
			gr.edges = append(gr.edges, graphEdge{from[i] - 1, op, label})
		}
		op++
	}
	for _, i := range g.Outputs() {
		if !within(i) {
			continue
		}
		at := value(i, nodeOutput)
		if from[i] > 0 {
			gr.edges = append(gr.edges, graphEdge{from[i] - 1, at - 1, ""})
		}
	}
	return gr
}

// rtenShape is the dtype and shape of a value or constant, as far as known.
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
