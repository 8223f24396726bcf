package rten

import (
	"iter"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// A Graph is a list of nodes. An operator names the nodes that it reads and
// writes by their index in its own graph.
type Graph struct {
	m   *Model
	i   int // in m.graphs
	raw rtenfb.Graph
}

// Path returns the operators and attributes that lead to the graph. It is empty for the
// top graph, and such as nodes[6].then_branch.nodes[2].body for the body of a Loop in a
// branch of an If.
func (g *Graph) Path() string { return g.m.path(g.i) }

func (m *Model) path(graph int) string {
	if graph == 0 {
		return ""
	}
	rec := &m.graphs[graph]
	s := "nodes[" + strconv.Itoa(int(rec.node)) + "]." + rec.attr.Name
	if rec.up != 0 {
		s = m.path(int(rec.up)) + "." + s
	}
	return s
}

// fieldPath returns the path of a field of a node for errors. node is -1 for a field of
// the graph.
func (m *Model) fieldPath(graph, node int, field string) string {
	s := "graph"
	if graph != 0 {
		s += "." + m.path(graph)
	}
	if node >= 0 {
		s += ".nodes[" + strconv.Itoa(node) + "]"
	}
	if field != "" {
		s += "." + field
	}
	return s
}

func (n Node) path(field string) string { return n.m.fieldPath(n.graph, n.index, field) }

// Up returns the graph around this one and its operator that has this graph as an
// attribute; nil and the zero Node for the top graph.
func (g *Graph) Up() (*Graph, Node) {
	if g.i == 0 {
		return nil, Node{}
	}
	rec := &g.m.graphs[g.i]
	up := g.m.graph(int(rec.up))
	return up, up.Node(int(rec.node))
}

// Len returns the number of nodes.
func (g *Graph) Len() int { return g.raw.NodesLength() }

// Node returns the node with that index. It panics if there is none.
func (g *Graph) Node(i int) Node {
	_ = make([]struct{}, g.Len())[i]
	return g.node(i)
}

func (g *Graph) node(i int) Node {
	var raw rtenfb.Node
	g.raw.Nodes(&raw, i)
	return Node{g.m, g.i, i, raw.Table().Pos}
}

// Nodes yields the nodes in the order of their indices, in which an operator comes after
// all nodes that it reads and writes.
func (g *Graph) Nodes() iter.Seq[Node] { return format.Each(g.Len(), g.node) }

// Inputs returns the indices of the nodes that a caller must give values.
func (g *Graph) Inputs() []int { return indices(g.raw.InputsLength(), g.raw.Inputs) }

// Outputs returns the indices of the nodes whose values are the result. They may be
// constants.
func (g *Graph) Outputs() []int { return indices(g.raw.OutputsLength(), g.raw.Outputs) }

// Captures returns the indices of the nodes of a subgraph that take their values, by
// name, from the graphs around it. RTen's converter also lists constants of the subgraph
// itself, and values without a name.
func (g *Graph) Captures() []int { return indices(g.raw.CapturesLength(), g.raw.Captures) }

// indices returns a vector of n node indices, nil if it is empty. Any negative number,
// which stands for an absent node, becomes -1.
func indices[T int32 | uint32](n int, at func(i int) T) []int {
	if n == 0 {
		return nil
	}
	v := make([]int, n)
	for i := range v {
		v[i] = max(int(int32(at(i))), -1)
	}
	return v
}

// graphLinks has the nodes of a graph by name, and the operators that compute and read
// each node.
type graphLinks struct {
	names     map[string]int32 // constants and values; the last one with a name
	producer  []int32          // by node: the operator that computes it, -1 for none
	consumers [][]int32        // by node: the operators that read it, once for each input
}

func (m *Model) makeLinks() []graphLinks {
	all := make([]graphLinks, len(m.graphs))
	for i := range all {
		all[i] = m.graph(i).links()
	}
	return all
}

func (g *Graph) links() graphLinks {
	l := graphLinks{make(map[string]int32), slices.Repeat([]int32{-1}, g.Len()),
		make([][]int32, g.Len())}
	for n := range g.Nodes() {
		op, ok := n.Operator()
		if !ok {
			if s, named := n.Name(); named {
				l.names[s] = int32(n.index)
			}
			continue
		}
		for _, id := range op.Outputs() {
			if id >= 0 && l.producer[id] < 0 {
				l.producer[id] = int32(n.index)
			}
		}
		for _, id := range op.Inputs() {
			if id >= 0 {
				l.consumers[id] = append(l.consumers[id], int32(n.index))
			}
		}
	}
	return l
}

// Lookup returns the constant or value with that name in this graph. If several have it,
// it returns the last, as RTen does. The first call on a Model builds an index.
func (g *Graph) Lookup(name string) (Node, bool) {
	i, ok := g.m.links()[g.i].names[name]
	if !ok {
		return Node{}, false
	}
	return g.Node(int(i)), true
}

// Producer returns the operator of the same graph that computes the node, and false for
// a constant, an input, a capture or an operator.
func (n Node) Producer() (Operator, bool) {
	i := n.m.links()[n.graph].producer[n.index]
	if i < 0 {
		return Operator{}, false
	}
	return n.Graph().Node(int(i)).Operator()
}

// Consumers yields the operators of the same graph that read the node, in their order,
// once for each input that is the node. Subgraphs that capture it are not included.
func (n Node) Consumers() iter.Seq[Operator] {
	readers := n.m.links()[n.graph].consumers[n.index]
	return format.Each(len(readers), func(i int) Operator {
		op, _ := n.Graph().Node(int(readers[i])).Operator()
		return op
	})
}
