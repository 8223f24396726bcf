package rten

import (
	"strconv"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/quote"
)

// order reports what has no value when it is read, or is given two.
func (g *GraphBuilder) order() {
	made := make([]bool, len(g.nodes))
	for _, id := range g.inputs {
		made[id] = true
	}
	for i, n := range g.nodes {
		made[i] = made[i] || n.kind == ConstantNode || n.captures != nil
		for k, id := range n.inputs {
			if id >= 0 && !made[id] {
				g.fail("%v: input %d is computed by nothing before it", n.op, k)
			}
		}
		for k, id := range n.outputs {
			switch {
			case id < 0:
			case made[id]:
				g.fail("%v: output %d has a value already", n.op, k)
			default:
				made[id] = true
			}
		}
	}
	first := make(map[int]int)
	for k, id := range g.outputs {
		if !made[id] {
			g.fail("output %d of the graph is computed by nothing", k)
		}
		if before, again := first[id]; again {
			g.fail("output %d of the graph is output %d again", k, before)
		}
		first[id] = k
	}
}

// finish gives names to what has none and needs one, for captures go by name,
// and reports names that are not unique.
func (g *GraphBuilder) finish() {
	if len(*g.errs) == 0 {
		g.order()
	}
	g.names = make(map[string]*builtNode)
	for i, n := range g.nodes {
		if !n.named || n.kind == OperatorNode {
			continue
		}
		if !utf8.ValidString(n.name) {
			g.fail("the name %s is not UTF-8", quote.Name(n.name))
		}
		if g.names[n.name] != nil {
			g.fail("node %d: another constant or value is named %s", i, quote.Name(n.name))
		}
		g.names[n.name] = n
	}
	name := func(n *builtNode, prefix string, id int) {
		for k := id; !n.named; k++ {
			n.name = prefix + "_" + strconv.Itoa(k)
			n.named = g.names[n.name] == nil
		}
		g.names[n.name] = n
	}
	for i, n := range g.nodes {
		if n.kind == ConstantNode && n.wanted {
			name(n, "constant", i)
		}
		for _, id := range n.outputs {
			if id >= 0 {
				name(g.nodes[id], n.op.String(), id)
			}
		}
	}
	for i, n := range g.nodes {
		if n.captures != nil {
			g.finishCapture(i, n)
		}
		for _, sub := range n.attrs.graphs() {
			sub.finish()
		}
	}
}

// finishCapture gives a captured value the name of what it captures, and sees
// that RTen, which looks from the inside out, finds no other first.
func (g *GraphBuilder) finishCapture(i int, n *builtNode) {
	of := n.captures
	for of.captures != nil {
		of = of.captures
	}
	if other := g.names[of.name]; other != nil && other != n {
		g.fail("node %d: %s is captured from an outer graph, and the name of another node here",
			i, quote.Name(of.name))
	}
	n.name, n.named = of.name, true
	g.names[n.name] = n
	for up := g.up; up != nil; up = up.up {
		x := up.names[n.name]
		if x == of {
			return
		}
		if x != nil && x.captures == nil {
			g.fail("node %d: %s is captured from an outer graph, but a graph in between has one",
				i, quote.Name(n.name))
			return
		}
	}
}
