package rten

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// check looks for what the changes together would break, in one pass over each graph
// that has any.
func (e *Edit) check() error {
	m := e.r.model
	// Constants that are renamed or removed, by graph and node.
	changed := make(map[int]map[int]int)
	note := func(i int) {
		rec := m.constants[i]
		if changed[int(rec.graph)] == nil {
			changed[int(rec.graph)] = make(map[int]int)
		}
		changed[int(rec.graph)][int(rec.node)] = i
	}
	for i := range e.names {
		note(i)
	}
	for i := range e.removed {
		note(i)
	}
	for g := range e.graphs {
		if changed[g] == nil {
			changed[g] = make(map[int]int)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	for _, i := range slices.Sorted(maps.Keys(changed)) {
		c := &graphCheck{e: e, g: m.graph(i), changed: changed[i]}
		if err := errors.Join(c.names(), c.uses(), c.captures()); err != nil {
			return err
		}
	}
	return nil
}

type graphCheck struct {
	e       *Edit
	g       *Graph
	changed map[int]int
}

// removed reports whether a node is a constant that is left out.
func (c *graphCheck) removed(node int) bool {
	i, ok := c.changed[node]
	return ok && c.e.removed[i]
}

// names checks that no new name is taken.
func (c *graphCheck) names() error {
	taken := make(map[string]bool) // true for a new one
	add := func(name string, fresh bool) error {
		if before, ok := taken[name]; ok && (fresh || before) {
			return fmt.Errorf("%w: rten: another constant or value has the name %s",
				tensor.ErrDuplicate, quote.Name(name))
		}
		taken[name] = fresh
		return nil
	}
	ops := c.e.graphs[c.g.i]
	for n := range c.g.Nodes() {
		c.e.steps++
		if n.Kind() == OperatorNode || c.removed(n.index) || ops.isRemoved(n.index) {
			continue
		}
		name, named := n.Name()
		fresh := false
		if i, ok := c.changed[n.index]; ok {
			name, fresh = c.e.names[i], true
			named = true
		} else if s, ok := ops.renamed(n.index); ok {
			name, fresh, named = s, true, true
		}
		if named {
			if err := add(name, fresh); err != nil {
				return err
			}
		}
	}
	for _, n := range ops.insertedNodes() {
		if n.kind == ValueNode || n.named {
			if err := add(n.name, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// uses checks that nothing uses a constant that is removed.
func (c *graphCheck) uses() error {
	if len(c.e.removed) == 0 {
		return nil
	}
	used := func(ids []int, by string, args ...any) error {
		for _, id := range ids {
			if id >= 0 && c.removed(id) {
				name := quote.Name(c.e.r.model.tensorName(c.changed[id]))
				return fmt.Errorf("%w: rten: %s is %s", errors.ErrUnsupported, name,
					fmt.Sprintf(by, args...))
			}
		}
		return nil
	}
	ops := c.e.graphs[c.g.i]
	for n := range c.g.Nodes() {
		c.e.steps++
		if op, ok := n.Operator(); ok && !ops.isRemoved(n.index) {
			if err := used(append(op.Inputs(), op.Outputs()...), "used by node %d, %s", n.index,
				op.Type()); err != nil {
				return err
			}
		}
	}
	return errors.Join(used(c.g.Inputs(), "an input of its graph"),
		used(c.g.Outputs(), "an output of its graph"),
		used(c.g.Captures(), "captured by its graph"))
}

// captures checks that graphs inside, which take values by name, find the same ones.
func (c *graphCheck) captures() error {
	for _, node := range slices.Sorted(maps.Keys(c.changed)) {
		i := c.changed[node]
		n := c.g.Node(node)
		if old, named := n.Name(); named && old != c.e.names[i] {
			if path, ok := c.e.capturedInside(c.g.i, old); ok {
				return fmt.Errorf("%w: rten: %s captures %s by its name", errors.ErrUnsupported,
					path, quote.Name(n.tensorName()))
			}
			if path, ok := c.e.capturedInside(c.g.i, c.e.names[i]); ok && !c.e.removed[i] {
				return fmt.Errorf("%w: rten: %s captures another tensor named %s",
					errors.ErrUnsupported, path, quote.Name(c.e.names[i]))
			}
		}
	}
	return nil
}

// capturedInside finds a graph inside one which captures a value of that name.
func (e *Edit) capturedInside(graph int, name string) (path string, found bool) {
	m := e.r.model
	if e.captured == nil {
		e.captured = make(map[string][]int)
		for g := range m.Graphs() {
			for _, id := range g.Captures() {
				e.steps++
				n := g.Node(id)
				if s, named := n.Name(); named && n.Kind() == ValueNode {
					e.captured[s] = append(e.captured[s], g.i)
				}
			}
		}
	}
	for _, g := range e.captured[name] {
		for i := g; i != 0; {
			e.steps++
			if i = int(m.graphs[i].up); i == graph {
				return m.path(g), true
			}
		}
	}
	return "", false
}
