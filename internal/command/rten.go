package command

import (
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/rten"
)

// rtenFacts are the facts of a .rten.
type rtenFacts struct {
	Inputs    []string        `json:"inputs"`
	Outputs   []string        `json:"outputs"`
	Operators pairs[int]      `json:"operators"`
	Metadata  pairs[string]   `json:"metadata"`
	Graphs    int             `json:"graphs"`
	Values    []rtenValueFact `json:"values"`
	Release   *string         `json:"release"` // null where an operator is unknown
	Requires  []rtenNeedFact  `json:"requires"`
}

// A rtenValueFact is an input or output. A symbolic size in its shape is a string.
type rtenValueFact struct {
	Name  string `json:"name"`
	DType string `json:"dtype,omitempty"`
	Shape []any  `json:"shape,omitzero"`
}

type rtenNeedFact struct {
	Release string `json:"release"`
	What    string `json:"what"`
	Field   string `json:"field,omitempty"`
}

func rtenView(r *rten.Reader) view {
	return view{facts: func() any { return factsOfRTen(r) }}
}

func factsOfRTen(r *rten.Reader) rtenFacts {
	m := r.Model()
	top := m.Graph()
	f := rtenFacts{Values: []rtenValueFact{}, Requires: []rtenNeedFact{}}
	list := func(nodes []int) []string {
		names := []string{}
		for _, i := range nodes {
			if i >= 0 && i < top.Len() { // verify reports others
				names = append(names, top.Node(i).Label())
				f.Values = append(f.Values, rtenValue(top.Node(i)))
			}
		}
		return names
	}
	f.Inputs, f.Outputs = list(top.Inputs()), list(top.Outputs())
	counts := map[string]int{}
	for g := range m.Graphs() {
		f.Graphs++
		for n := range g.Nodes() {
			if op, ok := n.Operator(); ok {
				counts[op.Type().String()]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		f.Operators.add(name, counts[name])
	}
	for k, v := range m.Metadata() {
		f.Metadata.add(k, v)
	}
	lowest, because := m.Requires()
	if lowest != "" {
		f.Release = &lowest
	}
	for _, b := range because {
		f.Requires = append(f.Requires, rtenNeedFact{b.Release, b.What, b.Field})
	}
	return f
}

func rtenValue(n rten.Node) rtenValueFact {
	f := rtenValueFact{Name: n.Label()}
	v, ok := n.Value()
	if !ok {
		return f
	}
	if d, ok := v.DType(); ok {
		f.DType = d.String()
	}
	if dims, ok := v.Shape(); ok {
		f.Shape = make([]any, len(dims))
		for i, d := range dims {
			if size, ok := d.Size(); ok {
				f.Shape[i] = size
			} else {
				f.Shape[i], _ = d.Symbol()
			}
		}
	}
	return f
}
