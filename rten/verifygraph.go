package rten

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A graphVerifier looks for what RTen loads but refuses to run, or runs
// otherwise than the file says.
type graphVerifier struct {
	g        *Graph
	list     *format.Findings
	producer []int32 // the operators that compute the nodes; see given
}

const (
	nobody = -1
	given  = -2 // an input or a capture, not the output of an operator
)

func (m *Model) verifyGraphs(ctx context.Context, list *format.Findings) error {
	for g := range m.Graphs() {
		if err := ctx.Err(); err != nil || list.Full() {
			return err
		}
		v := &graphVerifier{g: g, list: list}
		v.graph()
	}
	return nil
}

func (v *graphVerifier) kind(node int) NodeKind { return v.g.Node(node).Kind() }

// warn notes something about a node, the graph itself where that is -1, at a position in
// the flatbuffer.
func (v *graphVerifier) warn(node, pos int, field, format string, args ...any) {
	m := v.g.m
	v.list.Warn(m.fail(tensor.ErrMalformed, pos, m.fieldPath(v.g.i, node, field), format, args...))
}

// node notes something about a node.
func (v *graphVerifier) node(n Node, field, format string, args ...any) {
	v.warn(n.index, int(n.pos), field, format, args...)
}

func (v *graphVerifier) graph() {
	g := v.g
	v.producer = slices.Repeat([]int32{nobody}, g.Len())
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
		case kind == ValueNode && v.producer[id] == nobody:
			v.node(g.Node(id), "", "an output of the graph that nothing computes")
		}
		seen[id] = true
	}
	v.cycles()
	v.duplicates()
	v.captures()
}

// warnOperator notes something about an operator, at one of its fields.
func (v *graphVerifier) warnOperator(op Operator, slot int, field, format string, args ...any) {
	v.warn(op.n.index, fb.FieldPosOr(op.raw.Table(), slot), "data."+field, format, args...)
}

// outputs notes what the operator computes.
func (v *graphVerifier) outputs(op Operator) {
	for j, id := range op.Outputs() {
		if id < 0 {
			continue
		}
		field := fmt.Sprintf("outputs[%d]", j)
		switch {
		case v.kind(id) != ValueNode:
			v.warnOperator(op, rtenfb.SlotOperatorNodeOutputs, field,
				"node %d is a %v, not a value", id, v.kind(id))
		case v.producer[id] != nobody:
			v.warnOperator(op, rtenfb.SlotOperatorNodeOutputs, field,
				"node %d has another producer", id)
		default:
			v.producer[id] = int32(op.n.index)
		}
	}
}

func (v *graphVerifier) inputs(op Operator) {
	inputs := op.Inputs()
	for j, id := range inputs {
		field := fmt.Sprintf("inputs[%d]", j)
		switch {
		case id < 0:
		case v.kind(id) == OperatorNode:
			v.warnOperator(op, rtenfb.SlotOperatorNodeInputs, field,
				"node %d is an operator, not a tensor", id)
		case v.kind(id) == ValueNode && v.producer[id] == nobody:
			v.warnOperator(op, rtenfb.SlotOperatorNodeInputs, field,
				"nothing gives node %d a value", id)
		}
	}
	// Missing ones at the end count: RTen drops them of outputs only.
	t := op.Type()
	if max := t.MaxInputs(); max >= 0 && len(inputs) > max {
		v.warnOperator(op, rtenfb.SlotOperatorNodeInputs, "inputs",
			"%d inputs where %v takes at most %d", len(inputs), t, max)
	}
	absent := func(i int) bool { return i >= len(inputs) || inputs[i] < 0 }
	min := t.MinInputs()
	if a, _ := op.Attribute("equation"); t == OpEinsum {
		equation, _ := a.Value.(string)
		terms, _, _ := strings.Cut(equation, "->")
		min = strings.Count(terms, ",") + 1
	}
	for i := range min {
		if absent(i) {
			v.warnOperator(op, rtenfb.SlotOperatorNodeInputs, fmt.Sprintf("inputs[%d]", i),
				"absent, while %v needs its first %d inputs", t, min)
			return
		}
	}
	if a, b, ok := t.needsOneOf(); ok && absent(a) && absent(b) {
		v.warnOperator(op, rtenfb.SlotOperatorNodeInputs, "inputs", "%v needs input %d or %d", t,
			a, b)
	}
}

// attributes checks that the operator has the table of attributes that it
// needs, and values that RTen knows.
func (v *graphVerifier) attributes(op Operator) {
	warn := func(slot int, field, format string, args ...any) {
		v.warnOperator(op, slot, field, format, args...)
	}
	t := op.Type()
	if !t.Known() {
		return // departures has said so
	}
	rule := &rules[t]
	tag := op.attrsTag()
	switch {
	case rule.use == ignored:
		if tag != 0 {
			warn(rtenfb.SlotOperatorNodeAttrsType, "attrs", "%s, which %v does not read",
				op.AttrsTable(), t)
		}
		return
	case tag == 0 && rule.use == needed:
		warn(rtenfb.SlotOperatorNodeType, "attrs", "absent, while %v needs %s", t,
			attrTable(int(rule.attrs)).Name)
		return
	case tag != 0 && tag != int(rule.attrs):
		warn(rtenfb.SlotOperatorNodeAttrsType, "attrs", "%s where %v requires %s",
			op.AttrsTable(), t, attrTable(int(rule.attrs)).Name)
		return
	}
	for a := range op.Attributes() {
		switch x := a.Value.(type) {
		case Enum:
			if a.Set && !x.known() {
				warn(rtenfb.SlotOperatorNodeAttrs, "attrs."+a.Name, "%d is not a %s", x.Number,
					x.Type)
			}
		case nil:
			if t == OpIf || t == OpLoop {
				warn(rtenfb.SlotOperatorNodeAttrs, "attrs."+a.Name, "absent, while %v needs it", t)
			}
		}
	}
	if t == OpConstantOfShape {
		_, raw := op.attrs()
		var x rtenfb.ConstantOfShapeAttrs
		x.Init(raw.Bytes, raw.Pos)
		if kind := x.ValueType(); kind > rtenfb.ScalarFloatScalar {
			warn(rtenfb.SlotOperatorNodeAttrs, "attrs.value", "a scalar of kind %d", kind)
		}
	}
}

// cycles finds operators that wait for their own results.
func (v *graphVerifier) cycles() {
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

// duplicates looks for names that several constants and values of a graph
// share: RTen finds the last of them.
func (v *graphVerifier) duplicates() {
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

// captures checks that the names that a subgraph takes from around it exist
// there, at whatever level.
func (v *graphVerifier) captures() {
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
