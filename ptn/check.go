package ptn

import (
	"errors"
	"fmt"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// Bounds of the runtime.
const (
	maxRank = 64
	maxDim  = 1<<31 - 1
)

// A checker applies the rules of a program that Open does not need: the rules of the
// validation in ExecuTorch's exporter, and the rules of its runtime.
type checker struct {
	r     *Reader
	found *format.Findings
	// lookup returns the tensor of a key, nil if there is none. It is nil where nothing
	// is known of the data.
	lookup func(key string) *tensor.Tensor

	path    []string                   // the method, and the nodes inside each other
	buffers map[string]string          // what a mutable buffer is, by its name in all methods
	bound   map[string]ptnfb.InputKind // what the values are that the method binds
}

func (c *checker) error(class error, t flatbuffers.Table, text string, args ...any) {
	if !c.found.Full() {
		c.found.Error(c.fail(class, t, text, args...))
	}
}

func (c *checker) fail(class error, t flatbuffers.Table, text string, args ...any) error {
	var field strings.Builder
	for i, name := range c.path {
		fmt.Fprintf(&field, "%s[%s]", [...]string{"methods", ".nodes"}[min(i, 1)],
			naming.Quote(name))
	}
	return errs.At(c.r.programAt+int64(t.Pos), field.String(), class, text, args...)
}

func (c *checker) bad(t flatbuffers.Table, text string, args ...any) {
	c.error(tensor.ErrMalformed, t, text, args...)
}

func (c *checker) warn(t flatbuffers.Table, text string, args ...any) {
	c.found.Warn(c.fail(tensor.ErrMalformed, t, text, args...))
}

// known reports a number that the schema has no word for.
func (c *checker) known(t flatbuffers.Table, v fmt.Stringer, number, least, most int8) {
	if number < least || number > most {
		c.error(errors.ErrUnsupported, t, "%v", v)
	}
}

func (c *checker) check() {
	c.buffers = map[string]string{}
	seen := map[string]bool{}
	root := c.r.root
	for _, m := range fb.Each(root.MethodsLength(), root.Methods) {
		name := le.String(m.Name())
		c.path = append(c.path[:0], name)
		if name == "" || seen[name] {
			c.bad(m.Table(), "the name of a method is empty or a duplicate")
		}
		seen[name] = true
		if c.method(m); c.found.Full() {
			return
		}
	}
}

func (c *checker) method(m *ptnfb.Method) {
	c.bound = map[string]ptnfb.InputKind{}
	state := map[string]bool{} // names of tensors and buffers that outputs may replace
	keys := map[string]bool{}
	for _, t := range fb.Each(m.ConstantsLength(), m.Constants) {
		key, kind := le.String(t.DataKey()), t.Kind()
		c.known(t.Table(), kind, int8(kind), 1, int8(ptnfb.InputKindCONSTANT_TENSOR))
		if t.Mutated() && kind == ptnfb.InputKindPARAMETER {
			c.bad(t.Table(), "the method writes the parameter %s", naming.Quote(key))
		}
		if keys[key] {
			c.bad(t.Table(), "the tensor %s is bound twice", naming.Quote(key))
		}
		keys[key], state[key] = true, kind != ptnfb.InputKindPARAMETER
		c.bind(t.Table(), t.Name(), kind)
		c.constant(t)
	}
	g := graphOf(m.Graph(nil))
	values := c.values(g)
	for _, t := range fb.Each(m.MutableBuffersLength(), m.MutableBuffers) {
		name, fqn := le.String(t.Name()), le.String(t.Fqn())
		c.bind(t.Table(), t.Name(), ptnfb.InputKindBUFFER)
		state[fqn] = true
		c.hasInfo(t.Table(), values, name)
		info := values[name].String()
		if was, ok := c.buffers[fqn]; ok && was != info {
			c.bad(t.Table(), "the buffer %s is %s, in another method %s", naming.Quote(fqn), info,
				was)
		}
		c.buffers[fqn] = info
	}
	c.graph(g, values, c.bound)
	c.outputs(m, g, state)
}

// bind notes a value that the method gives to its graph.
func (c *checker) bind(t flatbuffers.Table, name []byte, kind ptnfb.InputKind) {
	if _, ok := c.bound[le.String(name)]; ok {
		c.bad(t, "the value %s is bound twice", naming.Quote(string(name)))
	}
	c.bound[le.String(name)] = kind
}

// outputs checks that each output of a method's graph has a kind, and a target of that
// kind.
func (c *checker) outputs(m *ptnfb.Method, g *Graph, state map[string]bool) {
	inputs := map[string]bool{}
	for _, name := range g.Inputs {
		inputs[name] = true
	}
	n, want := m.OutputSpecsLength(), len(g.Outputs)
	switch {
	case n == 0 && want > 0:
		c.warn(m.Table(), "no output_specs, which the runtime requires, for %d outputs", want)
	case n != want:
		c.bad(m.Table(), "%d output_specs for %d outputs", n, want)
	}
	for i, t := range fb.Each(n, m.OutputSpecs) {
		name, target, kind := naming.Quote(string(t.Name())), le.String(t.Target()), t.Kind()
		c.known(t.Table(), kind, int8(kind), 0, int8(ptnfb.OutputKindUSER_INPUT_MUTATION))
		switch {
		case i < want && string(t.Name()) != g.Outputs[i]:
			c.bad(t.Table(), "output_specs[%d] is of %s, the output is %s", i, name,
				naming.Quote(g.Outputs[i]))
		case kind == ptnfb.OutputKindUSER_OUTPUT && target != "":
			c.warn(t.Table(), "the result %s has the target %s", name, naming.Quote(target))
		case kind == ptnfb.OutputKindBUFFER_MUTATION && !state[target]:
			c.bad(t.Table(), "%s replaces %s, which is no buffer", name, naming.Quote(target))
		case kind == ptnfb.OutputKindUSER_INPUT_MUTATION &&
			!inputs[target]:
			c.bad(t.Table(), "%s replaces %s, which is no input", name, naming.Quote(target))
		}
	}
}

// values checks the tensor_values of a graph and returns them by name.
func (c *checker) values(g *Graph) map[string]TensorInfo {
	values := map[string]TensorInfo{}
	for _, t := range fb.Each(g.t.TensorValuesLength(), g.t.TensorValues) {
		name := le.String(t.Name())
		if _, ok := values[name]; ok {
			c.bad(t.Table(), "two tensor_values of %s", naming.Quote(name))
		}
		values[name] = c.info(t.Table(), t.Meta(nil))
	}
	return values
}

func (c *checker) hasInfo(t flatbuffers.Table, values map[string]TensorInfo, name string) {
	if _, ok := values[name]; !ok {
		c.bad(t, "no tensor_values of %s", naming.Quote(name))
	}
}

// graph checks a graph and those inside it. bound has the values from outside.
func (c *checker) graph(g *Graph, values map[string]TensorInfo,
	bound map[string]ptnfb.InputKind) {
	defined := map[string]bool{}
	define := func(t flatbuffers.Table, name string) {
		if defined[name] {
			c.bad(t, "the value %s is defined twice", naming.Quote(name))
		}
		defined[name] = true
	}
	for _, name := range g.Inputs {
		define(g.t.Table(), name)
		c.hasInfo(g.t.Table(), values, name)
	}
	for name := range bound {
		define(g.t.Table(), name)
	}
	nodes := map[string]bool{}
	for _, t := range fb.Each(g.t.NodesLength(), g.t.Nodes) {
		n, kind := nodeOf(t), t.OpKind()
		c.path = append(c.path, n.Name)
		c.known(t.Table(), kind, int8(kind), 0, int8(ptnfb.OpKindOUTPUT))
		if nodes[n.Name] {
			c.bad(t.Table(), "the name of a node is a duplicate")
		}
		nodes[n.Name] = true
		c.node(t, n, defined, bound)
		if kind != ptnfb.OpKindPLACEHOLDER {
			for _, name := range n.Results {
				define(t.Table(), name)
			}
		} else if !defined[n.Name] {
			c.bad(t.Table(), "a placeholder that is neither an input nor bound")
		}
		if c.path = c.path[:len(c.path)-1]; c.found.Full() {
			return
		}
	}
	for _, name := range g.Outputs {
		if name != "" && !defined[name] {
			c.bad(g.t.Table(), "the output %s is not defined", naming.Quote(name))
		}
		c.hasInfo(g.t.Table(), values, name)
	}
}

// node checks the arguments of a node, and which of them its results share memory with.
func (c *checker) node(t *ptnfb.Node, n Node, defined map[string]bool,
	bound map[string]ptnfb.InputKind) {
	own := map[string]bool{}
	for _, a := range n.Arguments {
		for _, name := range a.References {
			own[name] = true
			if !defined[name] {
				c.bad(t.Table(), "the value %s is not defined before", naming.Quote(name))
			}
			if a.Mutated && bound[name] == ptnfb.InputKindPARAMETER {
				c.bad(t.Table(), "it writes the parameter %s", naming.Quote(name))
			}
		}
		if a.length != a.parallel {
			c.bad(t.Table(), "an argument of two lists, of %d and %d elements", a.length,
				a.parallel)
		}
		if a.Graph != nil {
			c.graph(a.Graph, c.values(a.Graph), nil)
		}
	}
	for _, o := range fb.Each(t.OutputsLength(), t.Outputs) {
		c.known(o.Table(), o.Kind(), int8(o.Kind()), 0, int8(ptnfb.OutputValueKindFLOAT))
		if of := le.String(o.AliasOf()); of != "" && !own[of] {
			c.bad(o.Table(), "%s has the memory of %s, which is no argument",
				naming.Quote(string(o.Name())), naming.Quote(of))
		}
	}
}

// info checks and returns what is said of a tensor.
func (c *checker) info(t flatbuffers.Table, m *ptnfb.TensorMeta) TensorInfo {
	i := infoOf(m)
	if !i.DType.Known() {
		c.error(errors.ErrUnsupported, t, "dtype %v", m.Dtype())
	}
	large := len(i.Dims) > maxRank
	for k, d := range i.Dims {
		if d.Min < 0 || d.Max >= 0 && d.Max < d.Min {
			c.bad(t, "dimension %d has %d to %d elements", k, d.Min, d.Max)
		}
		large = large || max(d.Min, d.Max) > maxDim
	}
	if large {
		c.warn(t, "%v is beyond the runtime's limits of %d dimensions of %d", i, maxRank, maxDim)
	}
	if len(i.Order) > 0 && !i.Order.Valid(len(i.Dims)) {
		c.bad(t, "dim_order %v is not a permutation of %d dimensions", []int(i.Order),
			len(i.Dims))
	}
	if q := i.Quant; q != nil && c.lookup != nil {
		for _, key := range []string{q.Scale, q.ZeroPoint} {
			if key != "" && c.lookup(key) == nil {
				c.error(tensor.ErrNoTensor, t, "no tensor %s of scales", naming.Quote(key))
			}
		}
	}
	return i
}

// constant compares the tensor of a constant with what the program says of it.
func (c *checker) constant(t *ptnfb.NamedTensorRef) {
	info, key := c.info(t.Table(), t.Meta(nil)), string(t.DataKey())
	if !info.Order.RowMajor() {
		c.bad(t.Table(), "dim_order %v of a constant, which is stored row-major",
			[]int(info.Order))
	}
	if c.lookup == nil {
		return
	}
	x := c.lookup(key)
	shape := info.Shape()
	elements, ok := shape.Elements()
	switch q := info.Quant; {
	case x == nil:
		c.error(tensor.ErrNoTensor, t.Table(), "no tensor %s", naming.Quote(key))
	case !ok: // has its error
	case q == nil && (x.DType != info.DType || !x.Shape.Equal(shape)):
		c.bad(t.Table(), "the tensor %s is %v%v, not %v", naming.Quote(key), x.DType, x.Shape,
			info)
	case q != nil && x.DType != tensor.U8:
		c.bad(t.Table(), "the packed tensor %s is %v, not uint8", naming.Quote(key), x.DType)
	case q != nil && q.Codec == "":
		if err := c.packed(q, x, shape, elements); err != nil {
			c.bad(t.Table(), "the packed tensor %s: %v", naming.Quote(key), err)
		}
	}
}

// packed checks the sizes of a packed tensor, and of its scales and zero points.
func (c *checker) packed(q *Quant, x *tensor.Tensor, shape tensor.Shape, elements int64) error {
	bits, group := int64(q.Bits()), int64(q.GroupSize)
	if bits < 1 || bits > 8 || len(shape) == 0 {
		return fmt.Errorf("%d dimensions of %d to %d, not of 1 to 8 bits", len(shape), q.Min,
			q.Max)
	}
	last := shape[len(shape)-1]
	if group == 0 {
		group = max(last, 1)
	}
	if group < 0 || last%group != 0 {
		return fmt.Errorf("groups of %d do not divide %d elements", group, last)
	}
	have, _ := x.Shape.Elements()
	if want := elements/8*bits + (elements%8*bits+7)/8; have != want {
		return fmt.Errorf("%d bytes, but %d elements of %d bits take %d", have, elements, bits,
			want)
	}
	for _, part := range [...]struct {
		key string
		d   tensor.DType
	}{{q.Scale, q.ScaleDType}, {q.ZeroPoint, q.ZeroPointDType}} {
		t := c.lookup(part.key)
		if part.key == "" || t == nil { // has its error
			continue
		}
		if n, _ := t.Shape.Elements(); n != elements/group || t.DType != part.d {
			return fmt.Errorf("%s is %v%v, not %d elements of %v", naming.Quote(part.key), t.DType,
				t.Shape, elements/group, part.d)
		}
	}
	return nil
}
