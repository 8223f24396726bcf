package pte

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Program is a read-only view of what a file describes. It holds nothing of its own:
// everything is read from the verified flatbuffer when it is asked for.
type Program Reader

// Methods yields the methods in the order of the file.
func (p *Program) Methods() iter.Seq[Method] {
	return each(p.root.ExecutionPlanLength(), p.method)
}

func (p *Program) method(i int) Method {
	m := Method{r: (*Reader)(p), index: i}
	p.root.ExecutionPlan(&m.t, i)
	return m
}

// Method returns the method of that name: the first, as the runtime does, where several
// have it.
func (p *Program) Method(name string) (Method, bool) {
	for m := range p.Methods() {
		if string(m.t.Name()) == name {
			return m, true
		}
	}
	return Method{}, false
}

// A NamedData is a blob that delegates look up by key.
type NamedData struct {
	Key     string
	Segment int         // index in the program's segments
	Data    tensor.Blob // fails when it is read, if the program has no such segment
}

// NamedData yields the named blobs in the order of the file. Several keys may share a
// segment.
func (p *Program) NamedData() iter.Seq[NamedData] {
	return each(p.root.NamedDataLength(), p.named)
}

// Named returns the named blob of that key: the first, as the runtime does, where several
// have it.
func (p *Program) Named(key string) (NamedData, bool) {
	r := (*Reader)(p)
	r.makeIndex()
	i := r.byKey.Lookup(key)
	if i < 0 {
		return NamedData{}, false
	}
	return p.named(i), true
}

func (p *Program) named(i int) NamedData {
	r := (*Reader)(p)
	var t ptefb.NamedData
	r.root.NamedData(&t, i)
	data := r.blobOf(r.segment(t.SegmentIndex(), rootSite(ptefb.TableNamedData, &t,
		"named_data[%d]", i).field(ptefb.SlotNamedDataSegmentIndex)))
	return NamedData{string(t.Key()), int(t.SegmentIndex()), data}
}

// A Method is what the runtime loads and runs by name: values, and instructions that work
// on them. ExecuTorch's schema calls it an execution plan.
type Method struct {
	r     *Reader
	t     ptefb.ExecutionPlan
	index int
}

// Name is what the method is loaded by.
func (m Method) Name() string { return string(m.t.Name()) }

// Raw is the method's table with the accessors that flatc generates.
func (m Method) Raw() *ptefb.ExecutionPlan { return &m.t }

// NumValues is how many values the method has.
func (m Method) NumValues() int { return m.t.ValuesLength() }

// Values yields the values in order: the parameters come first in what exporters write,
// then inputs and intermediate ones.
func (m Method) Values() iter.Seq[Value] { return each(m.NumValues(), m.Value) }

// Value returns value i, the zero Value where there is none.
func (m Method) Value(i int) Value {
	if i < 0 || i >= m.t.ValuesLength() {
		return Value{}
	}
	v := Value{m: m, index: i}
	m.t.Values(&v.t, i)
	return v
}

// Inputs are the values that the caller gives. The file has no names for them. An index
// that names no value gives the zero Value.
func (m Method) Inputs() []Value { return m.list(m.t.InputsLength(), m.t.Inputs) }

// Outputs are the values that the caller gets.
func (m Method) Outputs() []Value { return m.list(m.t.OutputsLength(), m.t.Outputs) }

func (m Method) list(n int, index func(int) int32) []Value {
	all := make([]Value, n)
	for i := range all {
		all[i] = m.Value(int(index(i)))
	}
	return all
}

// Structure returns how the inputs and outputs were nested in the original model, as the
// exporter wrote it: text in one of two notations (see [LeafPaths]), empty when the
// file has none.
func (m Method) Structure() (inputs, outputs string) {
	c := m.t.ContainerMetaType(nil)
	if c == nil {
		return "", ""
	}
	return string(c.EncodedInpStr()), string(c.EncodedOutStr())
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

// Operators is the method's table of operators, in the order of the file. A call names
// its operator by index.
func (m Method) Operators() []Operator {
	all := make([]Operator, m.t.OperatorsLength())
	for i := range all {
		all[i], _ = m.Operator(i)
	}
	return all
}

// Operator returns an operator by its index, false where there is none.
func (m Method) Operator(i int) (Operator, bool) {
	if i < 0 || i >= m.t.OperatorsLength() {
		return Operator{}, false
	}
	var t ptefb.Operator
	m.t.Operators(&t, i)
	return Operator{string(t.Name()), string(t.Overload())}, true
}

// IsGetter reports whether the method only returns values that are stored in the program:
// exporters write metadata so.
func (m Method) IsGetter() bool {
	if m.t.InputsLength() > 0 || m.t.OutputsLength() == 0 {
		return false
	}
	for _, c := range fb.Each(m.t.ChainsLength(), m.t.Chains) {
		if c.InstructionsLength() > 0 {
			return false
		}
	}
	return true
}
