package pte

import (
	"bytes"
	"errors"
	"iter"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Program is a read-only view of the methods and data of a file. Its methods decode the
// verified flatbuffer at each call; nothing is cached.
type Program Reader

// Methods yields the methods in the order of the file.
func (p *Program) Methods() iter.Seq[Method] {
	return format.Each(p.root.ExecutionPlanLength(), p.method)
}

func (p *Program) method(i int) Method {
	m := Method{r: (*Reader)(p), index: i}
	p.root.ExecutionPlan(&m.t, i)
	return m
}

// Method returns the method of that name. If several have it, it returns the first, as
// the runtime does.
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
	Data    tensor.Blob // reading it fails if the program has no such segment
}

// NamedData yields the named blobs in the order of the file. Several keys may share a
// segment.
func (p *Program) NamedData() iter.Seq[NamedData] {
	return format.Each(p.root.NamedDataLength(), p.named)
}

func (p *Program) named(i int) NamedData {
	r := (*Reader)(p)
	var t ptefb.NamedData
	r.root.NamedData(&t, i)
	data := r.blobOf(r.segment(t.SegmentIndex(), rootLocation(ptefb.TableNamedData, &t,
		"named_data[%d]", i).field(ptefb.SlotNamedDataSegmentIndex)))
	return NamedData{string(t.Key()), int(t.SegmentIndex()), data}
}

// A Method is a function that the runtime loads and runs by name: values, and
// instructions that work on them. ExecuTorch's schema calls it an execution plan.
type Method struct {
	r     *Reader
	t     ptefb.ExecutionPlan
	index int
}

// Name returns the name that the runtime loads the method by.
func (m Method) Name() string { return string(m.t.Name()) }

// Raw returns the method's table with the accessors that flatc generates.
func (m Method) Raw() *ptefb.ExecutionPlan { return &m.t }

// NumValues returns the number of values that the method has.
func (m Method) NumValues() int { return m.t.ValuesLength() }

// Values yields the values in order. Exporters write the parameters first, then inputs
// and intermediate results.
func (m Method) Values() iter.Seq[Value] { return format.Each(m.NumValues(), m.Value) }

// Value returns value i, or the zero Value if there is none.
func (m Method) Value(i int) Value {
	if i < 0 || i >= m.t.ValuesLength() {
		return Value{}
	}
	v := Value{m: m, index: i}
	m.t.Values(&v.t, i)
	return v
}

// Inputs returns the values that the caller gives. The file has no names for them. For an
// index out of range it has the zero Value.
func (m Method) Inputs() []Value { return m.list(m.t.InputsLength(), m.t.Inputs) }

// Outputs returns the values that the caller gets, as Inputs does.
func (m Method) Outputs() []Value { return m.list(m.t.OutputsLength(), m.t.Outputs) }

func (m Method) list(n int, index func(int) int32) []Value {
	all := make([]Value, n)
	for i := range all {
		all[i] = m.Value(int(index(i)))
	}
	return all
}

// Structure returns how the inputs and outputs were nested in the original model, in one
// of two notations (see [LeafPaths]); empty if the file does not say.
func (m Method) Structure() (inputs, outputs string) {
	c := m.t.ContainerMetaType(nil)
	if c == nil {
		return "", ""
	}
	return string(c.EncodedInpStr()), string(c.EncodedOutStr())
}

// An Operator is the name of a kernel that a method calls.
type Operator struct {
	Name     string // aten::add
	Overload string // out; may be empty
}

// String returns the name, followed by a dot and the overload if there is one.
func (o Operator) String() string {
	if o.Overload == "" {
		return o.Name
	}
	return o.Name + "." + o.Overload
}

// Operators returns the method's table of operators, in the order of the file. A call
// names its operator by index.
func (m Method) Operators() []Operator {
	all := make([]Operator, m.t.OperatorsLength())
	for i := range all {
		all[i], _ = m.operator(i)
	}
	return all
}

// operator returns an operator by its index, false if there is none.
func (m Method) operator(i int) (Operator, bool) {
	if i < 0 || i >= m.t.OperatorsLength() {
		return Operator{}, false
	}
	var t ptefb.Operator
	m.t.Operators(&t, i)
	return Operator{string(t.Name()), string(t.Overload())}, true
}

// IsGetter reports whether the method is a constant getter: it has no inputs and no
// instructions, and returns stored values. Exporters write metadata this way.
func (m Method) IsGetter() bool {
	return m.t.InputsLength() == 0 && m.t.OutputsLength() > 0 && m.NumInstructions() == 0
}

// A Delegate is a part of a method that a backend compiled and runs itself. Only the
// backend can interpret its payload.
type Delegate struct {
	Index int    // in the method's delegates
	ID    string // XnnpackBackend, CoreMLBackend, …
	// Payload is the compiled part. Reading it fails if the program refers to bytes that
	// do not exist.
	Payload tensor.Blob
	Specs   []CompileSpec
}

// A CompileSpec is a setting that the exporter gave to the backend.
type CompileSpec struct {
	Key   string
	Value []byte // a copy
}

// delegatePrefix begins the names of the payloads of delegates in Reader.Blobs.
const delegatePrefix = "delegate/"

func delegateName(method string, index int) string {
	return delegatePrefix + method + "/" + strconv.Itoa(index)
}

// Delegates returns the parts of the method that a backend runs, in the order of the
// file.
func (m Method) Delegates() []Delegate {
	all := make([]Delegate, m.t.DelegatesLength())
	for i := range all {
		all[i], _ = m.delegate(i)
	}
	return all
}

// delegate returns a delegate by its index, false if there is none.
func (m Method) delegate(i int) (Delegate, bool) {
	if i < 0 || i >= m.t.DelegatesLength() {
		return Delegate{}, false
	}
	var t ptefb.BackendDelegate
	m.t.Delegates(&t, i)
	d := Delegate{Index: i, ID: string(t.Id())}
	x, _, err := m.payload(i, &t)
	d.Payload = m.r.blobOf(x, err)
	for _, s := range fb.Each(t.CompileSpecsLength(), t.CompileSpecs) {
		value := append([]byte{}, s.ValueBytes()...)
		d.Specs = append(d.Specs, CompileSpec{string(s.Key()), value})
	}
	return d, true
}

// payload returns the bytes of delegate i, and the location of the index that refers to
// them.
func (m Method) payload(i int, t *ptefb.BackendDelegate) (extent, location, error) {
	r, s := m.r, m.location(ptefb.TableBackendDelegate, t, delegatePath, i, 0)
	p := t.Processed(nil)
	if p == nil {
		s = s.field(ptefb.SlotBackendDelegateProcessed)
		return extent{}, s, r.malformed(s, "absent: the runtime's process would end")
	}
	s = m.location(ptefb.TableBackendDelegateDataReference, p, delegatePath+".processed", i, 0)
	n, index := p.Index(), s.field(ptefb.SlotBackendDelegateDataReferenceIndex)
	switch l := p.Location(); l {
	case ptefb.DataLocationSEGMENT:
		x, err := r.segment(n, index)
		return x, index, err
	case ptefb.DataLocationINLINE:
		var data ptefb.BackendDelegateInlineData
		if all := r.root.BackendDelegateDataLength(); int64(n) >= int64(all) {
			return extent{}, index, r.malformed(index, "%d of %d inline payloads", n, all)
		}
		r.root.BackendDelegateData(&data, int(n))
		x, ok := r.inline(data.Table(), ptefb.SlotBackendDelegateInlineDataData)
		if !ok {
			index.at = int(data.Table().Pos)
			return x, index, r.malformed(index,
				"inline payload %d has no data: the runtime's process would end", n)
		}
		return x, index, nil
	default:
		s = s.field(ptefb.SlotBackendDelegateDataReferenceLocation)
		return extent{}, s, r.error(errors.ErrUnsupported, s, "%d", uint8(l))
	}
}

// signatures are the first bytes of the payloads of known backends.
var signatures = [...]struct {
	at        int // offset of the signature
	signature string
	what      string
	extension string
}{
	{4, "XH00", "XNNPACK graph with weights", "xnnpack"},
	{4, "XN00", "XNNPACK graph", "xnnpack"},
	{4, "XN01", "XNNPACK graph", "xnnpack"},
	{4, "VH00", "Vulkan graph with weights", "vulkan"},
	{4, "VK00", "Vulkan graph", "vulkan"},
	{4, "MP00", "MPS graph", "mps"},
	{4, "MLX0", "MLX graph", "mlx"},
	{4, "TOSA", "TOSA flatbuffer", "tosa"},
	{4, "NPTG", "native graph", "ptg"},
	{4, "EETO", "EETO flatbuffer", "eeto"},
	{0, "CMJR", "Core ML reference to named data", "json"},
	{0, "vela_bin_stream\x00", "Ethos-U command stream", "vela"},
	{0, "\xcd\xab\x78\x56", "QNN context", "qnn"},
}

// Recognize guesses the kind of a delegate's payload or a named blob from its first 16
// bytes. It returns a description and a file extension, both empty if the kind is not
// known.
func Recognize(head []byte) (what, extension string) {
	for _, s := range signatures {
		if bytes.HasPrefix(head[min(s.at, len(head)):], []byte(s.signature)) {
			return s.what, s.extension
		}
	}
	return "", ""
}
