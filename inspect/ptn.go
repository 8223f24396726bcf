package inspect

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/tensor"
)

// A PTNInfo has the facts that only a .ptn has, and describes the program of a .ptg.
type PTNInfo struct {
	Container  string      `json:"container"` // zip, or flatbuffer: a .ptg
	Methods    []PTNMethod `json:"methods"`
	Aliases    int         `json:"aliases"`     // names without bytes of their own
	AliasBytes int64       `json:"alias_bytes"` // that they would take
	Ignored    []string    `json:"ignored"`     // members that are not part of the package
}

// A PTNMethod is a method of a program.
type PTNMethod struct {
	Name      string         `json:"name"`
	Inputs    []PTNValue     `json:"inputs"`
	Outputs   []PTNValue     `json:"outputs"`
	Nodes     int            `json:"nodes"`     // of all graphs
	Operators map[string]int `json:"operators"` // how many of each, in all graphs
	Constants []PTNValue     `json:"constants"`
	Buffers   []PTNValue     `json:"buffers"` // that begin as zeros
}

// A PTNValue is an input, an output, a constant or a buffer.
type PTNValue struct {
	Name  string       `json:"name"`
	Kind  string       `json:"kind,omitempty"` // of an output or a constant
	DType string       `json:"dtype,omitempty"`
	Shape []any        `json:"shape,omitzero"` // a range of sizes is text
	Order tensor.Order `json:"order,omitempty"`
	// Key is the name of the tensor of a constant, or of a buffer in all methods.
	// Target is what an output replaces.
	Key     string     `json:"key,omitempty"`
	Target  string     `json:"target,omitempty"`
	Mutated bool       `json:"mutated,omitempty"`
	Packed  *PTNPacked `json:"packed,omitempty"`
}

// A PTNPacked describes how the elements of a packed tensor are encoded.
type PTNPacked struct {
	Codec     string `json:"codec,omitempty"`
	Bits      int    `json:"bits,omitempty"`
	Group     int32  `json:"group_size,omitempty"`
	Scale     string `json:"scale,omitempty"`
	ZeroPoint string `json:"zero_point,omitempty"`
}

func ptnInfo(r *ptn.Reader) *PTNInfo {
	d := &PTNInfo{Container: "flatbuffer", Methods: []PTNMethod{}, Ignored: []string{}}
	for t := range r.Tensors() {
		if _, ok := r.Owner(t.Name); ok {
			d.Aliases++
			d.AliasBytes += t.Data.Size()
		}
	}
	for s := range r.Spans() {
		if s.Size < r.Size() {
			d.Container = "zip" // a .ptg is one span of metadata
		}
		if s.Kind == tensor.SpanUnused && s.Name != "" {
			d.Ignored = append(d.Ignored, s.Name)
		}
	}
	for m := range r.Methods() {
		d.Methods = append(d.Methods, ptnMethodInfo(m))
	}
	return d
}

func ptnMethodInfo(m ptn.Method) PTNMethod {
	g := m.Graph()
	d := PTNMethod{Name: m.Name(), Inputs: []PTNValue{}, Outputs: []PTNValue{},
		Operators: map[string]int{}, Constants: []PTNValue{}, Buffers: []PTNValue{}}
	values := ptnValues(m)
	for _, name := range g.Inputs {
		d.Inputs = append(d.Inputs, ptnValueInfo(name, values))
	}
	for _, name := range g.Outputs {
		d.Outputs = append(d.Outputs, ptnValueInfo(name, values))
	}
	i := 0
	for o := range m.Outputs() {
		if i < len(d.Outputs) {
			d.Outputs[i].Kind, d.Outputs[i].Target = o.Kind, o.Target
		}
		i++
	}
	for c := range m.Constants() {
		v := ptnValueInfo(c.Name, values)
		v.Kind, v.Key, v.Mutated = c.Kind, c.Key, c.Mutated
		d.Constants = append(d.Constants, v)
	}
	for name, fqn := range m.MutableBuffers() {
		v := ptnValueInfo(name, values)
		v.Key = fqn
		d.Buffers = append(d.Buffers, v)
	}
	d.count(g)
	return d
}

// count counts the nodes of a graph and of those inside it.
func (d *PTNMethod) count(g *ptn.Graph) {
	for n := range g.Nodes() {
		d.Nodes++
		if n.Operator != "" {
			d.Operators[n.Operator]++
		}
		for _, a := range n.Arguments {
			if a.Graph != nil {
				d.count(a.Graph)
			}
		}
	}
}

// ptnValues returns the tensors of a method's graph, without inner graphs, by name.
func ptnValues(m ptn.Method) map[string]ptn.TensorInfo {
	values := maps.Collect(m.Graph().Values())
	for c := range m.Constants() {
		values[c.Name] = c.Info
	}
	return values
}

func ptnValueInfo(name string, values map[string]ptn.TensorInfo) PTNValue {
	d := PTNValue{Name: name}
	info, ok := values[name]
	if !ok {
		return d
	}
	d.DType, d.Shape = info.DType.String(), make([]any, len(info.Dims))
	for i, dim := range info.Dims {
		if d.Shape[i] = dim.Min; dim.Min != dim.Max {
			d.Shape[i] = dim.String()
		}
	}
	if !info.Order.RowMajor() {
		d.Order = info.Order
	}
	if q := info.Quant; q != nil {
		d.Packed = &PTNPacked{q.Codec, q.Bits(), q.GroupSize, q.Scale, q.ZeroPoint}
		if q.Codec != "" {
			d.Packed.Bits = 0
		}
	}
	return d
}

// ptnContent describes every value and node of every method.
func ptnContent(r *ptn.Reader) programText {
	var o programText
	for m := range r.Methods() {
		for c := range m.Constants() {
			o.set(m.Name()+" constant "+c.Name,
				fmt.Sprintf("%s %q %v mutated %v %+v", c.Kind, c.Key, c.Info, c.Mutated,
					quantOf(c.Info)))
		}
		for x := range m.Outputs() {
			o.set(m.Name()+" output "+x.Name, fmt.Sprintf("%s %q", x.Kind, x.Target))
		}
		for name, fqn := range m.MutableBuffers() {
			o.set(m.Name()+" buffer "+name, strconv.Quote(fqn))
		}
		o = ptnGraphContent(o, m.Name(), m.Graph())
	}
	return o
}

func quantOf(i ptn.TensorInfo) ptn.Quant {
	if i.Quant == nil {
		return ptn.Quant{}
	}
	return *i.Quant
}

func ptnGraphContent(o programText, path string, g *ptn.Graph) programText {
	o.set(path+" inputs", fmt.Sprintf("%q", g.Inputs))
	o.set(path+" outputs", fmt.Sprintf("%q", g.Outputs))
	for name, info := range g.Values() {
		o.set(path+" value "+name, info.String())
	}
	for n := range g.Nodes() {
		text := n.Operator
		for i, a := range n.Arguments {
			text += fmt.Sprintf(" %s=%s", a.Name, a.Text)
			if a.Mutated {
				text += " mutated"
			}
			if a.Graph != nil {
				o = ptnGraphContent(o, fmt.Sprintf("%s %s.%d", path, n.Name, i), a.Graph)
			}
		}
		o.set(path+" node "+n.Name, text+fmt.Sprintf(" to %q", n.Results))
	}
	return o
}

// ptnGraph returns a group for each method and for each inner graph: nodes are calls,
// edges are values.
func ptnGraph(r *ptn.Reader) *Graph {
	out := &Graph{Groups: []Group{}, Links: []Link{}}
	for m := range r.Methods() {
		ptnMethod(out, m.Name(), m)
	}
	return out
}

// ptnMethod adds the groups of a method, the first with that name, and returns the index
// of the first.
func ptnMethod(out *Graph, name string, m ptn.Method) int {
	kinds := map[string]NodeKind{}
	for c := range m.Constants() {
		if kinds[c.Name] = NodeConstant; c.Mutated {
			kinds[c.Name] = NodeState
		}
	}
	for value := range m.MutableBuffers() {
		kinds[value] = NodeState
	}
	return ptnGroup(out, name, m.Graph(), ptnValues(m), kinds)
}

// ptnGroup adds the group of a graph, and the groups of its inner graphs. It returns the
// index of the first.
func ptnGroup(out *Graph, name string, g *ptn.Graph, values map[string]ptn.TensorInfo,
	kinds map[string]NodeKind) int {
	number := len(out.Groups)
	out.Groups = append(out.Groups, Group{})
	gr := Group{Name: name, Nodes: []Node{}, Edges: []Edge{}}
	from := map[string]int{} // the node that a value comes from
	add := func(value string, kind NodeKind) int {
		n := Node{Label: value, Kind: kind}
		if info, ok := values[value]; ok {
			n.Detail = info.String()
		}
		gr.Nodes = append(gr.Nodes, n)
		return len(gr.Nodes) - 1
	}
	for _, value := range g.Inputs {
		from[value] = add(value, NodeInput)
	}
	for n := range g.Nodes() {
		if n.Operator == "" {
			continue
		}
		at := len(gr.Nodes)
		gr.Nodes = append(gr.Nodes, Node{n.Operator, n.Name, NodeOperator})
		for _, a := range n.Arguments {
			for _, value := range a.References {
				source, ok := from[value]
				if kind, bound := kinds[value]; !ok && bound {
					source, ok = add(value, kind), true
					from[value] = source
				}
				label := ""
				if ok && gr.Nodes[source].Kind == NodeOperator {
					label = value
				}
				if ok && source != at {
					gr.Edges = append(gr.Edges, Edge{source, at, label})
				}
			}
			if a.Graph != nil {
				to := ptnGroup(out, name+"/"+n.Name+"/"+a.Name, a.Graph,
					maps.Collect(a.Graph.Values()), nil)
				out.Links = append(out.Links, Link{number, at, to, a.Name})
			}
		}
		for _, value := range n.Results {
			from[value] = at
		}
	}
	for _, value := range g.Outputs {
		at := add(value, NodeOutput)
		if source, ok := from[value]; ok {
			gr.Edges = append(gr.Edges, Edge{source, at, ""})
		}
	}
	out.Groups[number] = gr
	return number
}
