package rten

import (
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// plan places the constants of a graph under construction.
func (g *GraphBuilder) plan(e *encoder) error {
	for _, n := range g.nodes {
		if err := n.place(e); err != nil {
			return err
		}
		for _, sub := range n.attrs.graphs() {
			if err := sub.plan(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// place assigns a constant its offset, if it goes to the tensor data.
func (n *builtNode) place(e *encoder) error {
	if n.kind != ConstantNode {
		return nil
	}
	if elements, _ := n.tensor.Shape.Elements(); !e.outside(elements) {
		return nil
	}
	return e.place(n.tensor, n.name, n.tensor.Data)
}

func (g *GraphBuilder) encode(e *encoder) (fb.Offset, error) {
	nodes := make([]fb.Offset, len(g.nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		var err error
		if nodes[i], err = g.nodes[i].encode(e); err != nil {
			return 0, err
		}
	}
	var captures fb.Offset
	if len(g.captures) > 0 {
		captures = e.indices(g.captures)
	}
	outputs := e.indices(g.outputs)
	inputs := e.indices(g.inputs)
	list := e.b.Offsets(nodes)
	e.b.Begin()
	e.b.Ref(rtenfb.SlotGraphCaptures, captures)
	e.b.Ref(rtenfb.SlotGraphOutputs, outputs)
	e.b.Ref(rtenfb.SlotGraphInputs, inputs)
	e.b.Ref(rtenfb.SlotGraphNodes, list)
	return e.b.End(), nil
}

func (n *builtNode) encode(e *encoder) (fb.Offset, error) {
	var data fb.Offset
	var err error
	switch n.kind {
	case ConstantNode:
		data, err = e.constant(n.tensor, n.name, n.tensor.DType, n.tensor.Shape, n.tensor.Data)
	case ValueNode:
		data = n.encodeValue(e)
	case OperatorNode:
		data, err = n.encodeOperator(e)
	}
	if err != nil {
		return 0, err
	}
	var name fb.Offset
	if n.named {
		name = e.b.String(n.name)
	}
	e.b.Begin()
	e.b.Ref(rtenfb.SlotNodeName, name)
	e.b.Ref(rtenfb.SlotNodeData, data)
	e.scalar(rtenfb.SlotNodeDataType, 1, uint64(n.kind))
	return e.b.End(), nil
}

func (n *builtNode) encodeValue(e *encoder) fb.Offset {
	var shape fb.Offset
	if n.dims != nil {
		dims := make([]fb.Offset, len(n.dims))
		for i, d := range n.dims {
			if d.symbolic {
				name := e.b.String(d.name)
				dims[i] = e.only(rtenfb.SlotDimName, name)
			} else {
				e.b.Begin()
				e.scalar(rtenfb.SlotDimValue, 4, uint64(d.size))
				dims[i] = e.b.End()
			}
		}
		shape = e.b.Offsets(dims)
	}
	e.b.Begin()
	e.b.Ref(rtenfb.SlotValueNodeShape, shape)
	if number, ok := dataTypeNumber(n.dtype); ok {
		e.scalar(rtenfb.SlotValueNodeDtype, 1, uint64(number))
	}
	return e.b.End()
}

func (n *builtNode) encodeOperator(e *encoder) (fb.Offset, error) {
	var attrs fb.Offset
	if n.attrs != nil {
		var err error
		if attrs, err = n.attrs.encode(e); err != nil {
			return 0, err
		}
	}
	outputs := e.indices(n.outputs)
	inputs := e.indices(n.inputs)
	e.b.Begin()
	e.b.Ref(rtenfb.SlotOperatorNodeOutputs, outputs)
	e.b.Ref(rtenfb.SlotOperatorNodeInputs, inputs)
	if attrs != 0 {
		e.b.Ref(rtenfb.SlotOperatorNodeAttrs, attrs)
		e.scalar(rtenfb.SlotOperatorNodeAttrsType, 1, uint64(n.attrs.tag))
	}
	e.scalar(rtenfb.SlotOperatorNodeType, 1, uint64(n.op))
	return e.b.End(), nil
}

func (a *builtAttrs) encode(e *encoder) (fb.Offset, error) {
	children := make([]fb.Offset, len(a.fields))
	for i := range a.fields {
		f := &a.fields[i]
		var err error
		switch {
		case !f.set:
		case f.graph != nil:
			children[i], err = f.graph.encode(e)
		case f.field.Kind == fb.String:
			children[i] = e.b.String(f.text)
		case f.field.Kind == fb.Scalars:
			children[i] = e.b.Scalars(f.list, 4, 4)
		case f.field.Kind == fb.Union:
			e.b.Begin()
			e.scalar(scalarSlots[f.tag], 4, uint64(f.bits))
			children[i] = e.b.End()
		}
		if err != nil {
			return 0, err
		}
	}
	e.b.Begin()
	for _, width := range [...]int{4, 1} { // large fields first, so that no padding comes between
		for i := range a.fields {
			f := &a.fields[i]
			slot := int(f.field.Slot)
			switch size := int(f.field.Size); {
			case !f.set:
			case children[i] != 0:
				if width == 4 {
					e.b.Ref(slot, children[i])
				} else if f.field.Kind == fb.Union {
					e.scalar(int(f.field.TagSlot()), 1, uint64(f.tag))
				}
			case size == width:
				e.scalar(slot, width, uint64(f.bits))
			}
		}
	}
	return e.b.End(), nil
}

// scalarSlots is indexed by the tag of the union Scalar.
var scalarSlots = [...]int{
	rtenfb.ScalarIntScalar:   rtenfb.SlotIntScalarValue,
	rtenfb.ScalarFloatScalar: rtenfb.SlotFloatScalarValue,
}
