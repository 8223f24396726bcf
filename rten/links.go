package rten

import (
	"iter"
	"sync"
)

// links are the names of a model's graphs and who computes and reads what, found for one
// graph at a time when first asked for.
type links struct {
	mu     sync.Mutex
	graphs map[int]*graphLinks
}

type graphLinks struct {
	names     map[string]int32 // of constants and values; the last of a name
	producer  []int32          // by node: the operator that computes it, -1 for none
	consumers [][]int32        // by node: the operators that read it, once for each input
}

func (m *Model) linksOf(graph int) *graphLinks {
	m.links.mu.Lock()
	defer m.links.mu.Unlock()
	l := m.links.graphs[graph]
	if l == nil {
		l = newGraphLinks(m.graph(graph))
		if m.links.graphs == nil {
			m.links.graphs = make(map[int]*graphLinks)
		}
		m.links.graphs[graph] = l
	}
	return l
}

func newGraphLinks(g *Graph) *graphLinks {
	l := &graphLinks{names: make(map[string]int32), producer: make([]int32, g.Len()),
		consumers: make([][]int32, g.Len())}
	for i := range l.producer {
		l.producer[i] = -1
	}
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

// Lookup returns the constant or value of that name in this graph: the last where
// several share it, as RTen does. The first call builds an index.
func (g *Graph) Lookup(name string) (Node, bool) {
	i, ok := g.m.linksOf(g.i).names[name]
	if !ok {
		return Node{}, false
	}
	return g.Node(int(i)), true
}

// Producer returns the operator of the same graph that computes the node, and false for
// a constant, an input, a capture or an operator.
func (n Node) Producer() (Operator, bool) {
	i := n.m.linksOf(n.graph).producer[n.index]
	if i < 0 {
		return Operator{}, false
	}
	return n.Graph().Node(int(i)).Operator()
}

// Consumers yields the operators of the same graph that read the node, in their order,
// and once for each input that does. Graphs inside may capture it as well.
func (n Node) Consumers() iter.Seq[Operator] {
	return func(yield func(Operator) bool) {
		g := n.Graph()
		for _, i := range n.m.linksOf(n.graph).consumers[n.index] {
			if op, ok := g.Node(int(i)).Operator(); ok && !yield(op) {
				return
			}
		}
	}
}
