package main

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

func pteView(r *pte.Reader) view {
	var entries []*pte.Entry
	v := view{
		facts: func() object { return pteFacts(r) },
		row: func(i int, t *tensor.Tensor, row *row) {
			if entries == nil {
				entries = slices.Collect(r.Entries())
			}
			e := entries[i]
			row.ids = object{{"method", e.Method.Name()}, {"value", e.Value}}
			if e.Buffer > 0 {
				row.extra.set("buffer", e.Buffer)
			}
			if e.Role.Mutable() {
				row.extra.set("mutable", true)
			}
			if e.Role == pte.RoleState && e.Buffer == 0 {
				row.empty, row.inFile = true, false // it has no bytes before the program runs
			}
		},
		ending: func(b tensor.Blob) string {
			head := make([]byte, min(b.Size(), 16))
			if n, err := b.ReadAt(head, 0); n < len(head) && err != nil {
				return ""
			}
			_, ending := pte.Recognize(head)
			return ending
		},
		metadata: func() []span {
			var all []span
			for p := range r.Layout() {
				switch p.Kind {
				case pte.PartHeader, pte.PartFlatbuffer, pte.PartBundle:
					all = append(all, span{p.Offset, p.Size, p.Kind.String()})
				}
			}
			return all
		},
		content: func() object { return pteContent(r) },
		graph:   func() *graph { return pteGraph(r) },
	}
	if r.Bundle() != nil {
		v.cases = func() object { return pteCases(r.Bundle()) }
	}
	return v
}

// pteCases describes every value of a bundle's test cases, a tensor's bytes by their digest.
func pteCases(b *pte.Bundle) object {
	o := object{}
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
					o.set(fmt.Sprintf("test suite %d %s case %d %s %d", i, s.Method, k, side.name, j), fmt.Sprint(v))
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

func pteFacts(r *pte.Reader) object {
	p := r.Program()
	methods, segments, named := []object{}, []object{}, []object{}
	for m := range p.Methods() {
		values := func(vs []pte.Value) []object {
			all := []object{}
			for _, v := range vs {
				all = append(all, pteValue(v))
			}
			return all
		}
		operators, delegates := []string{}, []object{}
		for _, o := range m.Operators() {
			operators = append(operators, o.String())
		}
		for _, d := range m.Delegates() {
			o := object{{"id", d.ID}, {"bytes", d.Payload.Size()}}
			head := make([]byte, min(d.Payload.Size(), 16))
			if n, _ := d.Payload.ReadAt(head, 0); n == len(head) {
				if what, _ := pte.Recognize(head); what != "" {
					o.set("payload", what)
				}
			}
			specs := object{}
			for _, s := range d.Specs {
				specs.set(s.Key, string(s.Value))
			}
			if len(specs) > 0 {
				o.set("compile_specs", specs)
			}
			delegates = append(delegates, o)
		}
		mem := m.Memory()
		memory := object{{"buffers", mem.Buffers}, {"peak", m.PlannedPeak()}}
		if slices.ContainsFunc(mem.Devices, func(d pte.Device) bool { return d.Type != 0 }) {
			devices := []string{}
			for _, d := range mem.Devices {
				devices = append(devices, d.String())
			}
			memory.set("devices", devices)
		}
		o := appendName(nil, m.Name())
		o = append(o, object{
			{"inputs", values(m.Inputs())}, {"outputs", values(m.Outputs())}, {"operators", operators}, {"delegates", delegates},
			{"instructions", m.NumInstructions()}, {"values", m.NumValues()}, {"memory", memory},
		}...)
		if in, out := m.Structure(); in != "" || out != "" {
			o.set("structure", object{{"inputs", in}, {"outputs", out}})
		}
		methods = append(methods, o)
	}
	for _, s := range p.Segments() {
		o := object{{"offset", s.Offset}, {"size", s.Size}}
		if len(s.Roles) > 0 {
			o.set("roles", s.Roles)
		}
		segments = append(segments, o)
	}
	for d := range p.NamedData() {
		o := object{{"key", d.Key}, {"bytes", d.Data.Size()}}
		if head := make([]byte, min(max(d.Data.Size(), 0), 16)); len(head) > 0 {
			if n, _ := d.Data.ReadAt(head, 0); n == len(head) {
				if what, _ := pte.Recognize(head); what != "" {
					o.set("payload", what)
				}
			}
		}
		named = append(named, o)
	}
	kernels := object{}
	for _, k := range p.Kernels() {
		kernels.set(k.Operator, k.Keys)
	}
	h := r.Header()
	header := object{{"length", h.Length}, {"program_size", h.ProgramSize}, {"segment_base_offset", h.SegmentBase}, {"segment_data_size", h.SegmentDataSize}}
	o := object{{"methods", methods}, {"segments", segments}, {"named_data", named}, {"kernels", kernels}, {"header", header}}
	if b := r.Bundle(); b != nil {
		suites := []object{}
		for _, s := range b.Suites {
			suites = append(suites, object{{"method", s.Method}, {"cases", len(s.Cases)}})
		}
		o.set("bundle", object{{"version", b.Version}, {"offset", r.Start()}, {"size", r.Size()}, {"suites", suites}})
	}
	return o
}

func pteValue(v pte.Value) object {
	o := object{{"kind", v.Kind().String()}}
	if t, ok := v.Tensor(); ok {
		d := t.DType.String()
		if !t.DType.Known() {
			d = strconv.Itoa(int(t.ScalarType))
		}
		order := t.Order
		if order == nil {
			order = make(tensor.Order, len(t.Shape))
			for i := range order {
				order[i] = i
			}
		}
		o = append(o, object{{"dtype", d}, {"shape", t.Shape}}...)
		if !order.RowMajor() {
			o.set("order", order)
		}
		o.set("dynamism", t.Dynamism.String())
		if n, ok := t.Bytes(); ok {
			o.set("bytes", n)
		}
		o.set("planned", t.Planned)
		return o
	}
	switch v.Kind() {
	case pte.KindInt:
		o.set("value", v.Int())
	case pte.KindBool:
		o.set("value", v.Bool())
	case pte.KindDouble:
		o.set("value", v.Double())
	case pte.KindString:
		o.set("value", v.Text())
	}
	return o
}

// pteContent describes every value and instruction of every method, one field each.
func pteContent(r *pte.Reader) object {
	o := object{{"version", r.Version()}}
	for m := range r.Program().Methods() {
		at := func(format string, args ...any) string { return m.Name() + " " + fmt.Sprintf(format, args...) }
		indices := func(n int, index func(int) int32) []int32 { // as they stand: they may name nothing
			all := make([]int32, n)
			for i := range all {
				all[i] = index(i)
			}
			return all
		}
		in, out := m.Structure()
		mem, raw := m.Memory(), m.Raw()
		o.set(at("inputs"), indices(raw.InputsLength(), raw.Inputs))
		o.set(at("outputs"), indices(raw.OutputsLength(), raw.Outputs))
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

// pteDescription is a value with everything but where its bytes are stored.
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
			s += " " + escape(t.Name)
		}
		if t.Device.Type != 0 {
			s += " on " + t.Device.String()
		} else if t.Device.Index != 0 {
			s += fmt.Sprintf(" device_index %d", t.Device.Index)
		}
		// What no exporter sets.
		for _, f := range []struct {
			name  string
			value int64
		}{{"storage_offset", int64(t.StorageOffset)}, {"layout", int64(t.Layout)}, {"mutable_data_segments_idx", int64(t.MutableIndex)}} {
			if f.value != 0 {
				s += fmt.Sprintf(" %s %d", f.name, f.value)
			}
		}
		if t.RequiresGrad {
			s += " requires_grad"
		}
		if t.Dynamism != pte.Static && t.Dynamism != pte.Bound {
			s += " " + t.Dynamism.String()
		}
		if t.DimOrder != nil {
			s += fmt.Sprintf(" dim_order %d", t.DimOrder)
		}
		return s
	case v.Kind().IsList():
		return fmt.Sprintf("%v%v", v.Kind(), v.Items())
	case v.Kind() == pte.KindDoubleList:
		return fmt.Sprintf("%v%v", v.Kind(), v.Doubles())
	case v.Kind() == pte.KindBoolList:
		return fmt.Sprintf("%v%v", v.Kind(), v.Bools())
	case v.Kind() == pte.KindString:
		return strconv.Quote(v.Text())
	}
	return v.String()
}

// pteGraph draws a group a method: calls as nodes in the order in which they run, values as edges.
func pteGraph(r *pte.Reader) *graph {
	out := new(graph)
	for m := range r.Program().Methods() {
		if !m.IsGetter() {
			out.groups = append(out.groups, pteGroup(m))
		}
	}
	return out
}

func pteGroup(m pte.Method) graphGroup {
	gr := graphGroup{name: m.Name()}
	add := func(label, detail string, kind nodeKind) int {
		gr.nodes = append(gr.nodes, graphNode{label, detail, kind})
		return len(gr.nodes) - 1
	}
	type edge struct{ from, to int }
	seen := make(map[edge]bool)
	connect := func(a, b int, label string) {
		if a != b && !seen[edge{a, b}] {
			seen[edge{a, b}] = true
			gr.edges = append(gr.edges, graphEdge{a, b, label})
		}
	}
	stored := make(map[int]int) // inputs, and tensors with bytes of their own: value → node
	for i, v := range m.Inputs() {
		stored[v.Index()] = add("input "+strconv.Itoa(i), v.String(), nodeInput)
	}
	steps := []int{} // step → node
	// read connects the source of a value to the node that uses it; tensors that are stored become
	// nodes when they are first used.
	read := func(s pte.Source, to int, label string) {
		if s.Step >= 0 {
			connect(steps[s.Step], to, label)
			return
		}
		at, ok := stored[s.Origin]
		if !ok {
			t, ok := m.Value(s.Origin).Tensor()
			if !ok || t.Role == pte.RolePlanned || t.Role == pte.RoleCaller {
				return
			}
			kind := nodeConstant
			if t.Role.Mutable() {
				kind = nodeState
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
		label, detail, kind, edges := "?", "", nodeOperator, ""
		if len(s.Writes) > 0 {
			detail = m.Value(s.Writes[0]).String()
		}
		switch i := s.Instruction; i.Opcode() {
		case pte.OpKernelCall:
			if o := i.Operator(); o >= 0 && o < len(operators) {
				label = operators[o].String()
			}
		case pte.OpDelegateCall:
			kind = nodeDelegate
			if d := i.Delegate(); d >= 0 && d < len(delegates) {
				label = delegates[d].ID
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
		at := add("output "+strconv.Itoa(i), v.String(), nodeOutput)
		for _, x := range flow.Outputs[i] {
			read(x, at, "")
		}
	}
	return gr
}
