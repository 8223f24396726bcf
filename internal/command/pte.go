package command

import (
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
			for s := range r.Spans() {
				switch s.Kind {
				case tensor.SpanHeader, tensor.SpanMetadata:
					all = append(all, span{s.Offset, s.Size, s.Kind.String()})
				}
			}
			return all
		},
	}
	return v
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
