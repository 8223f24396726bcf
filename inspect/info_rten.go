package inspect

import (
	"maps"

	"github.com/tensorfile/tensorfile/rten"
)

// An RTenInfo has the facts that only a .rten has.
type RTenInfo struct {
	Inputs    []string          `json:"inputs"`
	Outputs   []string          `json:"outputs"`
	Operators map[string]int    `json:"operators"` // how many of each type, in all graphs
	Metadata  map[string]string `json:"metadata"`
	Graphs    int               `json:"graphs"`
	Values    []RTenValue       `json:"values"`  // inputs and outputs
	Release   *string           `json:"release"` // nil if an operator is unknown
	Requires  []RTenRequirement `json:"requires"`
}

// An RTenValue is an input or output. A symbolic size in its shape is a string.
type RTenValue struct {
	Name  string `json:"name"`
	DType string `json:"dtype,omitempty"`
	Shape []any  `json:"shape,omitzero"`
}

// An RTenRequirement says why a model requires a release of RTen.
type RTenRequirement struct {
	Release string `json:"release"`
	What    string `json:"what"`
	Field   string `json:"field,omitempty"`
}

func rtenInfo(r *rten.Reader) *RTenInfo {
	m := r.Model()
	top := m.Graph()
	d := &RTenInfo{Operators: map[string]int{}, Metadata: maps.Collect(m.Metadata()),
		Values: []RTenValue{}, Requires: []RTenRequirement{}}
	list := func(nodes []int) []string {
		names := []string{}
		for _, i := range nodes {
			if i >= 0 && i < top.Len() { // Verify reports others
				names = append(names, top.Node(i).Label())
				d.Values = append(d.Values, rtenValue(top.Node(i)))
			}
		}
		return names
	}
	d.Inputs, d.Outputs = list(top.Inputs()), list(top.Outputs())
	for g := range m.Graphs() {
		d.Graphs++
		for n := range g.Nodes() {
			if op, ok := n.Operator(); ok {
				d.Operators[op.Type().String()]++
			}
		}
	}
	lowest, because := m.Requires()
	if lowest != "" {
		d.Release = &lowest
	}
	for _, b := range because {
		d.Requires = append(d.Requires, RTenRequirement{b.Release, b.What, b.Field})
	}
	return d
}

func rtenValue(n rten.Node) RTenValue {
	d := RTenValue{Name: n.Label()}
	v, ok := n.Value()
	if !ok {
		return d
	}
	if t, ok := v.DType(); ok {
		d.DType = t.String()
	}
	if dims, ok := v.Shape(); ok {
		d.Shape = make([]any, len(dims))
		for i, dim := range dims {
			if size, ok := dim.Size(); ok {
				d.Shape[i] = size
			} else {
				d.Shape[i], _ = dim.Symbol()
			}
		}
	}
	return d
}
