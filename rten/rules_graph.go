package rten

import (
	"encoding/binary"
	"fmt"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// graph checks a Graph, its nodes and its subgraphs, and adds them to the Model.
func (c *checker) graph(rec graphRecord) error {
	m := c.m
	i := len(m.graphs)
	m.graphs = append(m.graphs, rec)
	g := m.graph(i)
	raw := g.raw.Table()
	n := g.Len()
	if c.nodes += int64(n); c.nodes > c.limits.MaxTensors {
		return m.fail(tensor.ErrLimit, fb.FieldTarget(raw, rtenfb.SlotGraphNodes),
			m.fieldPath(i, -1, "nodes"), "more than %d nodes", c.limits.MaxTensors)
	}
	if i == 0 { // the verifier allows a table for each 4 bytes, and a constant has two tables
		m.constants = make([]constantRecord, 0, min(n, len(m.buf)/8))
	}
	pos, field, id := wrongIndex(raw, rtenfb.TableGraph,
		func(id uint32) bool { return int64(id) >= int64(n) },
		rtenfb.SlotGraphInputs, rtenfb.SlotGraphOutputs, rtenfb.SlotGraphCaptures)
	if field != "" {
		return m.fail(tensor.ErrMalformed, pos, m.fieldPath(i, -1, field), "node %d of %d", id, n)
	}
	for j := range n {
		if err := c.node(g.node(j)); err != nil {
			return err
		}
	}
	return nil
}

// wrongIndex returns the first wrong element of vectors of node indices. field is empty
// if there is none.
func wrongIndex(t flatbuffers.Table, table int, wrong func(id uint32) bool,
	slots ...int) (pos int, field string, id uint32) {
	for _, slot := range slots {
		b, _ := fb.FieldBytes(t, slot, 4)
		for j := range len(b) / 4 {
			if id := binary.LittleEndian.Uint32(b[4*j:]); wrong(id) {
				name := rtenfb.Schema.Tables[table].FieldName(slot)
				return fb.FieldTarget(t, slot) + 4 + 4*j, fmt.Sprintf("%s[%d]", name, j), id
			}
		}
	}
	return 0, "", 0
}

// graph makes all checks of a graph.
func (v *verifier) graph() {
	g := v.g
	v.producer = slices.Repeat([]int32{noProducer}, g.Len())
	for _, ids := range [][]int{g.Inputs(), g.Captures()} {
		for _, id := range ids {
			v.producer[id] = given
			if v.kind(id) == OperatorNode {
				v.node(g.Node(id), "",
					"the node of a value that is given to the graph is an operator")
			}
		}
	}
	for node := range g.Nodes() {
		if op, ok := node.Operator(); ok {
			v.outputs(op)
		}
	}
	// RTen orders operators by itself: the one that computes a value may come after one
	// that reads it.
	for node := range g.Nodes() {
		if op, ok := node.Operator(); ok {
			v.inputs(op)
			v.attributes(op)
		}
	}
	seen := make(map[int]bool)
	for j, id := range g.Outputs() {
		switch kind := v.kind(id); {
		case seen[id]:
			v.warn(-1, fb.FieldTarget(g.raw.Table(), rtenfb.SlotGraphOutputs)+4+4*j,
				fmt.Sprintf("outputs[%d]", j),
				"node %d is an output twice: RTen refuses to plan the graph", id)
		case kind == OperatorNode:
			v.node(g.Node(id), "", "the node of an output of the graph is an operator")
		case kind == ValueNode && v.producer[id] == noProducer:
			v.node(g.Node(id), "", "an output of the graph that nothing computes")
		}
		seen[id] = true
	}
	v.cycles()
	v.duplicates()
	v.captures()
}

// cycles warns of operators that depend on their own results.
func (v *verifier) cycles() {
	g := v.g
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, g.Len())
	type frame struct {
		node   int
		inputs []int
	}
	var stack []frame
	push := func(node int) {
		state[node] = open
		op, _ := g.Node(node).Operator()
		stack = append(stack, frame{node, op.Inputs()})
	}
	for node := range g.Nodes() {
		if node.Kind() != OperatorNode || state[node.index] != unseen {
			continue
		}
		push(node.index)
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.inputs) == 0 {
				state[top.node] = done
				stack = stack[:len(stack)-1]
				continue
			}
			id := top.inputs[0]
			top.inputs = top.inputs[1:]
			if id < 0 || v.producer[id] < 0 {
				continue
			}
			switch op := int(v.producer[id]); state[op] {
			case unseen:
				push(op)
			case open:
				v.node(g.Node(op), "",
					"the operator waits for its own result, by way of node %d", id)
			}
		}
	}
}

// duplicates warns of names that several constants or values of a graph have: RTen finds
// the last.
func (v *verifier) duplicates() {
	seen := make(map[string]int)
	for node := range v.g.Nodes() {
		name, named := node.Name()
		if !named || name == "" || node.Kind() == OperatorNode {
			continue
		}
		if first, ok := seen[name]; ok {
			v.node(node, "name", "%s is the name of node %d as well", naming.Quote(name), first)
			continue
		}
		seen[name] = node.index
	}
}

// captures checks that each name that a subgraph captures exists in a graph around it.
func (v *verifier) captures() {
	g := v.g
	for j, id := range g.Captures() {
		name, named := g.Node(id).Name()
		if v.kind(id) != ValueNode || !named || name == "" {
			continue // rten-convert lists constants of the subgraph, and junk
		}
		found := false
		for up, _ := g.Up(); up != nil && !found; up, _ = up.Up() {
			_, found = up.Lookup(name)
		}
		if !found {
			v.warn(-1, fb.FieldTarget(g.raw.Table(), rtenfb.SlotGraphCaptures),
				fmt.Sprintf("captures[%d]", j),
				"no graph around this one has a tensor named %s", naming.Quote(name))
		}
	}
}
