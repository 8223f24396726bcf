package rten

import "fmt"

// A patchIndex holds what the checks of a Patch ask for. It is made in one pass over
// the model, so that n changes cost O(n).
type patchIndex struct {
	names    map[nameKey]nodeCount // of constants and values
	uses     map[nodeKey]string    // of a node, in its own graph
	captured map[string][]int      // graphs that capture a value of that name
	sharing  []*sharedBytes        // by constant; nil for one that shares nothing
	steps    int                   // nodes visited, for tests
}

type nameKey struct {
	graph int
	name  string
}

type nodeKey struct{ graph, node int }

// A nodeCount is how many nodes have a name, and one of them.
type nodeCount struct{ n, node int }

// A sharedBytes is a part of the file that several constants overlap in.
type sharedBytes struct {
	constants []fileRange
	distinct  []fileRange // without those that are equal
}

func newPatchIndex(m *Model) *patchIndex {
	x := &patchIndex{
		names:    make(map[nameKey]nodeCount),
		uses:     make(map[nodeKey]string),
		captured: make(map[string][]int),
		sharing:  make([]*sharedBytes, len(m.constants)),
	}
	for g := range m.Graphs() {
		x.addGraph(g)
	}
	var ranges []fileRange
	for i := range m.constants {
		x.steps++
		var p payload
		if p.read(m, m.Constant(i).pos); p.size > 0 {
			ranges = append(ranges, fileRange{p.off, p.off + p.size, i})
		}
	}
	sortRanges(ranges)
	for i := 0; i < len(ranges); {
		j, end := i+1, ranges[i].end
		for ; j < len(ranges) && ranges[j].off < end; j++ {
			end = max(end, ranges[j].end)
		}
		if j > i+1 {
			s := &sharedBytes{constants: ranges[i:j]}
			for k, r := range s.constants {
				x.sharing[r.constant] = s
				if k == 0 || r.off != s.constants[k-1].off || r.end != s.constants[k-1].end {
					s.distinct = append(s.distinct, r)
				}
			}
		}
		i = j
	}
	return x
}

func (x *patchIndex) addGraph(g *Graph) {
	use := func(id int, what string) {
		if k := (nodeKey{g.i, id}); id >= 0 && x.uses[k] == "" {
			x.uses[k] = what
		}
	}
	for n := range g.Nodes() {
		x.steps++
		if op, ok := n.Operator(); ok {
			what := fmt.Sprintf("used by node %d, %s", n.index, op.Type())
			for _, id := range op.Inputs() {
				use(id, what)
			}
			for _, id := range op.Outputs() {
				use(id, what)
			}
		} else if s, named := n.Name(); named {
			k := nameKey{g.i, s}
			x.names[k] = nodeCount{x.names[k].n + 1, n.index}
		}
	}
	for _, id := range g.Inputs() {
		use(id, "an input of its graph")
	}
	for _, id := range g.Outputs() {
		use(id, "an output of its graph")
	}
	for _, id := range g.Captures() {
		use(id, "captured of its graph")
		n := g.Node(id)
		if s, named := n.Name(); named && n.Kind() == ValueNode {
			x.captured[s] = append(x.captured[s], g.i)
		}
	}
}

// capturedIn finds a graph inside that of n which captures a value of that name.
func (x *patchIndex) capturedIn(m *Model, n Node, name string) (path string, found bool) {
	for _, g := range x.captured[name] {
		for i := g; i != 0; {
			x.steps++
			if i = int(m.graphs[i].up); i == n.graph {
				return m.path(g), true
			}
		}
	}
	return "", false
}
