package rten

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// operator checks the indices of inputs and outputs, and the subgraphs of the operator.
func (c *checker) operator(op Operator) error {
	pos, field, id := wrongIndex(op.raw.Table(), rtenfb.TableOperatorNode,
		func(id uint32) bool { return int(int32(id)) >= op.n.index }, // missing ones are negative
		rtenfb.SlotOperatorNodeInputs, rtenfb.SlotOperatorNodeOutputs)
	if field != "" {
		return op.n.fail(tensor.ErrMalformed, pos, "data."+field,
			"node %d, which is not before the operator", id)
	}
	table, attrs := op.attrs()
	if table == nil || attrs.Bytes == nil {
		return nil
	}
	for i := range table.Fields {
		f := &table.Fields[i]
		if f.Kind != fb.Child {
			continue
		}
		if t, ok := fb.FieldTable(attrs, int(f.Slot)); ok {
			if err := c.graph(graphRecord{uint32(t.Pos), uint32(op.n.graph), uint32(op.n.index),
				f}); err != nil {
				return err
			}
		}
	}
	return nil
}

// operator warns of operators of a newer schema.
func (d *deviations) operator(op OpType) {
	if !op.Known() {
		d.note(errors.ErrUnsupported, rtenfb.SlotOperatorNodeType,
			"operator %v is newer than this library", op)
	}
}

// warnOperator warns of a field of an operator.
func (v *verifier) warnOperator(op Operator, slot int, field, format string, args ...any) {
	v.warn(op.n.index, fb.FieldPosOr(op.raw.Table(), slot), "data."+field, format, args...)
}

// outputs checks the outputs of the operator.
func (v *verifier) outputs(op Operator) {
	for j, id := range op.Outputs() {
		if id < 0 {
			continue
		}
		field := fmt.Sprintf("outputs[%d]", j)
		switch {
		case v.kind(id) != ValueNode:
			v.warnOperator(op, rtenfb.SlotOperatorNodeOutputs, field,
				"node %d is a %v, not a value", id, v.kind(id))
		case v.producer[id] != noProducer:
			v.warnOperator(op, rtenfb.SlotOperatorNodeOutputs, field,
				"node %d has another producer", id)
		default:
			v.producer[id] = int32(op.n.index)
		}
	}
}

// inputs checks the inputs of the operator.
func (v *verifier) inputs(op Operator) {
	inputs := op.Inputs()
	for j, id := range inputs {
		field := fmt.Sprintf("inputs[%d]", j)
		switch {
		case id < 0:
		case v.kind(id) == OperatorNode:
			v.warnOperator(op, rtenfb.SlotOperatorNodeInputs, field,
				"node %d is an operator, not a tensor", id)
		case v.kind(id) == ValueNode && v.producer[id] == noProducer:
			v.warnOperator(op, rtenfb.SlotOperatorNodeInputs, field,
				"nothing gives node %d a value", id)
		}
	}
	// Absent inputs at the end count: RTen drops absent outputs only.
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

// attributes checks that the operator has the required table of attributes, and that RTen
// knows their values.
func (v *verifier) attributes(op Operator) {
	warn := func(slot int, field, format string, args ...any) {
		v.warnOperator(op, slot, field, format, args...)
	}
	t := op.Type()
	if !t.Known() {
		return // a warning of Open
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
