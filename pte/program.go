package pte

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Program is a read-only view of what a file describes. It holds nothing of its own: everything is read from the
// verified flatbuffer when it is asked for.
type Program Reader

// Version is the schema version, 0 in all programs so far. The runtime loads no other since ExecuTorch 1.5.1; before, it did
// not look at it.
func (p *Program) Version() uint32 { return p.root.Uint32(slotProgramVersion, 0) }

// Methods yields the methods in the order of the file.
func (p *Program) Methods() iter.Seq[Method] {
	return func(yield func(Method) bool) {
		for i := range p.NumMethods() {
			if !yield(p.method(i)) {
				return
			}
		}
	}
}

// NumMethods is how many methods the program has, constant getters included.
func (p *Program) NumMethods() int { return p.root.Objects(slotProgramPlans).Len() }

func (p *Program) method(i int) Method {
	return Method{(*Reader)(p), p.root.Objects(slotProgramPlans).At(i), i}
}

// Method answers the method of that name: the first, as the runtime does, where several have it.
func (p *Program) Method(name string) (Method, bool) {
	for m := range p.Methods() {
		if m.Name() == name {
			return m, true
		}
	}
	return Method{}, false
}

// A NamedData is a blob that delegates ask the runtime for by key.
type NamedData struct {
	Key     string
	Segment int         // index in the program's segments
	Data    tensor.Blob // fails when it is read, if the program has no such segment
}

// NamedData yields the named blobs in the order of the file. Several keys may share a segment.
func (p *Program) NamedData() iter.Seq[NamedData] {
	return func(yield func(NamedData) bool) {
		r := (*Reader)(p)
		v := r.root.Objects(slotProgramNamedData)
		for i := range v.Len() {
			t := v.At(i)
			segment := t.Uint32(slotNamedSegment, 0)
			d := NamedData{Key: text(t, slotNamedKey), Segment: int(segment)}
			d.Data = r.segmentBlob(segment, func() (int64, string) {
				return t.At(slotNamedSegment), fmt.Sprintf("named_data[%d].segment_index", i)
			})
			if !yield(d) {
				return
			}
		}
	}
}

// segmentBlob is segment i, or a blob that fails to be read and says that where is wrong.
func (r *Reader) segmentBlob(i uint32, where func() (int64, string)) tensor.Blob {
	if int64(i) >= int64(r.numSegments()) {
		off, field := where()
		return tensor.NewBlob(&missing{err: malformed(r.at+off, field, "%d of %d segments", i, r.numSegments())})
	}
	off, n := r.segment(int(i))
	return r.blob(off, n)
}

// text is a string field, empty when it is absent.
func text(t fb.Object, slot int) string {
	b, _ := t.Bytes(slot, 1)
	return string(b)
}

// A Method is what the runtime loads and runs by name: values, and instructions that work on them. ExecuTorch's schema
// calls it an execution plan.
type Method struct {
	r     *Reader
	t     fb.Object
	index int
}

// Name is what the method is loaded by.
func (m Method) Name() string { return text(m.t, slotPlanName) }

// Index is the method's place in the program.
func (m Method) Index() int { return m.index }

// field is the path of a part of the method, for errors.
func (m Method) field(format string, args ...any) string {
	return fmt.Sprintf("execution_plan[%d].", m.index) + fmt.Sprintf(format, args...)
}

// Raw is the method's table with the accessors that flatc generates.
func (m Method) Raw() *ptefb.ExecutionPlan {
	p := new(ptefb.ExecutionPlan)
	p.Init(m.r.buf, flatbuffers.UOffsetT(m.t.Pos()))
	return p
}

func (m Method) values() fb.Objects { return m.t.Objects(slotPlanValues) }

// NumValues is how many values the method has.
func (m Method) NumValues() int { return m.values().Len() }

// Values yields the values in order: the parameters come first in what exporters write, then inputs and intermediate
// ones.
func (m Method) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		v := m.values()
		for i := range v.Len() {
			if !yield(Value{m, v.At(i), i}) {
				return
			}
		}
	}
}

// Value answers value i, the zero Value where there is none.
func (m Method) Value(i int) Value {
	if i < 0 || i >= m.values().Len() {
		return Value{}
	}
	return Value{m, m.values().At(i), i}
}

// Inputs are the values that the caller gives. The file has no names for them. An index that names no value gives the
// zero Value.
func (m Method) Inputs() []Value { return m.list(slotPlanInputs) }

// Outputs are the values that the caller gets.
func (m Method) Outputs() []Value { return m.list(slotPlanOutputs) }

func (m Method) list(slot int) []Value {
	b, _ := m.t.Bytes(slot, 4)
	all := make([]Value, len(b)/4)
	for i := range all {
		all[i] = m.Value(int(int32(u32s(b, i))))
	}
	return all
}

// Structure returns how the inputs and outputs were nested in the original model, as the exporter wrote it: text in one
// of two notations (see [ParseStructure]), empty when the file has none.
func (m Method) Structure() (inputs, outputs string) {
	c := m.t.Child(slotPlanContainer)
	if !c.Present() {
		return "", ""
	}
	return text(c, slotContainerInputs), text(c, slotContainerOutputs)
}

// An Operator is a kernel that a method calls.
type Operator struct {
	Name     string // aten::add
	Overload string // out; empty when there is none
}

// String is name and overload with a dot between, or the name alone.
func (o Operator) String() string {
	if o.Overload == "" {
		return o.Name
	}
	return o.Name + "." + o.Overload
}

// Operators is the method's table of operators, in the order of the file. A call names its operator by index.
func (m Method) Operators() []Operator {
	v := m.t.Objects(slotPlanOperators)
	all := make([]Operator, v.Len())
	for i := range all {
		t := v.At(i)
		all[i] = Operator{text(t, slotOperatorName), text(t, slotOperatorOverload)}
	}
	return all
}

// IsGetter reports whether the method only returns values that are stored in the program: exporters write metadata so.
func (m Method) IsGetter() bool {
	inputs, _ := m.t.Bytes(slotPlanInputs, 4)
	if len(inputs) > 0 {
		return false
	}
	chains := m.t.Objects(slotPlanChains)
	for i := range chains.Len() {
		if chains.At(i).Objects(slotChainInstructions).Len() > 0 {
			return false
		}
	}
	outputs, _ := m.t.Bytes(slotPlanOutputs, 4)
	return len(outputs) > 0
}

func (m Method) String() string {
	return fmt.Sprintf("%s(%s) (%s)", m.Name(), joinValues(m.Inputs()), joinValues(m.Outputs()))
}

func joinValues(vs []Value) string {
	var b strings.Builder
	for i, v := range vs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(v.String())
	}
	return b.String()
}

// Delegates are the parts of the method that a backend runs, in the order of the file.
func (m Method) Delegates() []Delegate { return slices.Collect(m.delegates()) }
