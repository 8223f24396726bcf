package onnx

import (
	"strconv"

	"github.com/tensorfile/tensorfile/tensor"
)

// A namer gives every tensor its name and every graph its path: see [Reader].
type namer struct{ p *parser }

// charged counts the memory of a composed name, and returns it.
func (n namer) charged(s string) string {
	n.p.charge(len(s))
	return s
}

func (n namer) model(m *Model) {
	if m.Graph != nil {
		n.graph(m.Graph, "")
	}
	for _, f := range m.Functions {
		path := f.Domain + ":" + f.Name
		if f.Overload != "" {
			path += ":" + f.Overload
		}
		path = n.charged(path + "/")
		for i := range f.Defaults {
			n.attribute(f.Graph, -1, &f.Defaults[i], path+"attribute."+f.Defaults[i].Name)
		}
		n.graph(f.Graph, path)
	}
	for i, t := range m.Training {
		path := "training[" + strconv.Itoa(i) + "]."
		if t.Initialization != nil {
			n.graph(t.Initialization, n.charged(path+"initialization/"))
		}
		if t.Algorithm != nil {
			n.graph(t.Algorithm, n.charged(path+"algorithm/"))
		}
	}
}

func (n namer) graph(g *Graph, path string) {
	g.Path = path
	dense, sparse := 0, 0
	for _, e := range g.initializers {
		index, empty := &dense, "#"
		if e.tensor.Scheme != "" {
			index, empty = &sparse, "sparse#"
		}
		if e.unnamed = e.tensor.Name == ""; e.unnamed {
			e.tensor.Name = n.charged(empty + strconv.Itoa(*index))
		}
		if path != "" {
			e.tensor.Name = n.charged(path + e.tensor.Name)
		}
		*index++
	}
	for i := range g.Nodes {
		node := &g.Nodes[i]
		if len(node.Attributes) == 0 || n.p.err != nil {
			continue
		}
		own := path + node.Name
		if node.Name == "" {
			own = path + "#" + strconv.Itoa(i)
		}
		for j := range node.Attributes {
			a := &node.Attributes[j]
			isValue := node.OpType == "Constant" && isONNX(node.Domain) &&
				(a.Name == "value" || a.Name == "sparse_value")
			if isValue && len(node.Outputs) > 0 && node.Outputs[0] != "" {
				n.attribute(g, i, a, path+node.Outputs[0])
			} else if a.hasTensors() {
				n.attribute(g, i, a, own+"."+a.Name)
			}
		}
	}
}

// hasTensors reports whether an attribute has tensors or graphs.
func (a *Attribute) hasTensors() bool {
	for v := range a.values() {
		switch v.(type) {
		case *tensor.Tensor, []*tensor.Tensor, *Graph, []*Graph:
			return true
		}
	}
	return false
}

// attribute names the tensors and graphs in an attribute of a node of g; node is -1 for a
// default attribute of a function.
func (n namer) attribute(g *Graph, node int, a *Attribute, name string) {
	list := func(i int) string { return n.charged(name + "[" + strconv.Itoa(i) + "]") }
	graph := func(sub *Graph, name string) {
		sub.up, sub.node = g, node
		n.graph(sub, n.charged(name+"/"))
	}
	for v := range a.values() {
		switch v := v.(type) {
		case *tensor.Tensor:
			v.Name = n.charged(name)
		case []*tensor.Tensor:
			for i, t := range v {
				t.Name = list(i)
			}
		case *Graph:
			graph(v, name)
		case []*Graph:
			for i, sub := range v {
				graph(sub, list(i))
			}
		}
	}
}
