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
	names    map[string]int32 // of constants and values; the last of a name
	producer []int32          // by node: the operator that computes it, -1 for none
	first    []int32          // by node: where its consumers begin in consumer
	consumer []int32
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
	n := g.Len()
	l := &graphLinks{names: make(map[string]int32), producer: make([]int32, n),
		first: make([]int32, n+1)}
	for i := range l.producer {
		l.producer[i] = -1
	}
	reads := func(found func(id int, op int32)) {
		for n := range g.Nodes() {
			if op, ok := n.Operator(); ok {
				for _, id := range op.Inputs() {
					if id >= 0 {
						found(id, int32(n.index))
					}
				}
			}
		}
	}
	for n := range g.Nodes() {
		if op, ok := n.Operator(); ok {
			for _, id := range op.Outputs() {
				if id >= 0 && l.producer[id] < 0 {
					l.producer[id] = int32(n.index)
				}
			}
		} else if s, named := n.Name(); named {
			l.names[s] = int32(n.index)
		}
	}
	reads(func(id int, _ int32) { l.first[id+1]++ })
	for i := range n {
		l.first[i+1] += l.first[i]
	}
	l.consumer = make([]int32, l.first[n])
	next := append([]int32(nil), l.first...)
	reads(func(id int, op int32) {
		l.consumer[next[id]] = op
		next[id]++
	})
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
		l, g := n.m.linksOf(n.graph), n.Graph()
		for _, i := range l.consumer[l.first[n.index]:l.first[n.index+1]] {
			if op, ok := g.Node(int(i)).Operator(); ok && !yield(op) {
				return
			}
		}
	}
}
