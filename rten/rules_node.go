package rten

import (
	"errors"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// fail returns an error of a field of the node, at pos of the flatbuffer.
func (n Node) fail(class error, pos int, field, format string, args ...any) error {
	return n.m.fail(class, pos, n.path(field), format, args...)
}

// node checks a Node and its constant, value or operator.
func (c *checker) node(n Node) error {
	m := c.m
	raw := n.Raw()
	if name := raw.Name(); int64(len(name)) > c.limits.MaxName {
		return n.fail(tensor.ErrLimit, fb.FieldTarget(raw.Table(), rtenfb.SlotNodeName), "name",
			"%d bytes", len(name))
	}
	switch kind := n.Kind(); kind {
	case 0:
		return n.fail(tensor.ErrMalformed, int(n.pos), "data", "a node that is nothing")
	case ConstantNode:
		constant, problem := n.readConstant()
		switch rank := int64(constant.rank); {
		case rank > c.limits.MaxRank:
			return n.fail(tensor.ErrLimit, int(n.data()), "data.shape", "%d dimensions", rank)
		case problem != nil:
			return problem
		}
		m.constants = append(m.constants,
			constantRecord{constant.payload, uint32(n.pos), uint32(n.index), uint32(n.graph)})
	case ValueNode:
		v, _ := n.Value()
		raw := &v.raw
		if rank := int64(raw.ShapeLength()); rank > c.limits.MaxRank {
			return n.fail(tensor.ErrLimit, int(n.data()), "data.shape", "%d dimensions", rank)
		}
		if d := raw.Dtype(); d != nil && int(*d) >= len(dataTypes) {
			return n.fail(errors.ErrUnsupported,
				fb.FieldPos(raw.Table(), rtenfb.SlotValueNodeDtype), "data.dtype", "dtype %d", *d)
		}
	case OperatorNode:
		op, _ := n.Operator()
		return c.operator(op)
	default:
		return n.fail(errors.ErrUnsupported, fb.FieldPos(raw.Table(), rtenfb.SlotNodeDataType),
			"data_type", "node of kind %d", kind)
	}
	return nil
}

// input warns of dimensions of 0 of an input. In other ValueNodes they may be correct.
func (d *deviations) input(v Value) {
	dims, _ := v.Shape()
	for i, dim := range dims {
		if n, fixed := dim.Size(); fixed && n == 0 {
			d.noteAt(tensor.ErrMalformed,
				fb.FieldPos(d.at.Table, rtenfb.SlotValueNodeShape), "shape["+strconv.Itoa(i)+"]",
				"an input of size 0, which rten-convert writes for a size that is not known: "+
					"RTen 0.25 and later accept no other")
		}
	}
}
