package rten

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A graphEdit is what changes among the operators of a graph, beyond names and nodes that
// are removed. New nodes have the numbers after those of the graph until all are
// renumbered.
type graphEdit struct {
	g        *Graph
	inserted []*builtNode
	after    map[int][]int   // what is inserted after a node, in order
	readers  map[int]int     // what the readers of a node read instead
	taken    map[string]bool // names
}

// operators are the changes of a graph, for reading.
func (e *Edit) operators(graph int) *graphEdit {
	return cmp.Or(e.graphs[graph], new(graphEdit))
}

// graphEdit returns the changes of the graph of n, for a call that keeps them in
// Edit.graphs once it can no longer fail.
func (e *Edit) graphEdit(n Node) (*graphEdit, error) {
	if n.m != e.r.model {
		return nil, errorf(fs.ErrInvalid, "a node of another model")
	}
	x := e.graphs[n.graph]
	if x == nil {
		x = &graphEdit{g: n.Graph(), after: make(map[int][]int), readers: make(map[int]int),
			taken: make(map[string]bool)}
		for n := range x.g.Nodes() {
			if s, named := n.Name(); named {
				x.taken[s] = true
			}
		}
	}
	return x, nil
}

// InsertAfter inserts an operator that takes a value or constant for its first input and
// new constants for the others. Everything in its graph that read n, outputs of the
// graph included, then reads what the operator computes. Of a value that an operator
// computes the new one takes over the name. Attributes are as in [GraphBuilder.Op],
// without graphs.
func (e *Edit) InsertAfter(n Node, op string, attrs Attrs, constants ...*tensor.Tensor) error {
	x, err := e.graphEdit(n)
	if err != nil {
		return err
	}
	name, _ := n.Name()
	switch {
	case n.Kind() == OperatorNode:
		return errorf(errors.ErrUnsupported, "node %d is an operator", n.index)
	case e.removed[n.id()]:
		return errorf(errors.ErrUnsupported, "%s is removed", naming.Quote(n.Label()))
	case name != "" && e.isCaptured(n.graph, name):
		return errorf(errors.ErrUnsupported, "a graph inside captures %s", naming.Quote(name))
	}
	scratch := NewGraphBuilder()
	inputs := []Ref{scratch.Value("", tensor.Unknown)}
	for _, t := range constants {
		inputs = append(inputs, scratch.Constant(t))
	}
	scratch.Op(op, attrs, inputs...)
	if err := scratch.Err(); err != nil {
		return err
	}
	for i, b := range scratch.nodes[1:] {
		if b.kind == ConstantNode && b.named && x.taken[b.name] {
			return errorf(tensor.ErrDuplicate, "node %d: another has the name %s", i,
				naming.Quote(b.name))
		}
	}
	e.graphs[n.graph] = x
	for _, t := range constants {
		e.inserted.AddTensor(t)
	}
	read, redirected := x.readers[n.index]
	if !redirected {
		read = n.index
	}
	// Those of scratch's nodes: its value is n, then constants, the output, the operator.
	ids := []int{read}
	anchor := n.index
	producer, computed := n.Producer()
	for _, b := range scratch.nodes[1:] {
		id := x.g.Len() + len(x.inserted)
		switch b.kind {
		case ConstantNode:
			if b.named {
				x.take(b.name)
			}
		case ValueNode:
			e.nameOutput(b, n, read, op, computed)
			x.readers[n.index] = id
		case OperatorNode:
			for k, id := range b.inputs {
				b.inputs[k] = ids[id]
			}
			b.outputs = []int{x.readers[n.index]}
			if computed {
				anchor = max(anchor, producer.n.index)
			}
		}
		ids = append(ids, id)
		x.after[anchor] = append(x.after[anchor], id)
		x.inserted = append(x.inserted, b)
	}
	return nil
}

func (x *graphEdit) take(name string) bool {
	free := !x.taken[name]
	x.taken[name] = true
	return free
}

// nameOutput names the value that an operator inserted after n computes, which its
// readers have read as node read so far.
func (e *Edit) nameOutput(v *builtNode, n Node, read int, op string, computed bool) {
	x := e.graphs[n.graph]
	name, ok := e.names[nodeID{n.graph, read}]
	switch {
	case read >= x.g.Len():
		name = x.inserted[read-x.g.Len()].name
	case !ok:
		name = n.Label()
	}
	fresh := name + "_" + op
	for k := 2; !x.take(fresh); k++ {
		fresh = name + "_" + op + "_" + strconv.Itoa(k)
	}
	v.name, v.named = fresh, true
	if computed { // it takes over the name
		v.name = name
		if read >= x.g.Len() {
			x.inserted[read-x.g.Len()].name = fresh
		} else {
			e.names[nodeID{n.graph, read}] = fresh
		}
	}
}

// RemoveOperator leaves out an operator and the values that it computes. Everything in
// its graph that read the first of them then reads its first input; the others must have
// no readers. An output of the graph keeps its name.
func (e *Edit) RemoveOperator(op Operator) error {
	x, err := e.graphEdit(op.n)
	if err != nil {
		return err
	}
	inputs, outputs := op.Inputs(), op.Outputs()
	g := x.g
	removed := []nodeID{op.n.id()}
	redirected := -1    // the first output, if it is read
	var newName *string // of the node that is read instead, if it becomes an output
	for k, id := range outputs {
		if id < 0 {
			continue
		}
		v := g.Node(id)
		name, _ := v.Name()
		isRead := name != "" && e.isCaptured(op.n.graph, name)
		fixed := isRead
		for reader := range v.Consumers() {
			isRead = isRead || reader.n.index != op.n.index
		}
		result := slices.Contains(g.Outputs(), id)
		isRead = isRead || result
		switch {
		case isRead && (k > 0 || fixed || len(inputs) == 0 || inputs[0] < 0 ||
			x.reaches(inputs[0], id)):
			return errorf(errors.ErrUnsupported,
				"%s of node %d, %v, is read, and no input can replace it", v.Label(), op.n.index,
				op.Type())
		case result:
			source := g.Node(inputs[0])
			old, _ := source.Name()
			if _, computed := source.Producer(); !computed || slices.Contains(g.Outputs(),
				inputs[0]) || e.isCaptured(op.n.graph, old) {
				return errorf(errors.ErrUnsupported,
					"%s cannot take over the name of the output %s", source.Label(), v.Label())
			}
			newName = &name
		}
		if isRead {
			redirected = id
		}
		removed = append(removed, v.id())
	}
	if redirected >= 0 {
		x.readers[redirected] = inputs[0]
	}
	if newName != nil {
		e.names[nodeID{op.n.graph, inputs[0]}] = *newName
	}
	for _, id := range removed {
		e.removed[id] = true
	}
	e.graphs[op.n.graph] = x
	return nil
}

// isCaptured reports whether a graph inside captures a value of that name.
func (e *Edit) isCaptured(graph int, name string) bool {
	_, found := e.capturedInside(graph, name)
	return found
}

// reaches reports whether the readers of a node read another in place of it, directly or
// by way of others. In a cycle of operators nothing would be left to read.
func (x *graphEdit) reaches(from, to int) bool {
	for ok := true; ok; from, ok = x.readers[from] {
		if from == to {
			return true
		}
	}
	return false
}

// redirect gives readers what they read instead.
func (x *graphEdit) redirect(ids []int) []int {
	for i, id := range ids {
		for to, ok := x.readers[id]; ok; to, ok = x.readers[to] {
			ids[i] = to
		}
	}
	return ids
}
