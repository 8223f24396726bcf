package rten

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A GraphBuilder assembles a model, node by node, in the order in which they can run. Its
// methods return no errors: [GraphBuilder.Write], [GraphBuilder.WriteFile] and
// [GraphBuilder.Err] return them. It is not safe for concurrent use.
type GraphBuilder struct {
	up        *GraphBuilder     // nil for the top graph
	errs      *[]error          // shared by all graphs of a model
	metadata  []*string         // by the schema's fields, shared
	checksums *format.Checksums // shared

	nodes    []*builtNode
	inputs   []int
	outputs  []int
	captures []int
	captured map[*builtNode]int
	names    map[string]*builtNode // of constants and values
}

// A builtNode is a node. Its kind decides which fields are used.
type builtNode struct {
	kind  NodeKind
	id    int // in its graph
	name  string
	named bool

	tensor     *tensor.Tensor // a constant
	isCaptured bool           // a subgraph captures it, so it needs a name

	dtype    tensor.DType // a value; Unknown leaves it out
	dims     []Dim        // nil leaves the shape out
	captures *builtNode   // a value of an outer graph, whose name it shares

	op      OpType
	attrs   *fb.Node   // nil for none
	graphs  []subgraph // attributes that are graphs
	inputs  []int
	outputs []int
}

// A subgraph is an attribute that is a graph.
type subgraph struct {
	slot int
	g    *GraphBuilder
}

// A Ref refers to a constant or value of a GraphBuilder. The zero Ref is an optional
// input that is absent.
type Ref struct {
	g  *GraphBuilder
	id int
}

// Attrs are the attributes of a new operator, by the schema's names. A number may have
// any Go type that can represent it. An enum is a name, a number or an [Enum]; a DataType
// may be a tensor.DType. A graph is a *GraphBuilder from Subgraph. An absent attribute
// gets ONNX's default, which is stored.
type Attrs map[string]any

// NewGraphBuilder begins a model.
func NewGraphBuilder() *GraphBuilder {
	return &GraphBuilder{errs: new([]error), metadata: make([]*string, len(metadataFields())),
		checksums: new(format.Checksums), names: make(map[string]*builtNode)}
}

// Subgraph begins a graph for an attribute of an operator of g: a branch of an If, or the
// body of a Loop. Its operators may use Refs of the graphs around it as inputs; they are
// captured by name.
func (g *GraphBuilder) Subgraph() *GraphBuilder {
	return &GraphBuilder{up: g, errs: g.errs, metadata: g.metadata, checksums: g.checksums,
		names: make(map[string]*builtNode), captured: make(map[*builtNode]int)}
}

func (g *GraphBuilder) fail(class error, format string, args ...any) {
	g.note(errs.New(class, format, args...))
}

func (g *GraphBuilder) note(err error) {
	if len(*g.errs) < 100 {
		*g.errs = append(*g.errs, err)
	}
}

// Err returns the errors so far, joined; at most the first hundred.
func (g *GraphBuilder) Err() error { return errors.Join(*g.errs...) }

// SetMetadata sets one of the strings that [Model.Metadata] lists. Other keys are an
// error of class errors.ErrUnsupported.
func (g *GraphBuilder) SetMetadata(key, value string) {
	i, err := metadataIndex(key, value)
	if err != nil {
		g.note(err)
		return
	}
	g.metadata[i] = &value
}

func (g *GraphBuilder) add(n *builtNode) Ref {
	if len(g.nodes) == math.MaxInt32 {
		g.fail(tensor.ErrLimit, "more than 2^31 nodes")
		return Ref{}
	}
	n.id = len(g.nodes)
	g.nodes = append(g.nodes, n)
	return Ref{g, n.id}
}

// name names a constant or value of the graph.
func (g *GraphBuilder) name(n *builtNode, name string) {
	if !utf8.ValidString(name) {
		g.fail(errors.ErrUnsupported, "the name %s is not UTF-8", naming.Quote(name))
	}
	if err := format.CheckWritten(name, 0); err != nil {
		g.fail(err, "%s", naming.Quote(name))
	}
	if g.names[name] != nil {
		g.fail(tensor.ErrDuplicate, "another constant or value is named %s", naming.Quote(name))
	}
	n.name, n.named = name, true
	g.names[name] = n
}

// Input adds a value that the caller of the model gives. d is float32, int32, int8 or
// uint8, or tensor.Unknown for any. Without dims any number of dimensions is accepted;
// []Dim{}... is a scalar. RTen refuses inputs that do not fit, at run time.
func (g *GraphBuilder) Input(name string, d tensor.DType, dims ...Dim) Ref {
	r := g.Value(name, d, dims...)
	if r.g != nil {
		g.inputs = append(g.inputs, r.id)
	}
	return r
}

// Value adds a value that an operator computes, for [GraphBuilder.OpInto]. RTen does not
// need its dtype and shape.
func (g *GraphBuilder) Value(name string, d tensor.DType, dims ...Dim) Ref {
	if _, ok := dataTypeNumber(d); !ok && d != tensor.Unknown {
		g.fail(errors.ErrUnsupported, "value %s: RTen has no %v", naming.Quote(name), d)
	}
	for i, dim := range dims {
		if s, symbolic := dim.Symbol(); symbolic && !utf8.ValidString(s) {
			g.fail(fs.ErrInvalid, "value %s: the name of dimension %d is not UTF-8",
				naming.Quote(name), i)
		}
	}
	n := &builtNode{kind: ValueNode, dtype: d, dims: dims}
	r := g.add(n)
	g.name(n, name)
	return r
}

// Constant adds a tensor, which must be dense, row-major, and of float32, int32, int8 or
// uint8. Its name may be empty. It must stay readable and unchanged until the model is
// written; Write fails with tensor.ErrChecksum if its memory has changed. The bytes of a
// *Tensor that is added twice are stored once; if it has a name, it is one constant of
// its graph.
func (g *GraphBuilder) Constant(t *tensor.Tensor) Ref {
	err := errs.Wrap(-1, "", t.Check())
	if err == nil {
		err = checkConstant(t)
	}
	if err == nil {
		err = errs.Wrap(-1, format.Field(t.Name), format.CheckWritten("", len(t.Shape)))
	}
	if err != nil {
		g.note(err)
		t = &tensor.Tensor{DType: tensor.F32, Shape: tensor.Shape{0}}
	}
	n := &builtNode{kind: ConstantNode, tensor: t}
	if same := g.names[t.Name]; same != nil && same.tensor == t {
		return Ref{g, same.id}
	}
	g.checksums.Add(t.Name, t.Data)
	if t.Name == "" {
		return g.add(n)
	}
	r := g.add(n)
	g.name(n, t.Name)
	return r
}

// Op adds an operator with one output, and returns the output.
func (g *GraphBuilder) Op(op string, attrs Attrs, inputs ...Ref) Ref {
	return g.Ops(op, attrs, 1, inputs...)[0]
}

// Ops adds an operator with several outputs, and returns them.
func (g *GraphBuilder) Ops(op string, attrs Attrs, outputs int, inputs ...Ref) []Ref {
	// Inputs first: captured inputs become nodes of this graph.
	ids := g.ids(op, inputs)
	if outputs < 0 || outputs > rtenMaxTables {
		g.fail(fs.ErrInvalid, "%s: %d outputs", op, outputs)
		return make([]Ref, 1)
	}
	out := make([]Ref, max(outputs, 1))
	for i := range outputs {
		out[i] = g.add(&builtNode{kind: ValueNode})
	}
	g.operator(op, attrs, ids, out[:outputs])
	return out
}

// OpInto adds an operator that computes values made by [GraphBuilder.Value]. The
// zero Ref is an output that nothing reads.
func (g *GraphBuilder) OpInto(outputs []Ref, op string, attrs Attrs, inputs ...Ref) {
	ids := g.ids(op, inputs)
	for i, r := range outputs {
		if r.g != nil && r.g != g {
			g.fail(fs.ErrInvalid, "%s: output %d belongs to another graph", op, i)
			return
		}
	}
	g.operator(op, attrs, ids, outputs)
}

func (g *GraphBuilder) operator(op string, attrs Attrs, inputs []int, outputs []Ref) {
	n := &builtNode{kind: OperatorNode, inputs: inputs}
	var known bool
	if n.op, known = ParseOpType(op); !known {
		g.fail(errors.ErrUnsupported, "operator %s", naming.Quote(op))
		return
	}
	if limit := n.op.MaxInputs(); limit >= 0 && len(inputs) > limit {
		g.fail(fs.ErrInvalid, "%s: %d inputs where RTen takes at most %d", op, len(inputs), limit)
	}
	for _, r := range outputs {
		id := r.id
		if r.g == nil {
			id = -1
		}
		n.outputs = append(n.outputs, id)
	}
	if err := g.attributes(n, attrs, g.spatialRank(attrs, inputs)); err != nil {
		g.note(errs.Wrap(-1, "", fmt.Errorf("%s: %w", op, err)))
	}
	g.add(n)
}

// spatialRank returns the number of spatial dimensions of a convolution or pool, for the
// defaults of its attributes: 2 unless attributes or weights say otherwise.
func (g *GraphBuilder) spatialRank(attrs Attrs, inputs []int) int {
	length := func(name string) int {
		if v := reflect.ValueOf(attrs[name]); v.Kind() == reflect.Slice ||
			v.Kind() == reflect.Array {
			return v.Len()
		}
		return 0
	}
	for _, name := range [...]string{"kernel_size", "strides", "dilations"} {
		if n := length(name); n > 0 {
			return n
		}
	}
	if n := length("pads"); n > 0 {
		return n / 2
	}
	if len(inputs) > 1 && inputs[1] >= 0 {
		w := g.nodes[inputs[1]]
		for w.captures != nil {
			w = w.captures
		}
		if w.kind == ConstantNode && len(w.tensor.Shape) > 2 {
			return len(w.tensor.Shape) - 2
		}
	}
	return 2
}

// ids returns the inputs as node indices of this graph, and captures inputs of graphs
// around it.
func (g *GraphBuilder) ids(op string, refs []Ref) []int {
	ids := make([]int, len(refs))
	for i, r := range refs {
		switch {
		case r.g == nil:
			ids[i] = -1
		case r.g == g:
			ids[i] = r.id
		case g.inside(r.g):
			ids[i] = g.capture(r)
		default:
			g.fail(fs.ErrInvalid, "%s: input %d belongs to a graph that is not around this one",
				op, i)
			ids[i] = -1
		}
	}
	return ids
}

func (g *GraphBuilder) inside(outer *GraphBuilder) bool {
	for x := g.up; x != nil; x = x.up {
		if x == outer {
			return true
		}
	}
	return false
}

// capture returns the node of this graph that captures a node of a graph around it.
func (g *GraphBuilder) capture(r Ref) int {
	outer := r.g.nodes[r.id]
	outer.isCaptured = true
	if id, ok := g.captured[outer]; ok {
		return id
	}
	n := g.add(&builtNode{kind: ValueNode, captures: outer})
	g.captured[outer] = n.id
	g.captures = append(g.captures, n.id)
	return n.id
}

// Output makes r an output of the graph with that name. A result of Op gets the name. For
// a constant or value with another name, an Identity operator is added. An empty name
// changes no name.
func (g *GraphBuilder) Output(name string, r Ref) {
	ids := g.ids("Output", []Ref{r})
	if ids[0] < 0 {
		g.fail(fs.ErrInvalid, "output %s is nothing", naming.Quote(name))
		return
	}
	id := ids[0]
	n := g.nodes[id]
	switch {
	case name == "" || n.named && n.name == name:
	case !n.named && n.kind == ValueNode && n.captures == nil:
		g.name(n, name)
	default:
		out := g.Value(name, tensor.Unknown)
		g.OpInto([]Ref{out}, "Identity", nil, Ref{g, id})
		id = out.id
	}
	g.outputs = append(g.outputs, id)
}
