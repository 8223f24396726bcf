package rten

import (
	"iter"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A NodeKind is the kind of a node: operator, constant or value.
type NodeKind uint8

// The kinds of nodes.
const (
	OperatorNode = NodeKind(rtenfb.NodeKindOperatorNode)
	ConstantNode = NodeKind(rtenfb.NodeKindConstantNode)
	ValueNode    = NodeKind(rtenfb.NodeKindValueNode)
)

// String returns operator, constant or value, or #9 for another number.
func (k NodeKind) String() string {
	switch k {
	case OperatorNode:
		return "operator"
	case ConstantNode:
		return "constant"
	case ValueNode:
		return "value"
	}
	return "#" + strconv.Itoa(int(k))
}

// A Node is an operator, a constant, or a value: a tensor that exists while the
// model runs.
type Node struct {
	m     *Model
	graph int // in m.graphs
	index int
	pos   flatbuffers.UOffsetT
}

// Raw returns the node's accessor that flatc generates, for callers that need every
// field. The caller must not change the buffer.
func (n Node) Raw() *rtenfb.Node {
	raw := new(rtenfb.Node)
	raw.Init(n.m.buf, n.pos)
	return raw
}

// Graph returns the graph that the node belongs to.
func (n Node) Graph() *Graph { return n.m.graph(n.graph) }

// Index returns the node's index in its graph.
func (n Node) Index() int { return n.index }

// Kind says which of Operator, Constant and Value returns true.
func (n Node) Kind() NodeKind { return NodeKind(n.Raw().DataType()) }

// Name returns the name in the file. named is false if there is none, which is not the
// same as an empty name. Names need not be unique.
func (n Node) Name() (name string, named bool) {
	b := n.Raw().Name()
	return le.String(b), b != nil
}

// Label returns the name, or #INDEX for a node without one.
func (n Node) Label() string {
	if s, ok := n.Name(); ok {
		return s
	}
	return "#" + strconv.Itoa(n.index)
}

// data returns the position of the table with the content of the node.
func (n Node) data() flatbuffers.UOffsetT {
	return flatbuffers.UOffsetT(fb.FieldTarget(n.Raw().Table(), rtenfb.SlotNodeData))
}

// Operator returns the node as an operator, false if it is not one.
func (n Node) Operator() (o Operator, ok bool) {
	if ok = n.Kind() == OperatorNode; ok {
		o.n = n
		o.raw.Init(n.m.buf, n.data())
	}
	return o, ok
}

// Constant returns the node as a constant, false if it is not one.
func (n Node) Constant() (c Constant, ok bool) {
	if ok = n.Kind() == ConstantNode; ok {
		c, _ = n.readConstant()
	}
	return c, ok
}

// Value returns the node as a value, false if it is not one.
func (n Node) Value() (v Value, ok bool) {
	if ok = n.Kind() == ValueNode; ok {
		v.n = n
		v.raw.Init(n.m.buf, n.data())
	}
	return v, ok
}

// A Dim is one dimension of a value: a number of elements, or a symbol that
// stands for any number.
type Dim struct {
	size     uint32
	name     string
	symbolic bool
}

// Fixed returns a dimension of n elements.
func Fixed(n uint32) Dim { return Dim{size: n} }

// Symbol returns a dimension whose size is only known when the model runs.
func Symbol(name string) Dim { return Dim{name: name, symbolic: true} }

// Size returns the number of elements, and false for a symbol.
func (d Dim) Size() (n int64, ok bool) { return int64(d.size), !d.symbolic }

// Symbol returns the name, and false for a fixed dimension.
func (d Dim) Symbol() (name string, ok bool) { return d.name, d.symbolic }

// String returns the number or the name.
func (d Dim) String() string {
	if d.symbolic {
		return d.name
	}
	return strconv.FormatUint(uint64(d.size), 10)
}

// A Value is a node whose tensor exists while the model runs: an input of the model, or a
// result of an operator.
type Value struct {
	n   Node
	raw rtenfb.ValueNode
}

// Node returns the value as a node.
func (v Value) Node() Node { return v.n }

// DType returns the dtype, false if the file does not say.
func (v Value) DType() (tensor.DType, bool) {
	if d := v.raw.Dtype(); d != nil {
		return dataTypes[*d], true
	}
	return tensor.Unknown, false
}

// Shape returns the dimensions, false if the file does not say how many there are. RTen's
// converter writes a dimension of unknown size without a name as Fixed(0).
func (v Value) Shape() (dims []Dim, ok bool) {
	if fb.FieldPos(v.raw.Table(), rtenfb.SlotValueNodeShape) == 0 {
		return nil, false
	}
	dims = make([]Dim, v.raw.ShapeLength())
	for i, d := range fb.Each(len(dims), v.raw.Shape) {
		if s := d.Name(); s != nil {
			dims[i] = Symbol(le.String(s))
		} else {
			dims[i] = Fixed(d.Value())
		}
	}
	return dims, true
}

// An Operator is a node that computes.
type Operator struct {
	n   Node
	raw rtenfb.OperatorNode
}

// Node returns the operator as a node.
func (o Operator) Node() Node { return o.n }

// Type returns the type of the operator.
func (o Operator) Type() OpType { return OpType(o.raw.Type()) }

// Inputs returns the indices of the nodes that the operator reads, in its graph, all
// smaller than its own; -1 is an optional input that is absent.
func (o Operator) Inputs() []int { return indices(o.raw.InputsLength(), o.raw.Inputs) }

// Outputs returns the indices of the nodes that the operator computes, in its graph; -1
// is an output that nothing reads.
func (o Operator) Outputs() []int { return indices(o.raw.OutputsLength(), o.raw.Outputs) }

// Subgraphs yields the attributes of the operator that are graphs.
func (o Operator) Subgraphs() iter.Seq2[string, *Graph] {
	return func(yield func(string, *Graph) bool) {
		for a := range o.Attributes() {
			if g, ok := a.Value.(*Graph); ok && !yield(a.Name, g) {
				return
			}
		}
	}
}
