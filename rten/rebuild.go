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
	m    *Model
	enc  *encoder
	over *overlay // for the elements
	next int      // constant
	err  error    // of writing an element
}

// A rangeKey is how the encoder knows constants that share their bytes.
type rangeKey struct{ off, size int64 }

func (e *Edit) rebuild(o WriterOptions, over *overlay) (*layout, error) {
	m := e.r.model
	tree, err := fb.Take(m.buf, &rtenfb.Schema, rtenfb.TableModel,
		func(table, slot int) int { return 4 })
	if err != nil {
		return nil, fmt.Errorf("rten: %w", err)
	}
	b := &rebuilder{e: e, m: m, enc: newEncoder(o), over: over}
	for i := range m.constants {
		p := m.Constant(i).payload()
		if e.removed[i] || !b.enc.outside(p.elements) {
			continue
		}
		if err := b.enc.place(rangeKey{p.off, p.size}, m.tensorName(i),
			over.blob(p.off, p.size)); err != nil {
			return nil, err
		}
	}
	for i := range m.graphs {
		for _, n := range e.graphs[i].insertedNodes() {
			if err := n.place(b.enc); err != nil {
				return nil, err
			}
		}
	}
	if len(e.metadata) > 0 {
		tree.SetChild(rtenfb.SlotModelMetadata, fb.Custom(func(*fb.Builder) fb.Offset {
			return encodeMetadata(b.enc, e.mergedMetadata())
		}))
	}
	b.graph(tree.Child(rtenfb.SlotModelGraph), 0)
	root := tree.WriteBackward(&b.enc.b)
	if b.err != nil {
		return nil, b.err
	}
	return b.enc.model(root)
}

// graph changes a graph and those inside.
func (b *rebuilder) graph(t *fb.Node, graph int) {
	g := b.m.graph(graph)
	ops := b.e.graphs[graph]
	nodes := t.Children(rtenfb.SlotGraphNodes)
	keep := make([]bool, len(nodes))
	for i, n := range nodes {
		b.e.steps++
		keep[i] = !ops.isRemoved(i)
		data := n.Child(rtenfb.SlotNodeData)
		switch g.Node(i).Kind() {
		case ConstantNode:
			keep[i] = !b.e.removed[b.next]
			b.constant(n, data)
		case OperatorNode:
			b.subgraphs(data, g.Node(i))
		case ValueNode:
			if s, ok := ops.renamed(i); ok {
				n.SetString(rtenfb.SlotNodeName, s)
			}
		}
	}
	if len(b.e.removed) == 0 && len(b.e.graphs) == 0 {
		return
	}
	order := ops.order(keep)
	renumber := order.renumber
	children := make([]*fb.Node, 0, len(order.nodes))
	for _, x := range order.nodes {
		if x.inserted == nil {
			children = append(children, nodes[x.old])
			continue
		}
		n := *x.inserted
		n.inputs, n.outputs = renumber(n.inputs), renumber(n.outputs)
		children = append(children, fb.Custom(func(*fb.Builder) fb.Offset {
			at, err := n.encode(b.enc)
			b.fail(err)
			return at
		}))
	}
	vector := func(t *fb.Node, slot int, ids []int) {
		if t.Has(slot) {
			t.SetVector(slot, int32s(renumber(ids)), 4)
		}
	}
	for i, n := range nodes {
		if op, ok := g.Node(i).Operator(); ok && keep[i] {
			data := n.Child(rtenfb.SlotNodeData)
			vector(data, rtenfb.SlotOperatorNodeInputs, ops.redirect(op.Inputs()))
			vector(data, rtenfb.SlotOperatorNodeOutputs, op.Outputs())
		}
	}
	t.SetChildren(rtenfb.SlotGraphNodes, children)
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
		if i, ok := b.m.subgraphs()[graphKey{uint32(n.graph), uint32(n.index), f}]; ok {
			b.graph(attrs.Child(int(f.Slot)), i)
		}
	}
}

// constant has the next constant written with its elements where the options put them.
func (b *rebuilder) constant(n, data *fb.Node) {
	i := b.next
	b.next++
	if name, ok := b.e.names[i]; ok {
		n.SetString(rtenfb.SlotNodeName, name)
	}
	if b.e.removed[i] {
		return
	}
	p := b.m.Constant(i).payload()
	data.SetCustom(func(*fb.Builder) fb.Offset {
		at, err := b.enc.constant(rangeKey{p.off, p.size}, b.m.tensorName(i), p.dtype, p.shape(),
			b.over.blob(p.off, p.size))
		b.fail(err)
		return at
	})
}

func (b *rebuilder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}
