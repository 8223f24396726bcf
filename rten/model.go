package rten

import (
	"encoding/binary"
	"iter"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// schemaVersion is that of every release.
const schemaVersion = 1

// A Model is the verified flatbuffer of a file. It and everything that it hands
// out are read-only views, safe for concurrent use, and stay valid after the
// Reader's Close.
type Model struct {
	r    *Reader
	buf  []byte
	base int64 // of buf in the file

	compact *compaction // of a large version 1 file; nil where buf is all of the flatbuffer

	// All graphs, depth first, and all constants in the order of the nodes:
	// found once by check. Both are small, for a hostile file may have as many
	// as its size allows.
	graphs    []graphRecord
	constants []constantRecord
	external  int // constants whose bytes are outside of the flatbuffer

	subgraphs func() map[graphKey]int
}

type graphRecord struct {
	pos    uint32 // of the Graph table
	up     uint32 // index into graphs; 0 for the top graph itself
	node   uint32 // of the operator in the graph above
	branch branch
}

type constantRecord struct {
	pos   uint32 // of the Node table
	node  uint32
	graph uint32
}

// A branch is a field of an operator's attributes that holds a graph.
type branch uint8

const (
	thenBranch branch = iota + 1
	elseBranch
	loopBody
)

func (b branch) String() string { return [...]string{"", "then_branch", "else_branch", "body"}[b] }

// SchemaVersion is 1 in every file so far.
func (m *Model) SchemaVersion() int { return schemaVersion }

// Sys is the generated accessor of the flatbuffer, for fields that have none
// here. The buffer has been verified; it must not be changed. Of a version 1
// file of more than 16 MiB that is mapped it lacks the elements of constants:
// their vectors are empty there.
func (m *Model) Sys() *rtenfb.Model { return rtenfb.GetRootAsModel(m.buf, 0) }

// Graph is the top graph.
func (m *Model) Graph() *Graph { return m.graph(0) }

// Graphs yields the top graph and every subgraph, depth first.
func (m *Model) Graphs() iter.Seq[*Graph] {
	return func(yield func(*Graph) bool) {
		for i := range m.graphs {
			if !yield(m.graph(i)) {
				return
			}
		}
	}
}

func (m *Model) graph(i int) *Graph { return &Graph{m, i} }

// Metadata yields the strings that describe where a model comes from, by the
// schema's names: onnx_hash, description, license, commit, code_repository,
// model_repository, run_id, run_url. Absent ones are left out; there are no
// other keys.
func (m *Model) Metadata() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		t := m.child(m.root(), slotModelMetadata)
		if t == 0 {
			return
		}
		for i, key := range metadataKeys {
			if s, ok := m.str(t, slot(i)); ok && !yield(key, s) {
				return
			}
		}
	}
}

var metadataKeys = [...]string{"onnx_hash", "description", "license", "commit", "code_repository", "model_repository", "run_id", "run_url"}

// Constants yields the constants of all graphs, depth first in the order of the
// nodes.
func (m *Model) Constants() iter.Seq[Constant] {
	return func(yield func(Constant) bool) {
		for i := range m.constants {
			if !yield(m.Constant(i)) {
				return
			}
		}
	}
}

// Constant returns the constant of that index among those of all graphs. It
// panics outside of these, as a slice does.
func (m *Model) Constant(i int) Constant {
	rec := &m.constants[i]
	n := Node{m, int(rec.graph), int(rec.node), int(rec.pos)}
	return Constant{n, m.child(n.pos, slotNodeData)}
}

// Reading a verified buffer. Positions are those of tables, fields and vectors
// in buf; 0 is none.

// slot is the place of a field in a vtable, by its id.
func slot(id int) int { return 4 + 2*id }

const (
	slotModelGraph    = 6
	slotModelMetadata = 8

	slotGraphNodes    = 4
	slotGraphInputs   = 6
	slotGraphOutputs  = 8
	slotGraphCaptures = 10

	slotNodeName     = 4
	slotNodeDataType = 6
	slotNodeData     = 8

	slotOperatorType      = 4
	slotOperatorAttrsType = 6
	slotOperatorAttrs     = 8
	slotOperatorInputs    = 10
	slotOperatorOutputs   = 12

	slotConstantShape    = 4
	slotConstantDataType = 6
	slotConstantData     = 8
	slotConstantDtype    = 10
	slotConstantOffset   = 12

	slotValueShape = 4
	slotValueDtype = 6

	slotDimValue = 4
	slotDimName  = 6

	slotFirst = 4 // of FloatData and its like, IntScalar and FloatScalar, LoopAttrs.body
)

func (m *Model) u16(pos int) int    { return int(binary.LittleEndian.Uint16(m.buf[pos:])) }
func (m *Model) u32(pos int) uint32 { return binary.LittleEndian.Uint32(m.buf[pos:]) }
func (m *Model) u64(pos int) uint64 { return binary.LittleEndian.Uint64(m.buf[pos:]) }

func (m *Model) root() int { return int(m.u32(0)) }

// A tableShape remembers where the fields of the last one were, by id: most
// tables of a kind share a vtable. Only the first fields are remembered, which
// are all that nodes and constants have.
type tableShape struct {
	vtable int // one more than its position; 0 is none
	fields [5]uint16
}

// of returns where the fields of the table at pos are, counted from there; 0 is
// absent.
func (s *tableShape) of(m *Model, pos int) *[5]uint16 {
	vtable := pos - int(int32(m.u32(pos)))
	if s.vtable != vtable+1 {
		s.vtable = vtable + 1
		n := m.u16(vtable)
		for id := range s.fields {
			s.fields[id] = 0
			if slot(id) < n {
				s.fields[id] = uint16(m.u16(vtable + slot(id)))
			}
		}
	}
	return &s.fields
}

// follow is where the offset at pos leads.
func (m *Model) follow(pos int) int { return pos + int(m.u32(pos)) }

// field is where the field of table t is stored, 0 if it is absent.
func (m *Model) field(t, slot int) int {
	vtable := t - int(int32(m.u32(t)))
	if slot >= m.u16(vtable) {
		return 0
	}
	off := m.u16(vtable + slot)
	if off == 0 {
		return 0
	}
	return t + off
}

// child follows the offset in a field: to a table, the length of a vector, or
// that of a string.
func (m *Model) child(t, slot int) int {
	f := m.field(t, slot)
	if f == 0 {
		return 0
	}
	return f + int(m.u32(f))
}

// vector is the first element and the length of a vector of scalars or offsets.
func (m *Model) vector(t, slot int) (first, n int) {
	v := m.child(t, slot)
	if v == 0 {
		return 0, 0
	}
	return v + 4, int(m.u32(v))
}

func (m *Model) str(t, slot int) (s string, ok bool) {
	first, n := m.vector(t, slot)
	if first == 0 {
		return "", false
	}
	return le.String(m.buf[first : first+n : first+n]), true
}

// tag is a field of one byte, 0 if it is absent.
func (m *Model) tag(t, slot int) uint8 {
	f := m.field(t, slot)
	if f == 0 {
		return 0
	}
	return m.buf[f]
}

// at makes the error of something that lies at pos of the buffer.
func (m *Model) at(pos int, field string, err error) error {
	return failed(m.filePos(pos), field, err)
}

// A Graph is a list of nodes. An operator names the nodes that it reads and
// writes by their index in its own graph.
type Graph struct {
	m *Model
	i int // in m.graphs
}

func (g *Graph) pos() int { return int(g.m.graphs[g.i].pos) }

// Path is empty for the top graph, and nodes[6].then_branch.nodes[2].body for
// the body of a loop in the branch of an If.
func (g *Graph) Path() string { return g.m.path(g.i) }

func (m *Model) path(graph int) string {
	if graph == 0 {
		return ""
	}
	rec := &m.graphs[graph]
	s := "nodes[" + strconv.Itoa(int(rec.node)) + "]." + rec.branch.String()
	if rec.up != 0 {
		s = m.path(int(rec.up)) + "." + s
	}
	return s
}

// field is the path of a node's field in the words of errors.
func (m *Model) fieldPath(graph, node int, field string) string {
	s := "graph"
	if graph != 0 {
		s += "." + m.path(graph)
	}
	if node >= 0 {
		s += ".nodes[" + strconv.Itoa(node) + "]"
	}
	if field != "" {
		s += "." + field
	}
	return s
}

// Up is the graph around this one and the operator there that owns it; nil and
// a zero Node for the top graph.
func (g *Graph) Up() (*Graph, Node) {
	if g.i == 0 {
		return nil, Node{}
	}
	rec := &g.m.graphs[g.i]
	up := g.m.graph(int(rec.up))
	return up, up.Node(int(rec.node))
}

// Len is the number of nodes.
func (g *Graph) Len() int {
	_, n := g.m.vector(g.pos(), slotGraphNodes)
	return n
}

// Node returns the node of that index. It panics outside of the graph, as a
// slice does.
func (g *Graph) Node(i int) Node {
	first, n := g.m.vector(g.pos(), slotGraphNodes)
	_ = make([]struct{}, n)[i]
	entry := first + 4*i
	return Node{g.m, g.i, i, entry + int(g.m.u32(entry))}
}

// Nodes yields the nodes in the order of their indices, which is one in which
// the operators can run.
func (g *Graph) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		first, n := g.m.vector(g.pos(), slotGraphNodes)
		for i := range n {
			entry := first + 4*i
			if !yield(Node{g.m, g.i, i, entry + int(g.m.u32(entry))}) {
				return
			}
		}
	}
}

// Inputs are the indices of the nodes that a caller must give values.
func (g *Graph) Inputs() []int { return g.m.ints(g.pos(), slotGraphInputs) }

// Outputs are the indices of the nodes whose values are the result. They may be
// constants.
func (g *Graph) Outputs() []int { return g.m.ints(g.pos(), slotGraphOutputs) }

// Captures are the nodes of a subgraph that take their values, by name, from
// the graphs around it. The official converter also lists constants of the
// subgraph itself, and values without a name.
func (g *Graph) Captures() []int { return g.m.ints(g.pos(), slotGraphCaptures) }

// ints reads a vector of node indices; missing ones are -1, however they are
// written.
func (m *Model) ints(t, slot int) []int {
	first, n := m.vector(t, slot)
	if first == 0 {
		return nil
	}
	v := make([]int, n)
	for i := range v {
		v[i] = max(int(int32(m.u32(first+4*i))), -1)
	}
	return v
}

// NodeKind says what a node is.
type NodeKind uint8

// The kinds of nodes.
const (
	OperatorNode NodeKind = 1
	ConstantNode NodeKind = 2
	ValueNode    NodeKind = 3
)

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
	pos   int
}

// Graph is the graph that the node belongs to.
func (n Node) Graph() *Graph { return n.m.graph(n.graph) }

// Index is the node's id in its graph.
func (n Node) Index() int { return n.index }

// Kind says which of Operator, Constant and Value answers.
func (n Node) Kind() NodeKind { return NodeKind(n.m.tag(n.pos, slotNodeDataType)) }

// Name is the name in the file; named is false where there is none, which is
// not the same as an empty one. Names need not be unique.
func (n Node) Name() (name string, named bool) { return n.m.str(n.pos, slotNodeName) }

// Label is the name, or #INDEX for a node without one.
func (n Node) Label() string {
	if s, ok := n.Name(); ok {
		return s
	}
	return "#" + strconv.Itoa(n.index)
}

// data is the table of the node, if it is of that kind.
func (n Node) data(k NodeKind) (pos int, ok bool) {
	if n.Kind() != k {
		return 0, false
	}
	return n.m.child(n.pos, slotNodeData), true
}

// Operator returns the node as an operator, and false if it is none.
func (n Node) Operator() (Operator, bool) {
	pos, ok := n.data(OperatorNode)
	if !ok {
		return Operator{}, false
	}
	return Operator{n, pos}, true
}

// Constant returns the node as a constant, and false if it is none.
func (n Node) Constant() (Constant, bool) {
	pos, ok := n.data(ConstantNode)
	if !ok {
		return Constant{}, false
	}
	return Constant{n, pos}, true
}

// Value returns the node as a value, and false if it is none.
func (n Node) Value() (Value, bool) {
	pos, ok := n.data(ValueNode)
	if !ok {
		return Value{}, false
	}
	return Value{n, pos}, true
}

// A Dim is one dimension of a value: a number of elements, or a symbol that
// stands for any number.
type Dim struct {
	size     uint32
	name     string
	symbolic bool
}

// Fixed is a dimension of n elements.
func Fixed(n uint32) Dim { return Dim{size: n} }

// Symbol is a dimension that is only known when the model runs.
func Symbol(name string) Dim { return Dim{name: name, symbolic: true} }

// Size is the number of elements, and false for a symbol.
func (d Dim) Size() (n int64, ok bool) { return int64(d.size), !d.symbolic }

// Symbol is the name, and false for a fixed dimension.
func (d Dim) Symbol() (name string, ok bool) { return d.name, d.symbolic }

// String is the number or the name.
func (d Dim) String() string {
	if d.symbolic {
		return d.name
	}
	return strconv.FormatUint(uint64(d.size), 10)
}

// A Value is a node that is a tensor while the model runs.
type Value struct {
	n   Node
	pos int
}

// Node is the value as a node.
func (v Value) Node() Node { return v.n }

// DType is the element type, and false where the file gives none.
func (v Value) DType() (d tensor.DType, ok bool) {
	f := v.n.m.field(v.pos, slotValueDtype)
	if f == 0 {
		return tensor.Unknown, false
	}
	return dataTypes[v.n.m.buf[f]], true // check refused all others
}

// Shape are the dimensions, and false where not even their number is known. The
// official converter writes a dimension without size and name as Fixed(0).
func (v Value) Shape() (dims []Dim, ok bool) {
	m := v.n.m
	first, n := m.vector(v.pos, slotValueShape)
	if first == 0 {
		return nil, false
	}
	dims = make([]Dim, n)
	for i := range dims {
		entry := first + 4*i
		t := entry + int(m.u32(entry))
		if s, named := m.str(t, slotDimName); named {
			dims[i] = Symbol(s)
		} else if f := m.field(t, slotDimValue); f != 0 {
			dims[i] = Fixed(m.u32(f))
		}
	}
	return dims, true
}

// An Operator is a node that computes.
type Operator struct {
	n   Node
	pos int
}

// Node is the operator as a node.
func (o Operator) Node() Node { return o.n }

// Type is the operator's number.
func (o Operator) Type() OpType { return OpType(o.n.m.tag(o.pos, slotOperatorType)) }

// Inputs are node indices in the operator's graph, all smaller than its own; -1
// is an optional input that is left out.
func (o Operator) Inputs() []int { return o.n.m.ints(o.pos, slotOperatorInputs) }

// Outputs are node indices in the operator's graph; -1 is one that nobody wants.
func (o Operator) Outputs() []int { return o.n.m.ints(o.pos, slotOperatorOutputs) }

// Sys is the generated accessor of the node, for fields that have none here. It
// must not be used to change the buffer.
func (n Node) Sys() *rtenfb.Node {
	t := new(rtenfb.Node)
	t.Init(n.m.buf, flatbuffers.UOffsetT(n.pos))
	return t
}
