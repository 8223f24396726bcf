package rten

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// check looks for what the changes together would break.
func (e *Edit) check() error {
	if len(e.names)+len(e.removed)+len(e.graphs) == 0 {
		return nil
	}
	for g := range e.r.model.Graphs() {
		if err := errors.Join(e.checkNames(g), e.checkUses(g), e.checkCaptures(g)); err != nil {
			return err
		}
	}
	return nil
}

// checkNames checks that no new name is taken.
func (e *Edit) checkNames(g *Graph) error {
	taken := make(map[string]bool) // true for a new one
	add := func(name string, fresh bool) error {
		if before, ok := taken[name]; ok && (fresh || before) {
			return errorf(tensor.ErrDuplicate, "another constant or value has the name %s",
				naming.Quote(name))
		}
		taken[name] = fresh
		return nil
	}
	for n := range g.Nodes() {
		e.steps++
		if n.Kind() == OperatorNode || e.removed[n.id()] {
			continue
		}
		name, named := n.Name()
		s, fresh := e.names[n.id()]
		if fresh {
			name, named = s, true
		}
		if named {
			if err := add(name, fresh); err != nil {
				return err
			}
		}
	}
	for _, n := range e.operators(g.i).inserted {
		if n.kind == ValueNode || n.named {
			if err := add(n.name, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkUses checks that nothing uses a node that is removed. Readers of a value may read
// another instead; a damaged file may have a second operator that computes it.
func (e *Edit) checkUses(g *Graph) error {
	if len(e.removed) == 0 {
		return nil
	}
	readers := e.operators(g.i).readers
	used := func(ids []int, reads bool, by string, args ...any) error {
		for _, id := range ids {
			if id < 0 || !e.removed[nodeID{g.i, id}] {
				continue
			}
			n := g.Node(id)
			if _, redirected := readers[id]; n.Kind() == ConstantNode || !reads || !redirected {
				return errorf(errors.ErrUnsupported, "%s is %s",
					naming.Quote(n.tensorName()), fmt.Sprintf(by, args...))
			}
		}
		return nil
	}
	for n := range g.Nodes() {
		e.steps++
		if op, ok := n.Operator(); ok && !e.removed[n.id()] {
			const by = "used by node %d, %s"
			if err := errors.Join(used(op.Inputs(), true, by, n.index, op.Type()),
				used(op.Outputs(), false, by, n.index, op.Type())); err != nil {
				return err
			}
		}
	}
	return errors.Join(used(g.Inputs(), false, "an input of its graph"),
		used(g.Outputs(), true, "an output of its graph"),
		used(g.Captures(), false, "captured by its graph"))
}

// checkCaptures checks that graphs inside, which take values by name, find the same ones
// although those constants change.
func (e *Edit) checkCaptures(g *Graph) error {
	for n := range g.Nodes() {
		fresh, renamed := e.names[n.id()]
		old, named := n.Name()
		if n.Kind() != ConstantNode || !renamed && !e.removed[n.id()] || !named || old == fresh {
			continue
		}
		if path, ok := e.capturedInside(g.i, old); ok {
			return errorf(errors.ErrUnsupported, "%s captures %s by its name",
				path, naming.Quote(n.tensorName()))
		}
		if path, ok := e.capturedInside(g.i, fresh); ok && !e.removed[n.id()] {
			return errorf(errors.ErrUnsupported, "%s captures another tensor named %s", path,
				naming.Quote(fresh))
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
