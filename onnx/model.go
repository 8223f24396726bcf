package onnx

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Model is the content of a file without the elements of its tensors. It stays valid
// after Close of the Reader. The caller must not change it or anything that it refers to.
type Model struct {
	IRVersion       int64
	Producer        string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	Doc             string
	Opsets          []Opset
	Graph           *Graph
	Functions       []*Function
	Training        []Training

	metadata [][2]string
}

// An Opset is a set of operators that a model imports. The domain of ONNX's own operators
// is empty or ai.onnx.
type Opset struct {
	Domain  string
	Version int64
}

// A Graph is a list of nodes, and the values that they read and write, by name. The body
// of a function is a Graph too.
type Graph struct {
	Name string
	// Path is the prefix of the names of this graph's tensors: "" for the main graph,
	// NODE.ATTRIBUTE/ for a graph in an attribute of a node of the main graph,
	// DOMAIN:NAME/ for the body of a function. See Reader.
	Path    string
	Nodes   []Node
	Inputs  []Value // inputs of a function have no type
	Outputs []Value
	Values  []Value // other values whose type is given

	initializers []*entry
	field        string // the path of the graph in the words of onnx.proto
	sparse       int    // number of sparse initializers
	up           *Graph // the graph around this one
	node         int    // the node of up that has this graph as an attribute
}

// A Node computes its outputs from its inputs. An empty name stands for an optional input
// or output that is absent.
type Node struct {
	Name       string
	OpType     string
	Domain     string
	Overload   string // of the function that the node calls
	Inputs     []string
	Outputs    []string
	Attributes []Attribute

	at int64
}

// Operator returns the type of the operator, after DOMAIN and a dot if the domain is not
// ONNX's own.
func (n *Node) Operator() string {
	if isONNX(n.Domain) {
		return n.OpType
	}
	return n.Domain + "." + n.OpType
}

func isONNX(domain string) bool { return domain == "" || domain == "ai.onnx" }

// An Attribute is a setting of a node, or the default of an attribute of a function.
type Attribute struct {
	Name string
	// Value is a float32, int64, string, *tensor.Tensor, *Graph, *Type, a slice of one of
	// these, or a Ref; nil if the file has no value.
	Value any

	others     []any // values in other fields of the attribute
	mismatched bool  // a value has another type than the attribute declares
}

// A Ref is the name of an attribute of the function whose body has the node. The caller
// of the function gives the value.
type Ref string

// A Function is an operator that is made of nodes. A node calls it by domain, name and
// overload.
type Function struct {
	Domain     string
	Name       string
	Overload   string
	Attributes []string    // that a caller must give
	Defaults   []Attribute // attributes that a caller may leave out
	Opsets     []Opset
	Graph      *Graph // the body
}

// A Training describes how a model is trained: a graph that initializes the values, and a
// graph that makes one step. Either may be nil.
type Training struct{ Initialization, Algorithm *Graph }

// A Value is a named value of a graph.
type Value struct {
	Name string
	Type *Type // nil if it is not known

	at int64
}

// A TypeKind is the kind of a Type.
type TypeKind uint8

// The kinds of TypeProto.
const (
	TensorType TypeKind = iota + 1
	SparseTensorType
	SequenceType
	MapType
	OptionalType
	OpaqueType
)

// A Type is the type of a value.
type Type struct {
	Kind   TypeKind
	Elem   int   // TensorProto.DataType of a tensor, or of the keys of a map; see DType
	Ranked bool  // the number of dimensions is known
	Dims   []Dim // of a tensor
	Of     *Type // of the elements of a sequence, optional or map
}

// A Dim is a dimension: a number, a symbol, or unknown. The zero Dim is unknown.
type Dim struct {
	Size   int64
	Symbol string
	fixed  bool
}

// Fixed returns the size of the dimension; false if it is not a number.
func (d Dim) Fixed() (size int64, ok bool) { return d.Size, d.fixed }

// String returns the number or the symbol, and ? for an unknown dimension.
func (d Dim) String() string {
	switch {
	case d.fixed:
		return strconv.FormatInt(d.Size, 10)
	case d.Symbol != "":
		return d.Symbol
	}
	return "?"
}

// DType returns the name of the dtype of the elements or keys, or its number if it is not
// known.
func (t *Type) DType() string { return typeName(t.Elem) }

// String returns the type in the form float32 [batch, 3, ?], sequence(int64 []) or
// map(string, float32 ?); a tensor of unknown rank has a ? for its dimensions.
func (t *Type) String() string {
	if t == nil {
		return "?"
	}
	switch t.Kind {
	case TensorType, SparseTensorType:
		s := t.DType() + " ?"
		if t.Ranked {
			all := make([]string, len(t.Dims))
			for i, d := range t.Dims {
				all[i] = d.String()
			}
			s = t.DType() + " [" + strings.Join(all, ", ") + "]"
		}
		if t.Kind == SparseTensorType {
			return "sparse(" + s + ")"
		}
		return s
	case SequenceType:
		return "sequence(" + t.Of.String() + ")"
	case OptionalType:
		return "optional(" + t.Of.String() + ")"
	case MapType:
		return "map(" + t.DType() + ", " + t.Of.String() + ")"
	case OpaqueType:
		return "opaque"
	}
	return "?"
}

// Graphs yields the main graph, the bodies of functions and the training graphs, each
// followed by the graphs in attributes of its nodes.
func (m *Model) Graphs() iter.Seq[*Graph] {
	return func(yield func(*Graph) bool) {
		for _, g := range m.roots() {
			if !g.each(yield) {
				return
			}
		}
	}
}

// roots returns the graphs that are not in another graph.
func (m *Model) roots() []*Graph {
	all := []*Graph{m.Graph}
	for _, f := range m.Functions {
		all = append(all, f.Graph)
	}
	for _, t := range m.Training {
		all = append(all, t.Initialization, t.Algorithm)
	}
	return slices.DeleteFunc(all, func(g *Graph) bool { return g == nil })
}

// each yields g and the graphs in it. It reports whether yield wants more.
func (g *Graph) each(yield func(*Graph) bool) bool {
	if !yield(g) {
		return false
	}
	for i := range g.Nodes {
		for sub := range g.Nodes[i].graphs() {
			if !sub.each(yield) {
				return false
			}
		}
	}
	return true
}

// graphs yields the graphs in the attributes of a node.
func (n *Node) graphs() iter.Seq[*Graph] {
	return func(yield func(*Graph) bool) {
		for i := range n.Attributes {
			for v := range n.Attributes[i].values() {
				switch v := v.(type) {
				case *Graph:
					if !yield(v) {
						return
					}
				case []*Graph:
					for _, g := range v {
						if !yield(g) {
							return
						}
					}
				}
			}
		}
	}
}

// values yields the values of all fields of an attribute.
func (a *Attribute) values() iter.Seq[any] {
	return func(yield func(any) bool) {
		if a.Value == nil || !yield(a.Value) {
			return
		}
		for _, v := range a.others {
			if !yield(v) {
				return
			}
		}
	}
}

// Up returns the graph around this one and the index of its node that has this graph as
// an attribute. It returns nil if this graph is not in another, and node -1 for a default
// attribute of a function.
func (g *Graph) Up() (*Graph, int) { return g.up, g.node }

// Initializers yields the initializers of a graph, sparse ones included, with the names
// that its nodes use; the name may be empty.
func (g *Graph) Initializers() iter.Seq2[string, *tensor.Tensor] {
	return func(yield func(string, *tensor.Tensor) bool) {
		for _, e := range g.initializers {
			if !yield(e.local(g), &e.tensor) {
				return
			}
		}
	}
}

// local returns the name that nodes of g use for an initializer of g.
func (e *entry) local(g *Graph) string {
	if e.unnamed {
		return ""
	}
	return e.tensor.Name[len(g.Path):]
}

// InputsOnly yields the inputs that are not initializers. Before IR version 4 every
// initializer is also an input.
func (g *Graph) InputsOnly() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		given := make(map[string]bool, len(g.initializers))
		for name := range g.Initializers() {
			given[name] = true
		}
		for _, v := range g.Inputs {
			if !given[v.Name] && !yield(v) {
				return
			}
		}
	}
}
