package rten

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// A graphEdit is what changes among the operators of a graph. A nil one changes nothing.
// New nodes have the numbers after those of the graph until all are renumbered.
type graphEdit struct {
	g        *Graph
	inserted []insertion
	after    map[int][]int  // what is inserted after a node, in order
	readers  map[int]int    // what the readers of a node read instead
	names    map[int]string // of values
	removed  map[int]bool
	taken    map[string]bool // names
}

type insertion struct {
	builtNode
	id int
}

func (e *Edit) graphEdit(n Node) (*graphEdit, error) {
	if n.m != e.r.model {
		return nil, errors.New("rten: a node of another model")
	}
	x := e.graphs[n.graph]
	if x == nil {
		x = &graphEdit{g: n.Graph(), after: make(map[int][]int), readers: make(map[int]int),
			names:   make(map[int]string),
			removed: make(map[int]bool), taken: make(map[string]bool)}
		for n := range x.g.Nodes() {
			if s, named := n.Name(); named {
				x.taken[s] = true
			}
		}
		e.graphs[n.graph] = x
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
		return fmt.Errorf("%w: rten: node %d is an operator", errors.ErrUnsupported, n.index)
	case x.removed[n.index]:
		return fmt.Errorf("%w: rten: %s is removed", errors.ErrUnsupported,
			quote.Name(n.Label()))
	case name != "" && e.isCaptured(n.graph, name):
		return fmt.Errorf("%w: rten: a graph inside captures %s", errors.ErrUnsupported,
			quote.Name(name))
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
	read, redirected := x.readers[n.index]
	if !redirected {
		read = n.index
	}
	// Those of scratch's nodes: its value is n, then constants, the output, the operator.
	ids := []int{read}
	anchor := n.index
	producer, computed := n.Producer()
	for i, b := range scratch.nodes[1:] {
		node := *b
		switch node.kind {
		case ConstantNode:
			if node.named && !x.take(node.name) {
				return fmt.Errorf("%w: rten: node %d: another has the name %s",
					tensor.ErrDuplicate, i, quote.Name(node.name))
			}
		case ValueNode:
			x.nameOutput(&node, n, read, op, computed)
			x.readers[n.index] = x.g.Len() + len(x.inserted)
		case OperatorNode:
			for k, id := range node.inputs {
				node.inputs[k] = ids[id]
			}
			node.outputs = []int{x.readers[n.index]}
			if computed {
				anchor = max(anchor, producer.n.index)
			}
		}
		id := x.g.Len() + len(x.inserted)
		ids = append(ids, id)
		x.after[anchor] = append(x.after[anchor], len(x.inserted))
		x.inserted = append(x.inserted, insertion{node, id})
	}
	return nil
}

func (x *graphEdit) take(name string) bool {
	if x.taken[name] {
		return false
	}
	x.taken[name] = true
	return true
}

// nameOutput names the value that an operator inserted after n computes, which its
// readers have read as node read so far.
func (x *graphEdit) nameOutput(v *builtNode, n Node, read int, op string, computed bool) {
	name, ok := x.names[read]
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
			x.names[read] = fresh
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
	for k, id := range outputs {
		if id < 0 {
			continue
		}
		v := g.Node(id)
		name, _ := v.Name()
		isRead := name != "" && e.isCaptured(op.n.graph, name)
		fixed := isRead
		for range v.Consumers() {
			isRead = true
		}
		result := slices.Contains(g.Outputs(), id)
		isRead = isRead || result
		switch {
		case isRead && (k > 0 || fixed || len(inputs) == 0 || inputs[0] < 0):
			return fmt.Errorf("%w: rten: %s of node %d, %v, is read, and no input can replace it",
				errors.ErrUnsupported, v.Label(), op.n.index, op.Type())
		case result:
			source := g.Node(inputs[0])
			old, _ := source.Name()
			if _, computed := source.Producer(); !computed || slices.Contains(g.Outputs(),
				inputs[0]) || e.isCaptured(op.n.graph, old) {
				return fmt.Errorf("%w: rten: %s cannot take over the name of the output %s",
					errors.ErrUnsupported, source.Label(), v.Label())
			}
			x.names[inputs[0]] = name
		}
		if isRead {
			x.readers[id] = inputs[0]
		}
		x.removed[id] = true
	}
	x.removed[op.n.index] = true
	return nil
}

// isCaptured reports whether a graph inside captures a value of that name.
func (e *Edit) isCaptured(graph int, name string) bool {
	_, found := e.capturedInside(graph, name)
	return found
}

func (x *graphEdit) isRemoved(node int) bool { return x != nil && x.removed[node] }

func (x *graphEdit) renamed(node int) (string, bool) {
	if x == nil {
		return "", false
	}
	s, ok := x.names[node]
	return s, ok
}

func (x *graphEdit) insertedNodes() []insertion {
	if x == nil {
		return nil
	}
	return x.inserted
}

// redirect gives readers what they read instead.
func (x *graphEdit) redirect(ids []int) []int {
	if x != nil {
		for i, id := range ids {
			for to, ok := x.readers[id]; ok; to, ok = x.readers[to] {
				ids[i] = to
			}
		}
	}
	return ids
}

// A nodeOrder is the nodes of a graph after the changes.
type nodeOrder struct {
	nodes  []orderedNode
	number []int // new ones, by old ones and those of insertions
}

// An orderedNode is one of the original, or an inserted one.
type orderedNode struct {
	old      int
	inserted *builtNode
}

func (x *graphEdit) order(keep []bool) *nodeOrder {
	o := &nodeOrder{number: make([]int, len(keep)+len(x.insertedNodes()))}
	for i, kept := range keep {
		o.number[i] = len(o.nodes)
		if kept {
			o.nodes = append(o.nodes, orderedNode{old: i})
		}
		if x == nil {
			continue
		}
		for _, k := range x.after[i] {
			o.number[x.inserted[k].id] = len(o.nodes)
			o.nodes = append(o.nodes, orderedNode{inserted: &x.inserted[k].builtNode})
		}
	}
	return o
}

// renumber returns the new numbers of nodes.
func (o *nodeOrder) renumber(ids []int) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		if out[i] = id; id >= 0 {
			out[i] = o.number[id]
		}
	}
	return out
}
