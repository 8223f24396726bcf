package command

import (
	"maps"
	"slices"

	"github.com/tensorfile/tensorfile/rten"
)

func rtenView(r *rten.Reader) view {
	return view{
		facts: func() object { return rtenFacts(r) },
		metadata: func() []span {
			h, ok := r.Header()
			if !ok {
				return []span{{0, r.Size(), "model"}} // its weights are in it
			}
			return []span{{0, 32, "header"}, {h.ModelOffset, h.ModelSize, "model"}}
		},
	}
}

func rtenFacts(r *rten.Reader) object {
	m := r.Model()
	top := m.Graph()
	list := func(nodes []int) ([]string, []object) {
		names, values := []string{}, []object{}
		for _, i := range nodes {
			if i < 0 || i >= top.Len() {
				continue // verify tells
			}
			n := top.Node(i)
			names = append(names, n.Label())
			o := object{{"name", n.Label()}}
			if v, ok := n.Value(); ok {
				if d, ok := v.DType(); ok {
					o.set("dtype", d.String())
				}
				if dims, ok := v.Shape(); ok {
					shape := make([]any, len(dims))
					for i, d := range dims {
						if size, ok := d.Size(); ok {
							shape[i] = size
						} else {
							shape[i], _ = d.Symbol()
						}
					}
					o.set("shape", shape)
				}
			}
			values = append(values, o)
		}
		return names, values
	}
	inputs, inputValues := list(top.Inputs())
	outputs, outputValues := list(top.Outputs())
	counts := map[string]int{}
	graphs := 0
	for g := range m.Graphs() {
		graphs++
		for n := range g.Nodes() {
			if op, ok := n.Operator(); ok {
				counts[op.Type().String()]++
			}
		}
	}
	operators, metadata := object{}, object{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		operators.set(name, counts[name])
	}
	for k, v := range m.Metadata() {
		metadata.set(k, v)
	}
	facts := object{
		{"inputs", inputs}, {"outputs", outputs}, {"operators", operators}, {"metadata", metadata},
		{"graphs", graphs}, {"values", append(inputValues, outputValues...)},
	}
	lowest, because := m.Requires()
	requires := []object{}
	for _, b := range because {
		o := object{{"release", b.Release}, {"what", b.What}}
		if b.Field != "" {
			o.set("field", b.Field)
		}
		requires = append(requires, o)
	}
	if lowest != "" {
		facts.set("release", lowest)
	} else {
		facts.set("release", nil)
	}
	facts.set("requires", requires)
	return facts
}
