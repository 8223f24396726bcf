package pte

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// Dedup says which payloads are stored once.
type Dedup uint8

const (
	// DedupIdentity, the default, stores once what is the same: the same memory, or the
	// same source.
	DedupIdentity Dedup = iota
	// DedupNone stores every constant and payload by itself.
	DedupNone
	// DedupSHA256 stores equal bytes once, as ExecuTorch's exporter does, also those of
	// tensors of different type and shape. Everything is read twice: to be hashed, and to
	// be written.
	DedupSHA256
)

// WriterOptions control how a program is written. nil is the zero value.
type WriterOptions struct {
	// SegmentAlignment aligns the segments, in bytes; 0 for ExecuTorch's 128. Unlike
	// ExecuTorch's, our alignments hold in the file, and not only from the first segment
	// on.
	SegmentAlignment int64
	// TensorAlignment aligns constants and initial values; a power of two, 0 for
	// ExecuTorch's 16. A type that needs more gets more.
	TensorAlignment int64
	// Dedup says which constants, payloads and named blobs share their bytes.
	Dedup Dedup
	// InlineDelegates puts the payloads of delegates into the flatbuffer, which must stay
	// below 2 GiB.
	InlineDelegates bool
}

// A Builder assembles a program that ExecuTorch's runtime loads and runs. Its methods do
// not fail: the first thing that is wrong comes out of Write or WriteFile. It is for one
// goroutine at a time. It holds on to the tensors and blobs that it is given, whose bytes
// are read when the program is written.
type Builder struct {
	methods []*MethodBuilder
	named   []namedBlob
	taken   map[takenName]struct{}
	err     error
	steps   int // look-ups and comparisons of names, counted for tests
}

// A takenName is the name of a method or the key of a named blob.
type takenName struct {
	blob bool
	name string
}

// take reserves a name, and reports whether it was free.
func (b *Builder) take(n takenName) bool {
	b.steps++
	if _, ok := b.taken[n]; ok {
		return false
	}
	if b.taken == nil {
		b.taken = make(map[takenName]struct{})
	}
	b.taken[n] = struct{}{}
	return true
}

type namedBlob struct {
	key   string
	data  tensor.Blob
	align int64
}

// NewBuilder begins a program without methods.
func NewBuilder() *Builder { return new(Builder) }

// fail keeps the first error.
func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("pte: "+format, args...)
	}
}

// Err is the first thing that was wrong, which Write will return.
func (b *Builder) Err() error { return b.err }

// Method adds a method. The runtime loads it by its name; applications expect forward.
func (b *Builder) Method(name string) *MethodBuilder {
	if name == "" || strings.ContainsRune(name, 0) {
		b.fail("method: %s is not a name", quote.Name(name))
	}
	if !b.take(takenName{name: name}) {
		b.fail("duplicate method %s", quote.Name(name))
	}
	m := &MethodBuilder{b: b, name: name, ops: make(map[string]int32)}
	b.methods = append(b.methods, m)
	return m
}

// Metadata adds a constant getter: a method that returns values and does nothing. Values
// are int, int64, bool, float64, string, nil, or a *tensor.Tensor.
func (b *Builder) Metadata(name string, values ...any) {
	m := b.Method(name)
	refs := make([]Ref, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case int:
			refs[i] = m.Int(int64(v))
		case int64:
			refs[i] = m.Int(v)
		case bool:
			refs[i] = m.Bool(v)
		case float64:
			refs[i] = m.Double(v)
		case string:
			refs[i] = m.String(v)
		case nil:
			refs[i] = m.Null()
		case *tensor.Tensor:
			refs[i] = m.Constant(v)
		default:
			b.fail("metadata %s: a %T is not a value of a program", quote.Name(name), v)
			return
		}
	}
	m.Return(refs...)
}

// Named adds a blob that delegates find by its key. align is its alignment in the file, 0
// for none.
func (b *Builder) Named(key string, data tensor.Blob, align int64) {
	switch {
	case strings.ContainsRune(key, 0):
		b.fail("named data: the key %s has a zero byte", quote.Name(key))
	case align < 0:
		b.fail("named data %s: alignment %d", quote.Name(key), align)
	case data.Size() < 0:
		b.fail("named data %s: the size is not known", quote.Name(key))
	}
	if !b.take(takenName{blob: true, name: key}) {
		b.fail("duplicate named data %s", quote.Name(key))
	}
	b.named = append(b.named, namedBlob{key, data, max(align, 1)})
}

// Write writes the program. It never seeks.
func (b *Builder) Write(w io.Writer, opts *WriterOptions) error {
	o, err := b.output(opts)
	if err != nil {
		return err
	}
	return o.writeTo(context.Background(), w)
}

// WriteFile writes the program into a file, which appears whole or not at all.
func (b *Builder) WriteFile(name string, opts *WriterOptions) error {
	o, err := b.output(opts)
	if err != nil {
		return err
	}
	return o.writeFile(context.Background(), name)
}

// A MethodBuilder assembles a method: values first, then instructions in the order in
// which they run.
type MethodBuilder struct {
	b            *Builder
	name         string
	values       []value
	inputs       []int32
	outputs      []int32
	code         []instruction
	ops          map[string]int32
	opNames      []Operator
	delegates    []delegate
	labels       []*Label
	aliases      [][2]int32
	buffers      []int64 // sizes that the caller asked for, by memory id
	devices      map[uint32]Device
	inStructure  string
	outStructure string
}

// value is a value of a method on its way into a file.
type value struct {
	kind    Kind
	bits    uint64 // of a number
	text    string
	items   []int // of lists of values
	doubles []float64
	bools   []bool
	tensor  *tensorValue
}

type tensorValue struct {
	scalar   int8
	dtype    tensor.DType
	shape    tensor.Shape
	order    tensor.Order
	dynamism Dynamism
	role     Role
	name     string
	data     *tensor.Tensor // of a constant, or the initial value of state
	placed   bool           // by the caller
	place    Place
	device   Device
	bytes    int64
}

type instruction struct {
	op    Opcode
	index int32 // operator or delegate, or the first value of a move, jump or free
	args  []int32
	to    int32 // second value of a move
	label *Label
	stack []Frame
}

type delegate struct {
	id      string
	payload tensor.Blob
	specs   []CompileSpec
}

// A Ref is a value of the method that made it. The zero Ref is None where a list allows
// that.
type Ref struct {
	m *MethodBuilder
	i int32 // index + 1
}

func (m *MethodBuilder) fail(format string, args ...any) {
	if m.b.err == nil {
		m.b.err = m.errorf(format, args...)
	}
}

func (m *MethodBuilder) errorf(format string, args ...any) error {
	return fmt.Errorf("pte: method %s: "+format, append([]any{quote.Name(m.name)}, args...)...)
}

func (m *MethodBuilder) add(v value) Ref {
	if len(m.values) >= 1<<31-1 {
		m.fail("more values than indices")
		return Ref{}
	}
	m.values = append(m.values, v)
	return Ref{m, int32(len(m.values))}
}

// use is the index of a value, which must be of this method.
func (m *MethodBuilder) use(r Ref, what string) int32 {
	if r.m != m {
		if r.m == nil {
			m.fail("%s: no value", what)
		} else {
			m.fail("%s: a value of method %s", what, quote.Name(r.m.name))
		}
		return 0
	}
	return r.i - 1
}

func (m *MethodBuilder) useAll(refs []Ref, what string) []int32 {
	all := make([]int32, len(refs))
	for i, r := range refs {
		all[i] = m.use(r, what)
	}
	return all
}

// Index is the value's place in its method.
func (r Ref) Index() int { return int(r.i) - 1 }

// Int adds a number.
func (m *MethodBuilder) Int(v int64) Ref { return m.add(value{kind: KindInt, bits: uint64(v)}) }

// Bool adds a bool.
func (m *MethodBuilder) Bool(v bool) Ref {
	return m.add(value{kind: KindBool, bits: bit[uint64](v)})
}

// Double adds a float.
func (m *MethodBuilder) Double(v float64) Ref {
	return m.add(value{kind: KindDouble, doubles: []float64{v}})
}

// String adds a string.
func (m *MethodBuilder) String(v string) Ref { return m.add(value{kind: KindString, text: v}) }

// Null adds None.
func (m *MethodBuilder) Null() Ref { return m.add(value{kind: KindNull}) }

// IntList adds a list of numbers that are values: constants, or what instructions
// compute.
func (m *MethodBuilder) IntList(items ...Ref) Ref {
	return m.list(KindIntList, items, func(k Kind) bool { return k == KindInt })
}

// Ints adds constants, and the list of them.
func (m *MethodBuilder) Ints(vs ...int64) Ref {
	refs := make([]Ref, len(vs))
	for i, v := range vs {
		refs[i] = m.Int(v)
	}
	return m.IntList(refs...)
}

// DoubleList adds a list of numbers.
func (m *MethodBuilder) DoubleList(vs ...float64) Ref {
	return m.add(value{kind: KindDoubleList, doubles: slices.Clone(vs)})
}

// BoolList adds a list of bools.
func (m *MethodBuilder) BoolList(vs ...bool) Ref {
	return m.add(value{kind: KindBoolList, bools: slices.Clone(vs)})
}

// TensorList adds a list of tensors.
func (m *MethodBuilder) TensorList(items ...Ref) Ref {
	return m.list(KindTensorList, items, func(k Kind) bool { return k == KindTensor })
}

// OptionalTensorList adds a list of tensors in which the zero Ref stands for None.
func (m *MethodBuilder) OptionalTensorList(items ...Ref) Ref {
	return m.list(KindOptionalTensorList, items,
		func(k Kind) bool { return k == KindTensor || k == KindNull })
}

func (m *MethodBuilder) list(k Kind, items []Ref, allowed func(Kind) bool) Ref {
	v := value{kind: k, items: make([]int, len(items))}
	for i, r := range items {
		if r == (Ref{}) && k == KindOptionalTensorList {
			v.items[i] = -1
			continue
		}
		x := m.use(r, k.String())
		if int(x) < len(m.values) && !allowed(m.values[x].kind) {
			m.fail("%v: value %d is a %v", k, x, m.values[x].kind)
		}
		v.items[i] = int(x)
	}
	return m.add(v)
}

func (m *MethodBuilder) newTensor(role Role, name string, d tensor.DType, s tensor.Shape,
	o tensor.Order) Ref {
	t := &tensorValue{dtype: d, shape: slices.Clone(s), order: slices.Clone(o), role: role,
		name: name}
	var ok bool
	if t.scalar, ok = executorch.ScalarType(d); !ok {
		m.fail("tensor: %v is not a dtype of ExecuTorch", d)
	}
	if len(s) > maxRank {
		m.fail("tensor: %d dimensions, and the runtime supports %d", len(s), maxRank)
	}
	for _, n := range s {
		if n < 0 || n > 1<<31-1 {
			m.fail("tensor: shape %v", s)
			break
		}
	}
	if !t.order.Valid(len(s)) {
		m.fail("tensor: order %v is not a permutation of %d dimensions", o, len(s))
	}
	n, ok := t.shape.Elements()
	if ok {
		t.bytes, ok = d.Bytes(n)
	}
	if !ok {
		m.fail("tensor: %v of %v has no size", s, d)
	}
	return m.add(value{kind: KindTensor, tensor: t})
}

// Tensor adds an intermediate result. Its memory is planned: see [Ref.Place] and
// [Ref.ByCaller] for other ways.
func (m *MethodBuilder) Tensor(d tensor.DType, s tensor.Shape) Ref {
	return m.newTensor(RolePlanned, "", d, s, nil)
}

// Input adds a tensor that the caller gives. Inputs are numbered in the order of these
// calls.
func (m *MethodBuilder) Input(d tensor.DType, s tensor.Shape) Ref {
	r := m.Tensor(d, s)
	m.Accept(r)
	return r
}

// Accept makes inputs of values that are there, such as m.Int(5). Of a number the runtime
// takes only the one that is stored.
func (m *MethodBuilder) Accept(refs ...Ref) {
	m.inputs = append(m.inputs, m.useAll(refs, "input")...)
}

// Return makes outputs of values.
func (m *MethodBuilder) Return(refs ...Ref) {
	m.outputs = append(m.outputs, m.useAll(refs, "output")...)
}

// Constant adds a tensor that is stored in the program. The name of t is kept out of the
// file, as exporters do; see [Ref.Name].
func (m *MethodBuilder) Constant(t *tensor.Tensor) Ref { return m.stored(RoleConstant, "", t) }

// State adds a tensor that keeps its value from call to call, and is t when the method is
// loaded. A name lets applications find it; t's own is used, and may be empty.
func (m *MethodBuilder) State(t *tensor.Tensor) Ref {
	name := ""
	if t != nil {
		name = t.Name
	}
	return m.stored(RoleState, name, t)
}

func (m *MethodBuilder) stored(role Role, name string, t *tensor.Tensor) Ref {
	if t == nil {
		m.fail("%v: no tensor", role)
		return m.Null()
	}
	if err := t.Check(); err != nil {
		m.fail("%v: %w", role, err)
	}
	if !t.Dense() || t.External {
		m.fail("%v %s: %w: only dense tensors with their data can be stored", role,
			quote.Name(t.Name), errors.ErrUnsupported)
	}
	r := m.newTensor(role, name, t.DType, t.Shape, t.Order)
	m.values[r.Index()].tensor.data = t
	return r
}

// External adds a constant that the runtime takes from a .ptd, where its key is name.
func (m *MethodBuilder) External(name string, d tensor.DType, s tensor.Shape) Ref {
	if name == "" {
		m.fail("an external tensor without a name")
	}
	return m.newTensor(RoleExternal, name, d, s, nil)
}

// ExternalState adds state whose initial value is in a .ptd under that name.
func (m *MethodBuilder) ExternalState(name string, d tensor.DType, s tensor.Shape) Ref {
	if name == "" {
		m.fail("an external tensor without a name")
	}
	return m.newTensor(RoleExternalState, name, d, s, nil)
}

// NamedState adds state that has no initial value and is found by its name.
func (m *MethodBuilder) NamedState(name string, d tensor.DType, s tensor.Shape) Ref {
	if name == "" {
		m.fail("state without a name or an initial value")
	}
	return m.newTensor(RoleState, name, d, s, nil)
}

// tensorOf is the tensor of a Ref that is about to be changed.
func (r Ref) tensorOf(what string) *tensorValue {
	if r.m == nil {
		return new(tensorValue)
	}
	v := &r.m.values[r.Index()]
	if v.tensor == nil {
		r.m.fail("%s: value %d is a %v", what, r.Index(), v.kind)
		return new(tensorValue)
	}
	return v.tensor
}

// Bound makes the tensor's shape an upper bound: the runtime may be given, and give,
// smaller ones.
func (r Ref) Bound() Ref {
	r.tensorOf("Bound").dynamism = Bound
	return r
}

// Order sets the order of the tensor's dimensions in memory. A constant has that of the
// tensor that it was made of.
func (r Ref) Order(o tensor.Order) Ref {
	t := r.tensorOf("Order")
	if r.m != nil && (!o.Valid(len(t.shape)) || t.data != nil) {
		r.m.fail("Order: %v", o)
	}
	t.order = slices.Clone(o)
	return r
}

// Name sets the fully qualified name, by which applications find a tensor.
func (r Ref) Name(name string) Ref {
	r.tensorOf("Name").name = name
	return r
}

// ByCaller takes the tensor out of the memory plan: the caller gives its memory, or, for
// the output of an operator such as executorch_prim::et_view.default, the operator does.
func (r Ref) ByCaller() Ref {
	t := r.tensorOf("ByCaller")
	if t.role != RolePlanned && r.m != nil {
		r.m.fail("ByCaller: value %d is %v", r.Index(), t.role)
	}
	t.role = RoleCaller
	return r
}

// Place puts the tensor at an offset of a buffer of the memory plan, from 1 on, in place
// of our planner. The caller then is responsible for what overlaps; the buffer is made as
// large as its tensors need.
func (r Ref) Place(memory uint32, offset uint64) Ref {
	t := r.tensorOf("Place")
	if r.m != nil && (memory == 0 || memory > 1<<16 || !t.planned()) {
		r.m.fail("Place: value %d, which is %v, in buffer %d", r.Index(), t.role, memory)
	}
	t.placed, t.place = true, Place{memory, offset}
	return r
}

// Device says on which device the tensor is.
func (r Ref) Device(d Device) Ref {
	r.tensorOf("Device").device = d
	return r
}

// Buffer sets the min size and the device of a buffer of the memory plan, which tensors
// with a Place are in.
func (m *MethodBuilder) Buffer(memory uint32, size int64, d Device) {
	if memory == 0 || memory > 1<<16 || size < 0 {
		m.fail("buffer %d of %d bytes", memory, size)
		return
	}
	for int(memory) >= len(m.buffers) {
		m.buffers = append(m.buffers, 0)
	}
	m.buffers[memory] = max(m.buffers[memory], size)
	if d != (Device{}) {
		if m.devices == nil {
			m.devices = make(map[uint32]Device)
		}
		m.devices[memory] = d
	}
}

// Alias makes the planner keep the tensor of as long as view, whose bytes are in its
// memory.
func (m *MethodBuilder) Alias(of, view Ref) {
	m.aliases = append(m.aliases, [2]int32{m.use(of, "Alias"), m.use(view, "Alias")})
}

// Structure sets how inputs and outputs are nested, in one of the two notations of
// [ParseStructure].
func (m *MethodBuilder) Structure(inputs, outputs string) {
	m.inStructure, m.outStructure = inputs, outputs
}

// Call runs an operator, such as aten::add.out. args are those of the operator's schema
// in order, outputs included, and then what it returns: the outputs once more, a list of
// them where there are several.
func (m *MethodBuilder) Call(operator string, args ...Ref) {
	i, ok := m.ops[operator]
	if !ok {
		o := parseOperator(operator)
		if o.Name == "" || len(operator) > maxOperatorName || strings.ContainsRune(operator, 0) {
			m.fail("operator %s: a name of 1 to %d bytes", quote.Name(operator), maxOperatorName)
		}
		i = int32(len(m.opNames))
		m.ops[operator] = i
		m.opNames = append(m.opNames, o)
	}
	m.code = append(m.code, instruction{op: OpKernelCall, index: i, args: m.useAll(args,
		operator)})
}

// parseOperator cuts an operator's name where its overload begins: at the first dot after
// the namespace.
func parseOperator(s string) Operator {
	at := max(strings.Index(s, "::"), 0)
	name, overload, _ := strings.Cut(s[at:], ".")
	return Operator{s[:at] + name, overload}
}

// Delegate adds a part that a backend runs, and returns its index.
func (m *MethodBuilder) Delegate(id string, payload tensor.Blob, specs ...CompileSpec) int {
	if id == "" || strings.ContainsRune(id, 0) || payload.Size() < 0 {
		m.fail("delegate %s of %d bytes", quote.Name(id), payload.Size())
	}
	m.delegates = append(m.delegates, delegate{id, payload, specs})
	return len(m.delegates) - 1
}

// CallDelegate runs a delegate on values, its inputs first and then its outputs.
func (m *MethodBuilder) CallDelegate(index int, args ...Ref) {
	if index < 0 || index >= len(m.delegates) {
		m.fail("delegate %d of %d", index, len(m.delegates))
		index = 0
	}
	m.code = append(m.code, instruction{op: OpDelegateCall, index: int32(index),
		args: m.useAll(args, "delegate")})
}

// Move overwrites a value with another one.
func (m *MethodBuilder) Move(from, to Ref) {
	m.code = append(m.code, instruction{op: OpMove, index: m.use(from, "Move"), to: m.use(to,
		"Move")})
}

// Free gives up the memory of a tensor whose shape is not bounded.
func (m *MethodBuilder) Free(r Ref) {
	m.code = append(m.code, instruction{op: OpFree, index: m.use(r, "Free")})
}

// A Label is a place among the instructions of a method.
type Label struct {
	m  *MethodBuilder
	at int32 // -1 until it is marked
}

// Label makes a label to jump to, which Mark puts somewhere.
func (m *MethodBuilder) Label() *Label {
	l := &Label{m, -1}
	m.labels = append(m.labels, l)
	return l
}

// Mark puts a label before the next instruction.
func (m *MethodBuilder) Mark(l *Label) {
	if l == nil || l.m != m || l.at >= 0 {
		m.fail("a label is marked twice, or is of another method")
		return
	}
	l.at = int32(len(m.code))
}

// JumpFalse goes to a label if a value is false: a Bool, or a bool tensor that is not
// true everywhere. To jump in any case, jump on m.Bool(false).
func (m *MethodBuilder) JumpFalse(condition Ref, l *Label) {
	if l == nil || l.m != m {
		m.fail("a jump to a label of another method")
		return
	}
	m.code = append(m.code, instruction{op: OpJumpFalse, index: m.use(condition,
		"JumpFalse"), label: l})
}

// Stack says where in the original model the last instruction comes from, the outermost
// call first.
func (m *MethodBuilder) Stack(frames ...Frame) {
	if len(m.code) == 0 {
		m.fail("a stack trace without an instruction")
		return
	}
	m.code[len(m.code)-1].stack = slices.Clone(frames)
}
