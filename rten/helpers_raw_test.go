package rten

import (
	"bytes"
	"encoding/binary"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// raw builds flatbuffers that no writer would.
type raw struct{ fb.Builder }

// force stores a scalar even if it is the default.
func (b *raw) force(slot, size int, x uint64) { b.Scalar(slot, size, x, ^x) }

func (b *raw) ints(v ...uint32) fb.Offset {
	var p []byte
	for _, x := range v {
		p = binary.LittleEndian.AppendUint32(p, x)
	}
	return b.Scalars(p, 4, 4)
}

func (b *raw) node(name string, kind NodeKind, data fb.Offset) fb.Offset {
	s := b.String(name)
	b.Begin()
	b.Ref(rtenfb.SlotNodeName, s)
	b.Ref(rtenfb.SlotNodeData, data)
	b.force(rtenfb.SlotNodeDataType, 1, uint64(kind))
	return b.End()
}

// inline is a constant with n floats in the flatbuffer.
func (b *raw) inline(name string, n int, dims ...uint32) fb.Offset {
	values := b.Scalars(make([]byte, 4*n), 4, 4)
	b.Begin()
	b.Ref(rtenfb.SlotFloatDataData, values)
	data := b.End()
	shape := b.ints(dims...)
	b.Begin()
	b.Ref(rtenfb.SlotConstantNodeShape, shape)
	b.Ref(rtenfb.SlotConstantNodeData, data)
	b.force(rtenfb.SlotConstantNodeDtype, 2, 1)
	b.force(rtenfb.SlotConstantNodeDataType, 1, 1)
	return b.node(name, ConstantNode, b.End())
}

// outside is a float constant whose elements are in the tensor data.
func (b *raw) outside(name string, offset uint64, dims ...uint32) fb.Offset {
	return b.outsideOf(name, 1, offset, dims...)
}

func (b *raw) outsideOf(name string, dtype int, offset uint64, dims ...uint32) fb.Offset {
	shape := b.ints(dims...)
	b.Begin()
	b.force(rtenfb.SlotConstantNodeDataOffset, 8, offset)
	b.Ref(rtenfb.SlotConstantNodeShape, shape)
	if dtype >= 0 {
		b.force(rtenfb.SlotConstantNodeDtype, 2, uint64(dtype))
	}
	return b.node(name, ConstantNode, b.End())
}

func (b *raw) value(name string) fb.Offset {
	b.Begin()
	return b.node(name, ValueNode, b.End())
}

func (b *raw) operator(op OpType, tag int, attrs fb.Offset, inputs, outputs []uint32) fb.Offset {
	out := b.ints(outputs...)
	in := b.ints(inputs...)
	b.Begin()
	b.Ref(rtenfb.SlotOperatorNodeOutputs, out)
	b.Ref(rtenfb.SlotOperatorNodeInputs, in)
	b.Ref(rtenfb.SlotOperatorNodeAttrs, attrs)
	if attrs != 0 {
		b.force(rtenfb.SlotOperatorNodeAttrsType, 1, uint64(tag))
	}
	b.force(rtenfb.SlotOperatorNodeType, 1, uint64(op))
	return b.node("op", OperatorNode, b.End())
}

func (b *raw) graph(nodes []fb.Offset, inputs, outputs, captures []uint32) fb.Offset {
	list := b.Offsets(nodes)
	i, o := b.ints(inputs...), b.ints(outputs...)
	var c fb.Offset
	if captures != nil {
		c = b.ints(captures...)
	}
	b.Begin()
	b.Ref(rtenfb.SlotGraphCaptures, c)
	b.Ref(rtenfb.SlotGraphOutputs, o)
	b.Ref(rtenfb.SlotGraphInputs, i)
	b.Ref(rtenfb.SlotGraphNodes, list)
	return b.End()
}

func (b *raw) model(graph fb.Offset, version int32) []byte {
	b.Begin()
	b.Ref(rtenfb.SlotModelGraph, graph)
	b.force(rtenfb.SlotModelSchemaVersion, 4, uint64(uint32(version)))
	buf, err := b.Finish(b.End(), "")
	if err != nil {
		panic(err)
	}
	return bytes.Clone(buf)
}

// v2 puts a header before a model and n bytes of tensor data behind.
func v2(model []byte, n int) []byte {
	end := (32 + int64(len(model)) + 63) &^ 63
	b := append(Header{32, int64(len(model)), end}.append(nil), model...)
	return append(append(b, make([]byte, end-int64(len(b)))...), bytes.Repeat([]byte{7}, n)...)
}

// made is a version 2 file of one graph, with n bytes of tensor data.
func made(n int, nodes func(b *raw) []fb.Offset) []byte {
	var b raw
	return v2(b.model(b.graph(nodes(&b), nil, nil, nil), 1), n)
}

// slot is the slot of the field with a number, for fields that the schema does not have.
func slot(id int) int { return 4 + 2*id }

// firstAttrs finds the graph, the first node, and the attributes of the operator that
// it is.
func firstAttrs(model []byte) (graph, node, attrs int) {
	g := rtenfb.GetRootAsModel(model, 0).Graph(nil)
	var n rtenfb.Node
	g.Nodes(&n, 0)
	op, _ := fb.FieldTable(n.Table(), rtenfb.SlotNodeData)
	return int(g.Table().Pos), int(n.Table().Pos), fb.FieldTarget(op, rtenfb.SlotOperatorNodeAttrs)
}
