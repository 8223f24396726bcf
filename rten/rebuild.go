package rten

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// A rebuilder writes all tables of a model anew, so that constants can move in or out of
// the flatbuffer and nodes can come and go. Absent fields stay absent. Tables are
// written as often as they are referred to: sharing could make the copy so small that it
// looks like an attack.
type rebuilder struct {
	e    *Edit
	enc  *encoder
	over *overlay // for the elements
	next int      // constant
}

// key is how the encoder knows constants that share their bytes.
func (c Constant) key() fileRange { return c.bytes(-1) }

func (e *Edit) rebuild(o WriterOptions, over *overlay) (*layout, error) {
	m := e.r.model
	tree, err := fb.Take(m.buf, &rtenfb.Schema, rtenfb.TableModel,
		func(table, slot int) int { return 4 })
	if err != nil {
		return nil, fmt.Errorf("rten: %w", err)
	}
	b := &rebuilder{e: e, enc: newEncoder(o), over: over}
	for c := range m.Constants() {
		if n, _ := c.elements(); !e.removed[c.n.id()] && b.enc.outside(n) {
			b.enc.place(c.key(), c.n.tensorName(), over.blob(c.off, c.size()))
		}
	}
	for i := range m.graphs {
		for _, n := range e.operators(i).inserted {
			b.enc.placeNode(n)
		}
	}
	if len(e.metadata) > 0 {
		tree.SetChild(rtenfb.SlotModelMetadata, fb.Custom(func(*fb.Builder) fb.Offset {
			return b.enc.metadata(e.mergedMetadata())
		}))
	}
	b.graph(tree.Child(rtenfb.SlotModelGraph), 0)
	return b.enc.finish(tree.WriteBackward(&b.enc.b))
}

// graph changes a graph and those inside.
func (b *rebuilder) graph(t *fb.Node, graph int) {
	g := b.e.r.model.graph(graph)
	nodes := t.Children(rtenfb.SlotGraphNodes)
	for i, node := range nodes {
		b.e.steps++
		n := g.Node(i)
		if s, ok := b.e.names[n.id()]; ok {
			node.SetString(rtenfb.SlotNodeName, s)
		}
		switch data := node.Child(rtenfb.SlotNodeData); n.Kind() {
		case ConstantNode:
			b.constant(data)
		case OperatorNode:
			b.subgraphs(data, n)
		}
	}
	if len(b.e.removed) > 0 || len(b.e.graphs) > 0 {
		b.renumber(t, g, nodes)
	}
}

// renumber gives a graph the nodes that it has after the changes, and those their new
// numbers.
func (b *rebuilder) renumber(t *fb.Node, g *Graph, nodes []*fb.Node) {
	ops := b.e.operators(g.i)
	number := make([]int, len(nodes)+len(ops.inserted))
	var kept []*fb.Node
	renumbered := func(ids []int) []int {
		out := make([]int, len(ids))
		for i, id := range ids {
			if out[i] = id; id >= 0 {
				out[i] = number[id]
			}
		}
		return out
	}
	add := func(id int, n *fb.Node) {
		number[id] = len(kept)
		kept = append(kept, n)
	}
	for i, n := range nodes {
		if number[i] = len(kept); !b.e.removed[nodeID{g.i, i}] {
			add(i, n)
		}
		for _, id := range ops.after[i] {
			n := *ops.inserted[id-len(nodes)]
			add(id, fb.Custom(func(*fb.Builder) fb.Offset {
				n.inputs, n.outputs = renumbered(n.inputs), renumbered(n.outputs)
				return b.enc.node(&n)
			}))
		}
	}
	vector := func(t *fb.Node, slot int, ids []int) {
		if t.Has(slot) {
			t.SetVector(slot, int32s(renumbered(ids)), 4)
		}
	}
	for i, n := range nodes {
		if op, ok := g.Node(i).Operator(); ok && !b.e.removed[op.n.id()] {
			data := n.Child(rtenfb.SlotNodeData)
			vector(data, rtenfb.SlotOperatorNodeInputs, ops.redirect(op.Inputs()))
			vector(data, rtenfb.SlotOperatorNodeOutputs, op.Outputs())
		}
	}
	t.SetChildren(rtenfb.SlotGraphNodes, kept)
	vector(t, rtenfb.SlotGraphInputs, g.Inputs())
	vector(t, rtenfb.SlotGraphOutputs, ops.redirect(g.Outputs()))
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

// constant has the next constant written with its elements where the options put them.
func (b *rebuilder) constant(data *fb.Node) {
	c := b.e.r.model.Constant(b.next)
	b.next++
	data.SetCustom(func(*fb.Builder) fb.Offset {
		t := c.Tensor()
		return b.enc.constant(c.key(), t.Name, t.DType, t.Shape, b.over.blob(c.off, c.size()))
	})
}
