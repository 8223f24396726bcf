package inspect

import (
	"encoding/hex"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// A PTEInfo has the facts that only a .pte has.
type PTEInfo struct {
	Methods   []PTEMethod         `json:"methods"`
	Segments  []InfoSegment       `json:"segments"`
	NamedData []PTENamedData      `json:"named_data"`
	Kernels   map[string][]string `json:"kernels"` // the keys of each operator's kernels
	Header    PTEHeader           `json:"header"`
	Bundle    *PTEBundle          `json:"bundle,omitempty"` // of a .bpte
}

// A PTEMethod is a method of a program.
type PTEMethod struct {
	Name         string        `json:"name"`
	NameHex      string        `json:"name_hex,omitempty"` // of a name that is not UTF-8
	Inputs       []PTEValue    `json:"inputs"`
	Outputs      []PTEValue    `json:"outputs"`
	Operators    []string      `json:"operators"`
	Delegates    []PTEDelegate `json:"delegates"`
	Instructions int           `json:"instructions"`
	Values       int           `json:"values"`
	Memory       PTEMemory     `json:"memory"`
	Structure    *PTEStructure `json:"structure,omitempty"`
}

// A PTEValue is an input or output: a tensor, or another value.
type PTEValue struct {
	Kind     string       `json:"kind"`
	DType    string       `json:"dtype,omitempty"`
	Shape    tensor.Shape `json:"shape,omitzero"`
	Order    tensor.Order `json:"order,omitempty"`
	Dynamism string       `json:"dynamism,omitempty"`
	Bytes    *int64       `json:"bytes,omitempty"`
	Planned  *bool        `json:"planned,omitempty"` // whether the memory plan has a place for it
	Value    any          `json:"value,omitempty"`
	Path     string       `json:"path,omitempty"` // in the model's arguments or results
}

// A PTEDelegate is a part of a method that a backend runs.
type PTEDelegate struct {
	ID      string            `json:"id"`
	Bytes   int64             `json:"bytes"`
	Payload string            `json:"payload,omitempty"` // what it is recognised as
	Specs   map[string]string `json:"compile_specs,omitempty"`
	Native  []PTNMethod       `json:"native,omitempty"` // of a program for the native runtime
}

// A PTEMemory is the memory plan of a method.
type PTEMemory struct {
	Buffers []int64  `json:"buffers"` // sizes, as in the file
	Peak    int64    `json:"peak"`
	Devices []string `json:"devices,omitempty"`
}

// A PTEStructure says how inputs and outputs were nested.
type PTEStructure struct {
	Inputs  string `json:"inputs"`
	Outputs string `json:"outputs"`
}

// A PTENamedData is a blob that delegates find by its key.
type PTENamedData struct {
	Key     string       `json:"key"`
	Bytes   int64        `json:"bytes"`
	DType   string       `json:"dtype,omitempty"` // of a weight of a native delegate
	Shape   tensor.Shape `json:"shape,omitzero"`
	Payload string       `json:"payload,omitempty"` // what it is recognised as
}

// A PTEHeader is the extended header; Length is 0 if there is none.
type PTEHeader struct {
	Length          int64 `json:"length"`
	ProgramSize     int64 `json:"program_size"`
	SegmentBase     int64 `json:"segment_base_offset"`
	SegmentDataSize int64 `json:"segment_data_size"`
}

// A PTEBundle describes what surrounds the program in a .bpte.
type PTEBundle struct {
	Version int64      `json:"version"`
	Offset  int64      `json:"offset"` // of the program
	Size    int64      `json:"size"`
	Suites  []PTESuite `json:"suites"`
}

// A PTESuite counts the test cases of a method.
type PTESuite struct {
	Method string `json:"method"`
	Cases  int    `json:"cases"`
}

func pteInfo(f *tensorfile.File, r *pte.Reader) *PTEInfo {
	p := r.Program()
	d := &PTEInfo{Methods: []PTEMethod{}, Segments: []InfoSegment{}, NamedData: []PTENamedData{},
		Kernels: map[string][]string{}}
	for m := range p.Methods() {
		d.Methods = append(d.Methods, pteMethodInfo(m))
	}
	for _, s := range p.Segments() {
		d.Segments = append(d.Segments, InfoSegment{s.Offset, s.Size, s.Roles})
	}
	weights := BlobTensors(f)
	for n := range p.NamedData() {
		one := PTENamedData{Key: n.Key, Bytes: n.Data.Size()}
		if w := weights["named/"+n.Key]; w != nil {
			one.DType, one.Shape = w.DType.String(), w.Shape
		} else {
			one.Payload = recognize(n.Data)
		}
		d.NamedData = append(d.NamedData, one)
	}
	for _, k := range p.Kernels() {
		d.Kernels[k.Operator] = k.Keys
	}
	h := r.Header()
	d.Header = PTEHeader{int64(h.Length), int64(h.ProgramSize), int64(h.SegmentBase),
		int64(h.SegmentDataSize)}
	if b := r.Bundle(); b != nil {
		at, size := r.Range()
		d.Bundle = &PTEBundle{int64(b.Version), at, size, []PTESuite{}}
		for _, s := range b.Suites {
			d.Bundle.Suites = append(d.Bundle.Suites, PTESuite{s.Method, len(s.Cases)})
		}
	}
	return d
}

// recognize returns the name of the kind of a payload, from its start; "" if it is
// unknown.
func recognize(b tensor.Blob) string {
	head := make([]byte, min(max(b.Size(), 0), 16))
	if n, _ := b.ReadAt(head, 0); n < len(head) || n == 0 {
		return ""
	}
	what, _ := pte.Recognize(head)
	return what
}

func pteMethodInfo(m pte.Method) PTEMethod {
	in, out := m.Structure()
	mem := m.Memory()
	d := PTEMethod{
		Name: m.Name(), Inputs: pteValuesInfo(m.Inputs(), in),
		Outputs:   pteValuesInfo(m.Outputs(), out),
		Operators: []string{}, Delegates: []PTEDelegate{},
		Instructions: m.NumInstructions(), Values: m.NumValues(),
		Memory: PTEMemory{Buffers: mem.Buffers, Peak: m.PlannedPeak()},
	}
	if !utf8.ValidString(d.Name) {
		d.NameHex = hex.EncodeToString([]byte(d.Name))
	}
	for _, o := range m.Operators() {
		d.Operators = append(d.Operators, o.String())
	}
	for _, g := range m.Delegates() {
		one := PTEDelegate{ID: g.ID, Bytes: g.Payload.Size(), Payload: recognize(g.Payload),
			Specs: map[string]string{}}
		if p := nativeProgram(g); p != nil {
			one.Native = ptnInfo(p).Methods
		}
		for _, s := range g.Specs {
			one.Specs[s.Key] = string(s.Value)
		}
		d.Delegates = append(d.Delegates, one)
	}
	if slices.ContainsFunc(mem.Devices, func(d pte.Device) bool { return d.Type != 0 }) {
		for _, device := range mem.Devices {
			d.Memory.Devices = append(d.Memory.Devices, device.String())
		}
	}
	if in != "" || out != "" {
		d.Structure = &PTEStructure{in, out}
	}
	return d
}

// pteValuesInfo describes inputs or outputs, which were nested in the model as structure
// says.
func pteValuesInfo(vs []pte.Value, structure string) []PTEValue {
	paths, _ := pte.LeafPaths(structure)
	all := []PTEValue{}
	for i, v := range vs {
		d := pteValueInfo(v)
		if len(paths) == len(vs) {
			d.Path = paths[i]
		}
		all = append(all, d)
	}
	return all
}

func pteValueInfo(v pte.Value) PTEValue {
	d := PTEValue{Kind: v.Kind().String()}
	if t, ok := v.Tensor(); ok {
		d.DType = t.DType.String()
		if !t.DType.Known() {
			d.DType = strconv.Itoa(int(t.ScalarType))
		}
		if d.Shape = t.Shape; d.Shape == nil {
			d.Shape = tensor.Shape{}
		}
		if !t.Order.RowMajor() {
			d.Order = t.Order
		}
		d.Dynamism = t.Dynamism.String()
		if n, ok := t.Bytes(); ok {
			d.Bytes = &n
		}
		d.Planned = &t.Planned
		return d
	}
	switch x := v.Constant().(type) {
	case int64, bool, string:
		d.Value = x
	case float64:
		d.Value = Float(x)
	}
	return d
}
