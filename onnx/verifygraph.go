package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
)

// A scope is the values of a graph by name, and the graph around it.
type scope struct {
	g        *Graph
	producer map[string]int // the node that computes a value, -1 for inputs and initializers
	up       *scope
	found    *format.Findings
	uses     [][2]int // a node, and the node that computes a value that it uses
}

// verify checks the names of values and the order of nodes, in all graphs.
func (m *Model) verify(found *format.Findings) {
	if m.Graph == nil {
		return
	}
	main := newScope(m.Graph, nil, found)
	main.check()
	for _, f := range m.Functions {
		newScope(f.Graph, nil, found).check()
	}
	for _, t := range m.Training { // its graphs may use the values of the main graph
		for _, g := range []*Graph{t.Initialization, t.Algorithm} {
			if g != nil {
				newScope(g, main, found).check()
			}
		}
	}
}

// newScope lists the values of a graph, and reports names that two values have.
func newScope(g *Graph, up *scope, found *format.Findings) *scope {
	s := &scope{g: g, producer: map[string]int{}, up: up, found: found}
	twice := func(off int64, field, name string) {
		s.report(off, field, "a second value named %s", naming.Quote(name))
	}
	seen := map[string]bool{}
	for i, v := range g.Inputs {
		if s.producer[v.Name] = -1; seen[v.Name] {
			twice(v.at, fmt.Sprintf("input[%d]", i), v.Name)
		}
		seen[v.Name] = true
	}
	clear(seen)
	for i, x := range g.initializers {
		name := x.local(g)
		if s.producer[name] = -1; seen[name] && name != "" {
			twice(x.at, fmt.Sprintf("initializer[%d]", i), name)
		}
		seen[name] = true
	}
	for i := range g.Nodes {
		for j, name := range g.Nodes[i].Outputs {
			if name == "" {
				continue
			}
			if _, ok := s.producer[name]; ok {
				twice(g.Nodes[i].at, fmt.Sprintf("node[%d].output[%d]", i, j), name)
				continue
			}
			s.producer[name] = i
		}
	}
	return s
}

// report adds a finding of a field of the graph.
func (s *scope) report(off int64, field, format string, args ...any) {
	s.found.Error(errs.Malformed(off, s.g.field+"."+field, format, args...))
}

// check reports names that no value has, and nodes in a wrong order.
func (s *scope) check() {
	for i := range s.g.Nodes {
		n := &s.g.Nodes[i]
		if s.found.Full() {
			return
		}
		if n.OpType == "" {
			s.report(n.at, fmt.Sprintf("node[%d].op_type", i), "missing")
		}
		for j, name := range n.Inputs {
			if name != "" && !s.use(name, i) {
				s.report(n.at, fmt.Sprintf("node[%d].input[%d]", i, j),
					"there is no value named %s", naming.Quote(name))
			}
		}
		for sub := range n.graphs() {
			inner := newScope(sub, s, s.found)
			inner.check()
		}
	}
	for i, v := range s.g.Outputs {
		if !s.use(v.Name, len(s.g.Nodes)) {
			s.report(v.at, fmt.Sprintf("output[%d]", i),
				"there is no value named %s", naming.Quote(v.Name))
		}
	}
	s.order()
}

// use reports whether name, which node i uses, is a value of this graph or of a graph
// around it, and records which node computes it.
func (s *scope) use(name string, i int) bool {
	for s != nil {
		if from, ok := s.producer[name]; ok {
			if from >= 0 && i < len(s.g.Nodes) {
				s.uses = append(s.uses, [2]int{i, from})
			}
			return true
		}
		if i = s.g.node; s.g.up == nil {
			i = math.MaxInt // a graph of training comes after all nodes of the main graph
		}
		s = s.up
	}
	return false
}

// order warns of nodes that come before a node whose value they use. A cycle is an error.
func (s *scope) order() {
	late := slices.DeleteFunc(slices.Clone(s.uses), func(u [2]int) bool { return u[1] < u[0] })
	if len(late) == 0 {
		return
	}
	waits, users := make([]int, len(s.g.Nodes)), make([][]int, len(s.g.Nodes))
	for _, u := range s.uses {
		waits[u[0]]++
		users[u[1]] = append(users[u[1]], u[0])
	}
	var ready []int
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, user := range users[i] {
			if waits[user]--; waits[user] == 0 {
				ready = append(ready, user)
			}
		}
	}
	cycle := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
	if cycle >= 0 {
		s.report(s.g.Nodes[cycle].at, fmt.Sprintf("node[%d]", cycle),
			"it waits for nodes that wait for each other")
		return
	}
	for _, u := range late {
		s.found.Warn(errs.Malformed(s.g.Nodes[u[0]].at,
			fmt.Sprintf("%s.node[%d]", s.g.field, u[0]),
			"it comes before node[%d], whose value it uses", u[1]))
	}
}
