package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/tensor"
)

// An ONNXInfo has the facts that only a .onnx has.
type ONNXInfo struct {
	Producer        string           `json:"producer"`
	ProducerVersion string           `json:"producer_version"`
	Domain          string           `json:"domain"`
	ModelVersion    int64            `json:"model_version"`
	Opsets          map[string]int64 `json:"opsets"` // by domain, "" being ONNX itself
	Inputs          []ONNXValue      `json:"inputs"` // without those that are initializers too
	Outputs         []ONNXValue      `json:"outputs"`
	Operators       map[string]int   `json:"operators"` // how many of each type, in all graphs
	Graphs          int              `json:"graphs"`    // functions and training included
	Functions       []string         `json:"functions"`
	Training        int              `json:"training"`
	Files           []ONNXFile       `json:"files"`
}

// An ONNXValue is an input or output. A symbolic size in its shape is a string, "?" if
// the model gives none.
type ONNXValue struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	DType string `json:"dtype,omitempty"` // of a tensor
	Shape []any  `json:"shape,omitzero"`
}

// An ONNXFile is a file with elements of tensors.
type ONNXFile struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"` // -1 if it is missing
	Tensors   int    `json:"tensors"`
	Bytes     int64  `json:"bytes"`
	Alignment int64  `json:"alignment"`
}

func onnxInfo(r *onnx.Reader) *ONNXInfo {
	m := r.Model()
	d := &ONNXInfo{Producer: m.Producer, ProducerVersion: m.ProducerVersion, Domain: m.Domain,
		ModelVersion: m.ModelVersion, Opsets: map[string]int64{}, Inputs: []ONNXValue{},
		Outputs: []ONNXValue{}, Operators: map[string]int{}, Functions: []string{},
		Training: len(m.Training), Files: []ONNXFile{}}
	for _, o := range m.Opsets {
		d.Opsets[o.Domain] = o.Version
	}
	for v := range m.Graph.InputsOnly() {
		d.Inputs = append(d.Inputs, onnxValue(v))
	}
	for _, v := range m.Graph.Outputs {
		d.Outputs = append(d.Outputs, onnxValue(v))
	}
	for g := range m.Graphs() {
		d.Graphs++
		for i := range g.Nodes {
			d.Operators[g.Nodes[i].Operator()]++
		}
	}
	for _, f := range m.Functions {
		d.Functions = append(d.Functions, strings.TrimSuffix(f.Graph.Path, "/"))
	}
	for _, f := range r.DataFiles() {
		d.Files = append(d.Files, ONNXFile{f.Name, f.Size, f.Tensors, f.Bytes, f.Alignment})
	}
	return d
}

func onnxValue(v onnx.Value) ONNXValue {
	d := ONNXValue{Name: v.Name, Type: v.Type.String()}
	if v.Type == nil || v.Type.Kind != onnx.TensorType {
		return d
	}
	if d.DType = v.Type.DType(); v.Type.Ranked {
		d.Shape = make([]any, len(v.Type.Dims))
		for i, dim := range v.Type.Dims {
			d.Shape[i] = dim.String()
			if size, ok := dim.Fixed(); ok {
				d.Shape[i] = size
			}
		}
	}
	return d
}

// onnxContent describes the graphs of a model, without the order of their storage.
func onnxContent(r *onnx.Reader) programText {
	m := r.Model()
	var o programText
	for _, s := range m.Opsets {
		o.set("opset "+strconv.Quote(s.Domain), strconv.FormatInt(s.Version, 10))
	}
	for _, f := range m.Functions {
		o.set(f.Graph.Path+"attributes", fmt.Sprintf("%q", f.Attributes))
		for i := range f.Defaults {
			o.set(f.Graph.Path+"attribute "+f.Defaults[i].Name, onnxAttribute(&f.Defaults[i]))
		}
	}
	for g := range m.Graphs() {
		list := func(what string, values []onnx.Value) {
			all := make([]string, len(values))
			for i, v := range values {
				all[i] = strconv.Quote(v.Name) + " " + v.Type.String()
			}
			o.set(g.Path+what, strings.Join(all, ", "))
		}
		list("inputs", g.Inputs)
		list("outputs", g.Outputs)
		for i := range g.Nodes {
			n := &g.Nodes[i]
			s := fmt.Sprintf("%s %q %q to %q", n.Operator(), n.Name, n.Inputs, n.Outputs)
			if n.Overload != "" {
				s += " overload " + strconv.Quote(n.Overload)
			}
			for j := range n.Attributes {
				s += " " + n.Attributes[j].Name + "=" + onnxAttribute(&n.Attributes[j])
			}
			o.set(g.Path+"node "+strconv.Itoa(i), s)
		}
	}
	return o
}

// onnxAttribute describes the value of an attribute. Tensors and graphs are compared on
// their own.
func onnxAttribute(a *onnx.Attribute) string {
	switch v := a.Value.(type) {
	case *tensor.Tensor, []*tensor.Tensor:
		return "tensor"
	case *onnx.Graph, []*onnx.Graph:
		return "graph"
	case string, []string, onnx.Ref:
		return fmt.Sprintf("%q", v)
	case *onnx.Type:
		return v.String()
	}
	return fmt.Sprint(a.Value)
}

// onnxGraph returns a group for each graph, in which the nodes of the graph come first.
// Values between nodes are edges, labelled with the name of the value.
func onnxGraph(r *onnx.Reader) *Graph {
	m := r.Model()
	out := &Graph{Groups: []Group{}, Links: []Link{}}
	groupOf := map[*onnx.Graph]int{}
	functions := map[[3]string]*onnx.Graph{}
	for _, f := range m.Functions {
		functions[[3]string{f.Domain, f.Name, f.Overload}] = f.Graph
	}
	for g := range m.Graphs() {
		groupOf[g] = len(out.Groups)
		out.Groups = append(out.Groups, onnxGroup(g, g == m.Graph))
	}
	for g := range m.Graphs() {
		if up, node := g.Up(); up != nil && node >= 0 {
			out.Links = append(out.Links, Link{groupOf[up], node, groupOf[g],
				up.Nodes[node].Operator()})
		}
		for i := range g.Nodes {
			n := &g.Nodes[i]
			if f := functions[[3]string{n.Domain, n.OpType, n.Overload}]; f != nil {
				out.Links = append(out.Links, Link{groupOf[g], i, groupOf[f], n.Operator()})
			}
		}
	}
	return out
}

func onnxGroup(g *onnx.Graph, isMain bool) Group {
	gr := Group{Name: strings.TrimSuffix(g.Path, "/"), Nodes: []Node{}, Edges: []Edge{}}
	if isMain {
		gr.Name = "model"
	}
	types := map[string]string{}
	for _, v := range slices.Concat(g.Values, g.Inputs, g.Outputs) {
		if v.Type != nil {
			types[v.Name] = v.Type.String()
		}
	}
	add := func(n Node) int {
		gr.Nodes = append(gr.Nodes, n)
		return len(gr.Nodes) - 1
	}
	from := map[string]int{} // the node that a value comes from
	for i := range g.Nodes {
		n := &g.Nodes[i]
		at := add(Node{n.Operator(), n.Name, NodeOperator})
		for _, name := range n.Outputs {
			if _, taken := from[name]; name != "" && !taken {
				from[name] = at
			}
		}
	}
	constants := map[string]Node{} // added when they are used
	for name, t := range g.Initializers() {
		detail := dtypeName(t.DType, t.Data) + " " + t.Shape.String()
		constants[name] = Node{name, detail, NodeConstant}
	}
	for _, v := range g.Inputs {
		_, isConstant := constants[v.Name]
		if _, taken := from[v.Name]; !taken && !isConstant {
			from[v.Name] = add(Node{v.Name, types[v.Name], NodeInput})
		}
	}
	// source returns the node that a value comes from; for a value of an outer graph a
	// new input.
	source := func(name string) (at int, label string) {
		at, ok := from[name]
		if !ok {
			n, isConstant := constants[name]
			if !isConstant {
				n = Node{name, types[name], NodeInput}
			}
			at = add(n)
			from[name] = at
		}
		if gr.Nodes[at].Kind == NodeOperator {
			label = name
		}
		return at, label
	}
	for i := range g.Nodes {
		for _, name := range g.Nodes[i].Inputs {
			if name != "" {
				at, label := source(name)
				gr.Edges = append(gr.Edges, Edge{at, i, label})
			}
		}
	}
	for _, v := range g.Outputs {
		_, isConstant := constants[v.Name]
		_, isValue := from[v.Name]
		at := add(Node{v.Name, types[v.Name], NodeOutput})
		if isConstant || isValue {
			from, _ := source(v.Name)
			gr.Edges = append(gr.Edges, Edge{from, at, ""})
		}
	}
	return gr
}
