package inspect

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/tensor"
)

// pteContent describes every value and instruction of every method, one entry each.
func pteContent(r *pte.Reader) programText {
	var o programText
	o.set("version", r.Version())
	for m := range r.Program().Methods() {
		at := func(format string, args ...any) string {
			return m.Name() + " " + fmt.Sprintf(format, args...)
		}
		// The indices of the file, which may be out of range.
		indices := func(n int, index func(int) int32) []int32 {
			all := make([]int32, n)
			for i := range all {
				all[i] = index(i)
			}
			return all
		}
		in, out := m.Structure()
		mem, raw := m.Memory(), m.Raw()
		o.set(at("inputs"), fmt.Sprint(indices(raw.InputsLength(), raw.Inputs)))
		o.set(at("outputs"), fmt.Sprint(indices(raw.OutputsLength(), raw.Outputs)))
		o.set(at("structure"), in+" -> "+out)
		o.set(at("memory"), fmt.Sprint(mem.Buffers, mem.Devices))
		o.set(at("operators"), fmt.Sprint(m.Operators()))
		for _, d := range m.Delegates() {
			o.set(at("delegate %d", d.Index), fmt.Sprintf("%s %q", d.ID, d.Specs))
		}
		for v := range m.Values() {
			o.set(at("value %d", v.Index()), pteDescription(v))
		}
		for i := range m.Instructions() {
			o.set(at("instruction %d.%d", i.Chain(), i.Index()), i.String())
		}
	}
	return o
}

// pteDescription describes a value, without where its bytes are stored.
func pteDescription(v pte.Value) string {
	switch t, ok := v.Tensor(); {
	case ok:
		s := fmt.Sprintf("%v %v", t, t.Role)
		if t.Order != nil {
			s += fmt.Sprintf(" order %v", []int(t.Order))
		}
		if t.Planned {
			s += fmt.Sprintf(" at %d in memory %d", t.Place.Offset, t.Place.Memory)
		}
		if t.Name != "" {
			s += " " + strconv.Quote(t.Name)
		}
		if t.Device.Type != 0 {
			s += " on " + t.Device.String()
		} else if t.Device.Index != 0 {
			s += fmt.Sprintf(" device_index %d", t.Device.Index)
		}
		// Fields that no exporter sets.
		for _, f := range []struct {
			name  string
			value int64
		}{{"storage_offset", int64(t.StorageOffset)}, {"layout", int64(t.Layout)},
			{"mutable_data_segments_idx", int64(t.MutableIndex)}} {
			if f.value != 0 {
				s += fmt.Sprintf(" %s %d", f.name, f.value)
			}
		}
		if t.RequiresGrad {
			s += " requires_grad"
		}
		switch word := t.Dynamism.String(); word {
		case "STATIC", "DYNAMIC_BOUND":
		default:
			s += " " + word
		}
		if t.DimOrder != nil {
			s += fmt.Sprintf(" dim_order %d", t.DimOrder)
		}
		return s
	case v.Items() != nil:
		return fmt.Sprintf("%v%v", v.Kind(), v.Items())
	}
	switch x := v.Constant().(type) {
	case []float64, []bool:
		return fmt.Sprintf("%v%v", v.Kind(), x)
	case string:
		return strconv.Quote(x)
	}
	return v.String()
}

// pteCases describes every value of a bundle's test cases. Data of tensors is hashed.
func pteCases(b *pte.Bundle) programText {
	var o programText
	for i, s := range b.Suites {
		for k, c := range s.Cases {
			for _, side := range []struct {
				name   string
				values []any
			}{{"input", c.Inputs}, {"output", c.Outputs}} {
				for j, v := range side.values {
					if t, ok := v.(*tensor.Tensor); ok {
						v = pteCaseTensor(t)
					}
					o.set(fmt.Sprintf("test suite %d %s case %d %s %d", i, s.Method, k, side.name,
						j), fmt.Sprint(v))
				}
			}
		}
	}
	return o
}

func pteCaseTensor(t *tensor.Tensor) string {
	text := fmt.Sprintf("%v %v", t.DType, t.Shape)
	if t.Order != nil {
		text += fmt.Sprintf(" order %v", []int(t.Order))
	}
	h := sha256.New()
	if _, err := t.Data.WriteTo(h); err != nil {
		return text + " unreadable: " + err.Error()
	}
	return fmt.Sprintf("%s sha256 %x", text, h.Sum(nil))
}

// pteGraph returns a group for each method: nodes are calls, in the order in which they
// run, edges are values. Programs of native delegates are groups after the methods.
func pteGraph(r *pte.Reader) *Graph {
	out := &Graph{Groups: []Group{}, Links: []Link{}}
	type call struct {
		Link
		program *ptn.Reader
		name    string
	}
	var calls []call
	for m := range r.Program().Methods() {
		if m.IsGetter() {
			continue
		}
		group, nodes := pteGroup(m)
		for _, d := range m.Delegates() {
			p := nativeProgram(d)
			for _, node := range nodes[d.Index] {
				if p != nil {
					calls = append(calls, call{Link{Group: len(out.Groups), Node: node,
						Label: d.ID},
						p, fmt.Sprintf("delegate/%s/%d", m.Name(), d.Index)})
				}
			}
		}
		out.Groups = append(out.Groups, group)
	}
	groups := map[*ptn.Reader]int{}
	for _, c := range calls {
		for m := range c.program.Methods() {
			if _, ok := groups[c.program]; !ok {
				groups[c.program] = ptnMethod(out, c.name, m)
			}
		}
		if to, ok := groups[c.program]; ok {
			c.To = to
			out.Links = append(out.Links, c.Link)
		}
	}
	return out
}

// pteGroup returns the group of a method, and the nodes that call each delegate.
func pteGroup(m pte.Method) (gr Group, calls map[int][]int) {
	gr, calls = Group{Name: m.Name(), Nodes: []Node{}, Edges: []Edge{}}, map[int][]int{}
	add := func(label, detail string, kind NodeKind) int {
		gr.Nodes = append(gr.Nodes, Node{label, detail, kind})
		return len(gr.Nodes) - 1
	}
	type edge struct{ from, to int }
	seen := make(map[edge]bool)
	connect := func(a, b int, label string) {
		if a != b && !seen[edge{a, b}] {
			seen[edge{a, b}] = true
			gr.Edges = append(gr.Edges, Edge{a, b, label})
		}
	}
	stored := make(map[int]int) // inputs, and tensors with bytes of their own: value → node
	for i, v := range m.Inputs() {
		stored[v.Index()] = add("input "+strconv.Itoa(i), v.String(), NodeInput)
	}
	steps := []int{} // step → node
	// read connects the source of a value to the node that uses it; tensors that are
	// stored become nodes when they are first used.
	read := func(s pte.Source, to int, label string) {
		if s.Step >= 0 {
			connect(steps[s.Step], to, label)
			return
		}
		at, ok := stored[s.Origin]
		if !ok {
			t, ok := m.Value(s.Origin).Tensor()
			if !ok || t.Role == pte.RoleCaller {
				return
			}
			kind := NodeConstant
			if t.Role.Mutable() || t.Role == pte.RolePlanned {
				kind = NodeState
			}
			name := t.Name
			if name == "" {
				name = strconv.Itoa(s.Origin)
			}
			at = add(name, t.String(), kind)
			stored[s.Origin] = at
		}
		connect(at, to, label)
	}
	operators, delegates := m.Operators(), m.Delegates()
	flow := m.Flow()
	for _, s := range flow.Steps {
		label, detail, kind, edges := "?", "", NodeOperator, ""
		if len(s.Writes) > 0 {
			detail = m.Value(s.Writes[0]).String()
		}
		switch i := s.Instruction; i.Opcode() {
		case pte.OpKernelCall:
			if o := i.Operator(); o >= 0 && o < len(operators) {
				label = operators[o].String()
			}
		case pte.OpDelegateCall:
			kind = NodeDelegate
			if d := i.Delegate(); d >= 0 && d < len(delegates) {
				label = delegates[d].ID
				calls[d] = append(calls[d], len(gr.Nodes))
			}
		case pte.OpMove:
			label = "move"
		case pte.OpJumpFalse:
			_, to := i.Jump()
			label, detail, edges = "jump if false", "to instruction "+strconv.Itoa(to), "condition"
		default:
			steps = append(steps, -1) // writes nothing that is read
			continue
		}
		at := add(label, detail, kind)
		for _, x := range s.Reads {
			read(x, at, edges)
		}
		steps = append(steps, at)
	}
	for i, v := range m.Outputs() {
		at := add("output "+strconv.Itoa(i), v.String(), NodeOutput)
		for _, x := range flow.Outputs[i] {
			read(x, at, "")
		}
	}
	return gr, calls
}
