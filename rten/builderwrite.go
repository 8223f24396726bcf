package rten

import (
	"io/fs"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// order reports nodes that are read before they have a value, and nodes that get two
// values.
func (g *GraphBuilder) order() {
	made := make([]bool, len(g.nodes))
	for _, id := range g.inputs {
		made[id] = true
	}
	for i, n := range g.nodes {
		made[i] = made[i] || n.kind == ConstantNode || n.captures != nil
		for k, id := range n.inputs {
			if id >= 0 && !made[id] {
				g.fail(fs.ErrInvalid, "%v: input %d is computed by nothing before it", n.op, k)
			}
		}
		for k, id := range n.outputs {
			switch {
			case id < 0:
			case made[id]:
				g.fail(fs.ErrInvalid, "%v: output %d has a value already", n.op, k)
			default:
				made[id] = true
			}
		}
	}
	first := make(map[int]int)
	for k, id := range g.outputs {
		if !made[id] {
			g.fail(fs.ErrInvalid, "output %d of the graph is computed by nothing", k)
		}
		if before, again := first[id]; again {
			g.fail(fs.ErrInvalid, "output %d of the graph is output %d again", k, before)
		}
		first[id] = k
	}
}

// finish gives names to outputs of operators and to captured constants that have none.
// Captures need the names.
func (g *GraphBuilder) finish() {
	if len(*g.errs) == 0 {
		g.order()
	}
	name := func(n *builtNode, prefix string, id int) {
		for k := id; !n.named; k++ {
			n.name = prefix + "_" + strconv.Itoa(k)
			n.named = g.names[n.name] == nil
		}
		g.names[n.name] = n
	}
	for i, n := range g.nodes {
		if n.kind == ConstantNode && n.isCaptured {
			name(n, "constant", i)
		}
		for _, id := range n.outputs {
			if id >= 0 {
				name(g.nodes[id], n.op.String(), id)
			}
		}
	}
	for i, n := range g.nodes {
		if n.captures != nil {
			g.finishCapture(i, n)
		}
		for _, sub := range n.graphs {
			sub.g.finish()
		}
	}
}

// finishCapture gives a capturing value the name of the captured node, and reports an
// error if RTen, which looks from the inside out, would find another node of that name
// first.
func (g *GraphBuilder) finishCapture(i int, n *builtNode) {
	of := n.captures
	for of.captures != nil {
		of = of.captures
	}
	if other := g.names[of.name]; other != nil && other != n {
		g.fail(fs.ErrInvalid,
			"node %d: %s is captured from an outer graph, and the name of another node here",
			i, naming.Quote(of.name))
	}
	n.name, n.named = of.name, true
	g.names[n.name] = n
	for up := g.up; up != nil; up = up.up {
		x := up.names[n.name]
		if x == of {
			return
		}
		if x != nil && x.captures == nil {
			g.fail(fs.ErrInvalid,
				"node %d: %s is captured from an outer graph, but a graph in between has one",
				i, naming.Quote(n.name))
			return
		}
	}
}

// placeGraph assigns the constants of a graph under construction their offsets.
func (e *encoder) placeGraph(g *GraphBuilder) {
	for _, n := range g.nodes {
		if n.kind == ConstantNode {
			if elements, _ := n.tensor.Shape.Elements(); e.outside(elements) {
				e.place(n.tensor, n.name, n.tensor.Data)
			}
		}
		for _, sub := range n.graphs {
			e.placeGraph(sub.g)
		}
	}
}

func (e *encoder) graph(g *GraphBuilder) fb.Offset {
	nodes := make([]fb.Offset, len(g.nodes))
	for i, n := range slices.Backward(g.nodes) {
		nodes[i] = e.node(n)
	}
	var captures fb.Offset
	if len(g.captures) > 0 {
		captures = e.indices(g.captures)
	}
	outputs := e.indices(g.outputs)
	inputs := e.indices(g.inputs)
	return e.b.Table(fb.Ref(rtenfb.SlotGraphCaptures, captures),
		fb.Ref(rtenfb.SlotGraphOutputs, outputs), fb.Ref(rtenfb.SlotGraphInputs, inputs),
		fb.Ref(rtenfb.SlotGraphNodes, e.b.Offsets(nodes)))
}

func (e *encoder) node(n *builtNode) fb.Offset {
	var data, name fb.Offset
	switch n.kind {
	case ConstantNode:
		data = e.constant(n.tensor, n.name, n.tensor.DType, n.tensor.Shape, n.tensor.Data)
	case ValueNode:
		data = e.value(n)
	case OperatorNode:
		data = e.operator(n)
	}
	if n.named {
		name = e.b.String(n.name)
	}
	return e.b.Table(fb.Ref(rtenfb.SlotNodeName, name), fb.Ref(rtenfb.SlotNodeData, data),
		fb.Stored(rtenfb.SlotNodeDataType, 1, uint64(n.kind)))
}

func (e *encoder) value(n *builtNode) fb.Offset {
	var fields []fb.Value
	if n.dims != nil {
		dims := make([]fb.Offset, len(n.dims))
		for i, d := range n.dims {
			dim := fb.Stored(rtenfb.SlotDimValue, 4, uint64(d.size))
			if d.symbolic {
				dim = fb.Ref(rtenfb.SlotDimName, e.b.String(d.name))
			}
			dims[i] = e.b.Table(dim)
		}
		fields = append(fields, fb.Ref(rtenfb.SlotValueNodeShape, e.b.Offsets(dims)))
	}
	if number, ok := dataTypeNumber(n.dtype); ok {
		fields = append(fields, fb.Stored(rtenfb.SlotValueNodeDtype, 1, uint64(number)))
	}
	return e.b.Table(fields...)
}

func (e *encoder) operator(n *builtNode) fb.Offset {
	var attrs []fb.Value
	if n.attrs != nil {
		for _, sub := range n.graphs {
			n.attrs.SetChild(sub.slot, fb.Custom(func(*fb.Builder) fb.Offset {
				return e.graph(sub.g)
			}))
		}
		attrs = []fb.Value{fb.Ref(rtenfb.SlotOperatorNodeAttrs, n.attrs.Write(&e.b)),
			fb.Stored(rtenfb.SlotOperatorNodeAttrsType, 1, uint64(rules[n.op].attrs))}
	}
	outputs := fb.Ref(rtenfb.SlotOperatorNodeOutputs, e.indices(n.outputs))
	inputs := fb.Ref(rtenfb.SlotOperatorNodeInputs, e.indices(n.inputs))
	fields := append([]fb.Value{outputs, inputs}, attrs...)
	return e.b.Table(append(fields, fb.Stored(rtenfb.SlotOperatorNodeType, 1, uint64(n.op)))...)
}
