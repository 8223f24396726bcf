package command

import (
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// pteFacts are the facts of a .pte.
type pteFacts struct {
	Methods   []pteMethodFact `json:"methods"`
	Segments  []segmentFact   `json:"segments"`
	NamedData []pteNamedFact  `json:"named_data"`
	Kernels   pairs[[]string] `json:"kernels"`
	Header    pteHeaderFact   `json:"header"`
	Bundle    *pteBundleFact  `json:"bundle,omitempty"`
}

type pteMethodFact struct {
	nameField
	Inputs       []pteValueFact    `json:"inputs"`
	Outputs      []pteValueFact    `json:"outputs"`
	Operators    []string          `json:"operators"`
	Delegates    []pteDelegateFact `json:"delegates"`
	Instructions int               `json:"instructions"`
	Values       int               `json:"values"`
	Memory       pteMemoryFact     `json:"memory"`
	Structure    *pteStructureFact `json:"structure,omitempty"`
}

// A pteValueFact is an input or output: a tensor, or a value of its own.
type pteValueFact struct {
	Kind     string       `json:"kind"`
	DType    string       `json:"dtype,omitempty"`
	Shape    tensor.Shape `json:"shape,omitzero"`
	Order    tensor.Order `json:"order,omitempty"`
	Dynamism string       `json:"dynamism,omitempty"`
	Bytes    *int64       `json:"bytes,omitempty"`
	Planned  *bool        `json:"planned,omitempty"`
	Value    any          `json:"value,omitempty"`
	Path     string       `json:"path,omitempty"` // in the model's arguments or results
}

type pteDelegateFact struct {
	ID      string        `json:"id"`
	Bytes   int64         `json:"bytes"`
	Payload string        `json:"payload,omitempty"`
	Specs   pairs[string] `json:"compile_specs,omitempty"`
}

type pteMemoryFact struct {
	Buffers []int64  `json:"buffers"`
	Peak    int64    `json:"peak"`
	Devices []string `json:"devices,omitempty"`
}

type pteStructureFact struct {
	Inputs  string `json:"inputs"`
	Outputs string `json:"outputs"`
}

type pteNamedFact struct {
	Key     string `json:"key"`
	Bytes   int64  `json:"bytes"`
	Payload string `json:"payload,omitempty"`
}

type pteHeaderFact struct {
	Length          int64 `json:"length"`
	ProgramSize     int64 `json:"program_size"`
	SegmentBase     int64 `json:"segment_base_offset"`
	SegmentDataSize int64 `json:"segment_data_size"`
}

type pteBundleFact struct {
	Version int64          `json:"version"`
	Offset  int64          `json:"offset"`
	Size    int64          `json:"size"`
	Suites  []pteSuiteFact `json:"suites"`
}

type pteSuiteFact struct {
	Method string `json:"method"`
	Cases  int    `json:"cases"`
}

func pteView(r *pte.Reader) view {
	var entries []*pte.Entry
	return view{
		facts: func() any { return factsOfPTE(r) },
		row: func(i int, t *tensor.Tensor, row *row) {
			if entries == nil {
				entries = slices.Collect(r.Entries())
			}
			e := entries[i]
			method, value := e.Method.Name(), e.Value
			row.method, row.value = &method, &value
			row.buffer, row.mutable = int(e.Buffer), e.Role.Mutable()
			if e.Role == pte.RoleState && e.Buffer == 0 {
				row.empty, row.inFile = true, false // it has no bytes before the program runs
			}
		},
		extension: func(b tensor.Blob) string {
			_, ext := recognize(b)
			return ext
		},
	}
}

// recognize says what a payload looks like, and the extension of such a file.
func recognize(b tensor.Blob) (what, ext string) {
	head := make([]byte, min(max(b.Size(), 0), 16))
	if n, _ := b.ReadAt(head, 0); n < len(head) || n == 0 {
		return "", ""
	}
	return pte.Recognize(head)
}

func factsOfPTE(r *pte.Reader) pteFacts {
	p := r.Program()
	f := pteFacts{Methods: []pteMethodFact{}, Segments: []segmentFact{}, NamedData: []pteNamedFact{}}
	for m := range p.Methods() {
		f.Methods = append(f.Methods, pteMethod(m))
	}
	for _, s := range p.Segments() {
		f.Segments = append(f.Segments, segmentFact{s.Offset, s.Size, s.Roles})
	}
	for d := range p.NamedData() {
		what, _ := recognize(d.Data)
		f.NamedData = append(f.NamedData, pteNamedFact{d.Key, d.Data.Size(), what})
	}
	for _, k := range p.Kernels() {
		f.Kernels.add(k.Operator, k.Keys)
	}
	h := r.Header()
	f.Header = pteHeaderFact{int64(h.Length), int64(h.ProgramSize), int64(h.SegmentBase), int64(h.SegmentDataSize)}
	if b := r.Bundle(); b != nil {
		f.Bundle = &pteBundleFact{int64(b.Version), r.Start(), r.Size(), []pteSuiteFact{}}
		for _, s := range b.Suites {
			f.Bundle.Suites = append(f.Bundle.Suites, pteSuiteFact{s.Method, len(s.Cases)})
		}
	}
	return f
}

func pteMethod(m pte.Method) pteMethodFact {
	in, out := m.Structure()
	mem := m.Memory()
	f := pteMethodFact{
		nameField: nameOf(m.Name()), Inputs: pteValues(m.Inputs(), in), Outputs: pteValues(m.Outputs(), out),
		Operators: []string{}, Delegates: []pteDelegateFact{},
		Instructions: m.NumInstructions(), Values: m.NumValues(),
		Memory: pteMemoryFact{Buffers: mem.Buffers, Peak: m.PlannedPeak()},
	}
	for _, o := range m.Operators() {
		f.Operators = append(f.Operators, o.String())
	}
	for _, d := range m.Delegates() {
		what, _ := recognize(d.Payload)
		fact := pteDelegateFact{ID: d.ID, Bytes: d.Payload.Size(), Payload: what}
		for _, s := range d.Specs {
			fact.Specs.add(s.Key, string(s.Value))
		}
		f.Delegates = append(f.Delegates, fact)
	}
	if slices.ContainsFunc(mem.Devices, func(d pte.Device) bool { return d.Type != 0 }) {
		for _, d := range mem.Devices {
			f.Memory.Devices = append(f.Memory.Devices, d.String())
		}
	}
	if in != "" || out != "" {
		f.Structure = &pteStructureFact{in, out}
	}
	return f
}

// pteValues describes inputs or outputs, which were nested in the model as structure says.
func pteValues(vs []pte.Value, structure string) []pteValueFact {
	var paths []string
	if s, err := pte.ParseStructure(structure); err == nil {
		paths = s.Leaves()
	}
	all := []pteValueFact{}
	for i, v := range vs {
		f := pteValue(v)
		if len(paths) == len(vs) {
			f.Path = paths[i]
		}
		all = append(all, f)
	}
	return all
}

func pteValue(v pte.Value) pteValueFact {
	f := pteValueFact{Kind: v.Kind().String()}
	if t, ok := v.Tensor(); ok {
		f.DType = t.DType.String()
		if !t.DType.Known() {
			f.DType = strconv.Itoa(int(t.ScalarType))
		}
		if f.Shape = t.Shape; f.Shape == nil {
			f.Shape = tensor.Shape{}
		}
		if !t.Order.RowMajor() {
			f.Order = t.Order
		}
		f.Dynamism = t.Dynamism.String()
		if n, ok := t.Bytes(); ok {
			f.Bytes = &n
		}
		f.Planned = &t.Planned
		return f
	}
	switch v.Kind() {
	case pte.KindInt:
		f.Value = v.Int()
	case pte.KindBool:
		f.Value = v.Bool()
	case pte.KindDouble:
		f.Value = inspect.Float(v.Double())
	case pte.KindString:
		f.Value = v.Text()
	}
	return f
}
