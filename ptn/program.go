package ptn

import (
	"fmt"
	"iter"
	"strings"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// maxProgram is the runtime's limit.
const maxProgram = 1 << 30

// readProgram reads and verifies the FlatBuffer that is the size bytes at off. Whether it
// makes sense, Verify checks.
func (r *Reader) readProgram(src *source.Source, off, size int64) error {
	if most := min(r.limits.MaxMetadata, maxProgram); size > most {
		return errs.At(off, programMember, tensor.ErrLimit, "%d bytes, the limit is %d", size,
			most)
	}
	buf, err := src.Metadata(off, size)
	if err != nil {
		return errs.Wrap(off, programMember, err)
	}
	if !isProgram(buf) {
		return errs.Malformed(off, programMember, "the identifier is not %s",
			ptnfb.ProgramIdentifier)
	}
	err = fb.Verify(buf, &ptnfb.Schema, ptnfb.TableProgram, fb.Limits{UTF8: true})
	if err != nil {
		return executorch.Unverified(string(errs), err, off)
	}
	r.root, r.programAt = ptnfb.GetRootAsProgram(buf, 0), off
	return nil
}

// Raw returns the root table of the program with the accessors that flatc generates.
func (r *Reader) Raw() *ptnfb.Program { return r.root }

// Methods yields the methods of the program in the order of the file. Their results are
// read from a copy of the program when it is asked for; it is valid after Close too.
func (r *Reader) Methods() iter.Seq[Method] {
	return format.Each(r.root.MethodsLength(), func(i int) (m Method) {
		r.root.Methods(&m.t, i)
		return m
	})
}

// A Method is a graph, and the tensors and buffers that its values are bound to.
type Method struct{ t ptnfb.Method }

// Name returns the name that the method is called by.
func (m Method) Name() string { return string(m.t.Name()) }

// Graph returns the body of the method.
func (m Method) Graph() *Graph { return graphOf(m.t.Graph(nil)) }

// A Constant binds a value of a method's graph to a tensor of the file.
type Constant struct {
	Name    string // of the value
	Key     string // of the tensor
	Info    TensorInfo
	Kind    string // parameter, buffer or constant_tensor
	Mutated bool   // the method writes it: it is state that begins as stored
}

// Constants yields the constants in the order of the file.
func (m Method) Constants() iter.Seq[Constant] {
	return format.Each(m.t.ConstantsLength(), func(i int) Constant {
		var t ptnfb.NamedTensorRef
		m.t.Constants(&t, i)
		return Constant{string(t.Name()), string(t.DataKey()), infoOf(t.Meta(nil)),
			word(t.Kind()), t.Mutated()}
	})
}

// word returns the schema's word for a number in lower case.
func word(v fmt.Stringer) string { return strings.ToLower(v.String()) }

// An Output says what becomes of an output of a method's graph.
type Output struct {
	Name string // of the value
	Kind string // user_output, buffer_mutation or user_input_mutation
	// Target is the name of the buffer, or of the input, that the value replaces.
	Target string
}

// Outputs yields the outputs in the order of the file.
func (m Method) Outputs() iter.Seq[Output] {
	return format.Each(m.t.OutputSpecsLength(), func(i int) Output {
		var t ptnfb.OutputSpec
		m.t.OutputSpecs(&t, i)
		return Output{string(t.Name()), word(t.Kind()), string(t.Target())}
	})
}

// MutableBuffers yields the state without a stored value, which begins as zeros: the name
// of the value, and the name by which methods share it.
func (m Method) MutableBuffers() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, t := range fb.Each(m.t.MutableBuffersLength(), m.t.MutableBuffers) {
			if !yield(string(t.Name()), string(t.Fqn())) {
				return
			}
		}
	}
}

// A Graph is a list of nodes, each of which uses values of earlier nodes.
type Graph struct {
	Inputs  []string // names of the values that the caller gives
	Outputs []string // and of those that the graph gives
	t       *ptnfb.Graph
}

func graphOf(t *ptnfb.Graph) *Graph {
	return &Graph{texts(t.InputsLength(), t.Inputs), texts(t.OutputsLength(), t.Outputs), t}
}

// texts returns strings of a vector. They alias the buffer, which nobody changes.
func texts(n int, at func(int) []byte) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = le.String(at(i))
	}
	return all
}

// Values yields the values that are tensors, but not the constants of the method.
func (g *Graph) Values() iter.Seq2[string, TensorInfo] {
	return func(yield func(string, TensorInfo) bool) {
		for _, t := range fb.Each(g.t.TensorValuesLength(), g.t.TensorValues) {
			if !yield(le.String(t.Name()), infoOf(t.Meta(nil))) {
				return
			}
		}
	}
}

// A Node is a call of an operator, or stands for an input, a constant or the outputs.
type Node struct {
	Name      string // also of its value, where it has one
	Operator  string // such as torch.ops.aten.linear.default; "" where none is called
	Arguments []Argument
	Results   []string // the names of the values that the node makes
}

// Nodes yields the nodes in the order in which they run.
func (g *Graph) Nodes() iter.Seq[Node] {
	return format.Each(g.t.NodesLength(), func(i int) Node {
		var t ptnfb.Node
		g.t.Nodes(&t, i)
		return nodeOf(&t)
	})
}

func nodeOf(t *ptnfb.Node) Node {
	n := Node{Name: le.String(t.Name())}
	if t.OpKind() == ptnfb.OpKindCALL_FUNCTION {
		n.Operator = le.String(t.Target())
	}
	for _, a := range fb.Each(t.InputsLength(), t.Inputs) {
		n.Arguments = append(n.Arguments, argumentOf(a))
	}
	for _, o := range fb.Each(t.OutputsLength(), t.Outputs) {
		if o.Kind() == ptnfb.OutputValueKindTENSOR_LIST {
			n.Results = append(n.Results, texts(o.NamesLength(), o.Names)...)
		} else {
			n.Results = append(n.Results, le.String(o.Name()))
		}
	}
	return n
}
