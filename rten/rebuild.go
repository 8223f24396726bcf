package rten

import (
	"errors"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A rebuilder writes all tables of a model anew, so that constants can move into or out
// of the flatbuffer, or be removed. Absent fields stay absent. A table that is referred
// to twice is written twice: a file in which many references share a table may look like
// an attack.
type rebuilder struct {
	e       *Edit
	enc     *encoder
	changes changes
	next    int // the index of the next constant
}

func (e *Edit) rebuild(o WriterOptions, all changes) (*sections, error) {
	tree, err := fb.Take(e.r.model.buf, &rtenfb.Schema, rtenfb.TableModel,
		func(table, slot int) int { return 4 })
	if err != nil {
		return nil, errs.New(errors.ErrUnsupported, "%w", err)
	}
	b := &rebuilder{e: e, enc: &encoder{opts: o, placed: make(map[any]int64)}, changes: all}
	b.place()
	if e.changed {
		tree.SetChild(rtenfb.SlotModelMetadata, fb.Custom(func(*fb.Builder) fb.Offset {
			return b.enc.metadata(e.metadata)
		}))
	}
	b.graph(tree.Child(rtenfb.SlotModelGraph), 0)
	return b.enc.finish(tree.WriteBackward(&b.enc.b))
}

// place assigns constants their offsets in the tensor data. Bytes of constants that
// overlap are stored once.
func (b *rebuilder) place() {
	m := b.e.r.model
	var ranges []fileRange
	for i := range m.constants {
		c := m.Constant(i)
		n, _ := c.elements()
		if ch := b.changes[c.n.id()]; !ch.Removed && ch.Tensor == nil && b.enc.outside(n) {
			ranges = append(ranges, c.bytes(i))
		}
	}
	sortRanges(ranges)
	whole := make(map[int]fileRange, len(ranges)) // by constant: its range and overlapping ones
	for i := 0; i < len(ranges); {
		x, first := ranges[i], i
		for i++; i < len(ranges) && ranges[i].off < x.end; i++ {
			x.end = max(x.end, ranges[i].end)
		}
		x.constant = -1
		for _, y := range ranges[first:i] {
			whole[y.constant] = x
		}
	}
	for i := range m.constants {
		c, t := m.Constant(i), &b.e.r.tensors()[i]
		n, _ := c.elements()
		if ch := b.changes[c.n.id()]; ch.Tensor != nil && b.enc.outside(n) {
			b.enc.place(i, t.Name, ch.Tensor.Data)
		} else if x, ok := whole[i]; ok {
			data, _ := b.e.r.src.Extent(x.off, x.end-x.off)
			b.enc.place(x, t.Name, tensor.NewBlob(&data))
			b.enc.placed[i] = b.enc.placed[x] + c.off - x.off
		}
	}
}

// graph changes a graph and its subgraphs.
func (b *rebuilder) graph(t *fb.Node, graph int) {
	g := b.e.r.model.graph(graph)
	nodes := t.Children(rtenfb.SlotGraphNodes)
	for i, node := range nodes {
		n := g.Node(i)
		c := b.changes[n.id()]
		if c.Renamed {
			node.SetString(rtenfb.SlotNodeName, c.Name)
		}
		switch data := node.Child(rtenfb.SlotNodeData); n.Kind() {
		case ConstantNode:
			b.constant(data, c.Tensor)
		case OperatorNode:
			b.subgraphs(data, n)
		}
	}
	b.renumber(t, g, nodes)
}

// renumber removes nodes, and updates the indices of the other nodes.
func (b *rebuilder) renumber(t *fb.Node, g *Graph, nodes []*fb.Node) {
	number := make([]int, len(nodes))
	var remaining []*fb.Node
	for i, n := range nodes {
		if number[i] = len(remaining); !b.changes[nodeID{g.i, i}].Removed {
			remaining = append(remaining, n)
		}
	}
	if len(remaining) == len(nodes) {
		return
	}
	vector := func(t *fb.Node, slot int, ids []int) {
		for i, id := range ids {
			if id >= 0 {
				ids[i] = number[id]
			}
		}
		if t.Has(slot) {
			t.SetVector(slot, int32s(ids), 4)
		}
	}
	for i, n := range nodes {
		if op, ok := g.Node(i).Operator(); ok {
			data := n.Child(rtenfb.SlotNodeData)
			vector(data, rtenfb.SlotOperatorNodeInputs, op.Inputs())
			vector(data, rtenfb.SlotOperatorNodeOutputs, op.Outputs())
		}
	}
	t.SetChildren(rtenfb.SlotGraphNodes, remaining)
	vector(t, rtenfb.SlotGraphInputs, g.Inputs())
	vector(t, rtenfb.SlotGraphOutputs, g.Outputs())
	vector(t, rtenfb.SlotGraphCaptures, g.Captures())
}

func (b *rebuilder) subgraphs(data *fb.Node, n Node) {
	attrs := data.Child(rtenfb.SlotOperatorNodeAttrs)
	if attrs == nil {
		return
	}
	for _, f := range subgraphFields() {
		if i, ok := b.e.r.model.subgraphs()[graphKey{uint32(n.graph), uint32(n.index), f}]; ok {
			b.graph(attrs.Child(int(f.Slot)), i)
		}
	}
}

// constant replaces the table of the next constant: the encoder writes it, with the
// elements where the options put them.
func (b *rebuilder) constant(data *fb.Node, replacement *tensor.Tensor) {
	i := b.next
	b.next++
	t := &b.e.r.tensors()[i]
	elements := t.Data
	if replacement != nil {
		elements = replacement.Data
	}
	data.SetCustom(func(*fb.Builder) fb.Offset {
		return b.enc.constant(i, t.Name, t.DType, t.Shape, elements)
	})
}
