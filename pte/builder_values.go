package pte

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"slices"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A MethodBuilder assembles a method: values, and instructions in the order in which they
// run. Like the [Builder], it records the first error, which Write returns.
type MethodBuilder struct {
	b               *Builder
	name            string
	values          []value
	inputs, outputs []int32
	code            []instruction
	operators       map[string]int32 // indices in operatorNodes, by name
	operatorNodes   []*fb.Node
	delegates       []delegate
	aliases         [][2]int32 // pairs of values that share memory
	structure       [2]string  // of inputs and outputs
}

// A value is a value of a method that is being assembled.
type value struct {
	kind   Kind
	node   *fb.Node     // the table that holds the value
	items  []int        // the values in a list of values
	tensor *tensorValue // nil for other kinds
}

// A Ref refers to a value of the MethodBuilder that made it. The zero Ref stands for None
// in an OptionalTensorList.
type Ref struct {
	m *MethodBuilder
	i int32 // index + 1
}

func (m *MethodBuilder) fail(class error, format string, args ...any) {
	if m.b.err == nil {
		m.b.err = m.errorf(class, format, args...)
	}
}

func (m *MethodBuilder) errorf(class error, format string, args ...any) error {
	return errs.At(-1, "method "+naming.Quote(m.name), class, format, args...)
}

func (m *MethodBuilder) add(v value) Ref {
	if len(m.values) >= 1<<31-1 {
		m.fail(tensor.ErrLimit, "more values than indices")
		return Ref{}
	}
	m.values = append(m.values, v)
	return Ref{m, int32(len(m.values))}
}

// use returns the index of a value. It fails if the value is not of this method; what
// names the use in the error.
func (m *MethodBuilder) use(r Ref, what string) int32 {
	if r.m != m {
		if r.m == nil {
			m.fail(fs.ErrInvalid, "%s: no value", what)
		} else {
			m.fail(fs.ErrInvalid, "%s: a value of method %s", what, naming.Quote(r.m.name))
		}
		return 0
	}
	return r.i - 1
}

func (m *MethodBuilder) useAll(refs []Ref, what string) []int32 {
	return convert(refs, func(r Ref) int32 { return m.use(r, what) })
}

// Index returns the value's index in its method.
func (r Ref) Index() int { return int(r.i) - 1 }

// vector returns the elements of a slice of numbers as bytes of the file.
func vector(list any) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, list) // does not fail for numbers
	return b
}

// items makes the table of a list of kind k, given its elements.
func items(k Kind, list any) *fb.Node {
	slot, size := itemsOf(k)
	return new(fb.Node).SetVector(slot, vector(list), size)
}

// Value adds a value that is stored in the program. x is an int, int64, float64, bool,
// string, []int64, []float64, []bool, or nil for None. The numbers of an []int64 are
// added as values too.
func (m *MethodBuilder) Value(x any) Ref {
	node, kind := new(fb.Node), kindNull
	switch x := x.(type) {
	case nil:
	case int:
		return m.Value(int64(x))
	case int64:
		kind = kindInt
		node.SetNumber(ptefb.SlotIntIntVal, 8, uint64(x))
	case bool:
		kind = kindBool
		node.SetNumber(ptefb.SlotBoolBoolVal, 1, bit(x))
	case float64:
		kind = kindDouble
		node.SetNumber(ptefb.SlotDoubleDoubleVal, 8, math.Float64bits(x))
	case string:
		kind = kindString
		node.SetString(ptefb.SlotStringStringVal, x)
	case []float64:
		kind, node = kindDoubleList, items(kindDoubleList, x)
	case []bool:
		kind, node = kindBoolList, items(kindBoolList, x)
	case []int64:
		return m.IntList(convert(x, func(n int64) Ref { return m.Value(n) })...)
	default:
		m.fail(fs.ErrInvalid, "a %T is not a value of a program", x)
	}
	return m.add(value{kind: kind, node: node})
}

// IntList adds a list of integers, which are values: constants, or results of
// instructions.
func (m *MethodBuilder) IntList(items ...Ref) Ref { return m.list(kindIntList, items) }

// TensorList adds a list of tensors.
func (m *MethodBuilder) TensorList(items ...Ref) Ref {
	return m.list(kindTensorList, items)
}

// OptionalTensorList adds a list of tensors in which the zero Ref stands for None.
func (m *MethodBuilder) OptionalTensorList(items ...Ref) Ref {
	return m.list(kindOptionalTensorList, items)
}

func (m *MethodBuilder) list(k Kind, refs []Ref) Ref {
	v := value{kind: k, items: make([]int, len(refs))}
	for i, r := range refs {
		v.items[i] = -1
		if r != (Ref{}) || k != kindOptionalTensorList {
			v.items[i] = int(m.use(r, k.String()))
		}
	}
	if k == kindIntList {
		v.node = items(k, convert(v.items, func(i int) int64 { return int64(i) }))
	} else {
		v.node = items(k, convert(v.items, func(i int) int32 { return int32(i) }))
	}
	return m.add(v)
}

// newTensor adds a tensor with the name, dtype, shape and order of t, without its bytes.
func (m *MethodBuilder) newTensor(role Role, t *tensor.Tensor) Ref {
	v := &tensorValue{node: new(fb.Node), shape: slices.Clone(t.Shape), role: role}
	r := m.add(value{kind: kindTensor, node: v.node, tensor: v})
	scalar, ok := executorch.ScalarType(t.DType)
	if !ok {
		m.fail(errors.ErrUnsupported, "%v: the format does not have %v", role, t.DType)
	}
	if err := t.Check(); err != nil {
		m.fail(err, "%v", role)
		return r
	}
	n, _ := t.Shape.Elements()
	v.bytes, ok = t.DType.Bytes(n)
	if !ok || len(t.Shape) > 0 && slices.Max(t.Shape) > math.MaxInt32 {
		m.fail(errors.ErrUnsupported, "%v: %v of %v is too large", role, t.Shape, t.DType)
	}
	sizes, dims := sizesOf(t.Shape, t.Order)
	v.node.SetVector(ptefb.SlotTensorSizes, vector(sizes), 4).
		SetBytes(ptefb.SlotTensorDimOrder, dims, 1).
		SetNumber(ptefb.SlotTensorScalarType, 1, uint64(uint8(scalar)))
	if role.External() {
		v.extraInfo().SetNumber(ptefb.SlotExtraTensorInfoLocation, 1,
			uint64(ptefb.TensorDataLocationEXTERNAL))
	}
	if role == RoleState || role.External() {
		r.Name(t.Name)
	}
	return r
}

// Declare adds a tensor without bytes in the program. name is empty for RolePlanned and
// RoleCaller. For RoleExternal and RoleExternalState it is the key in the .ptd, for
// RoleState the name by which applications find the state, which has no initial value.
// RoleConstant is an error: see Constant.
func (m *MethodBuilder) Declare(role Role, name string, d tensor.DType, s tensor.Shape) Ref {
	switch {
	case role == RoleConstant || role > RoleExternalState:
		m.fail(fs.ErrInvalid, "%v without bytes", role)
	case (name == "") != (role == RolePlanned || role == RoleCaller):
		m.fail(fs.ErrInvalid, "%v of the name %s", role, naming.Quote(name))
	}
	return m.newTensor(role, &tensor.Tensor{Name: name, DType: d, Shape: s, External: true})
}

// Tensor adds a tensor for an intermediate result or an output. Its place in memory is
// planned; see [Ref.Place] and [MethodBuilder.Declare] for other ways.
func (m *MethodBuilder) Tensor(d tensor.DType, s tensor.Shape) Ref {
	return m.Declare(RolePlanned, "", d, s)
}

// Input adds a tensor as the next input of the method.
func (m *MethodBuilder) Input(d tensor.DType, s tensor.Shape) Ref {
	r := m.Tensor(d, s)
	m.Accept(r)
	return r
}

// Accept makes existing values the next inputs of the method. If one is a number, such as
// m.Value(5), the runtime accepts only the stored number.
func (m *MethodBuilder) Accept(refs ...Ref) {
	m.inputs = append(m.inputs, m.useAll(refs, "input")...)
}

// Return makes existing values the next outputs of the method.
func (m *MethodBuilder) Return(refs ...Ref) {
	m.outputs = append(m.outputs, m.useAll(refs, "output")...)
}

// Constant adds a tensor that is stored in the program. Its memory must not change until
// the program is written; else Write fails with tensor.ErrChecksum. The file does not
// get the name of t, as exporters do; see [Ref.Name].
func (m *MethodBuilder) Constant(t *tensor.Tensor) Ref { return m.stored(RoleConstant, t) }

// State adds a tensor that keeps its value from call to call. Its initial value is t, and
// its name is the name of t, which may be empty. Applications find state by its name.
func (m *MethodBuilder) State(t *tensor.Tensor) Ref { return m.stored(RoleState, t) }

func (m *MethodBuilder) stored(role Role, t *tensor.Tensor) Ref {
	err := t.Check()
	if err == nil {
		err = checkStored(t)
	}
	if err != nil {
		m.fail(err, "%v", role)
		return m.Value(nil)
	}
	r := m.newTensor(role, t)
	m.b.checksums.Add(t.Name, t.Data)
	m.values[r.Index()].tensor.data = t
	return r
}

// tensorOf returns the tensor of a Ref. It fails if the value is none; what names the
// caller in the error.
func (r Ref) tensorOf(what string) *tensorValue {
	if r.m != nil {
		v := &r.m.values[r.Index()]
		if v.tensor != nil {
			return v.tensor
		}
		r.m.fail(fs.ErrInvalid, "%s: value %d is a %v", what, r.Index(), v.kind)
	}
	return &tensorValue{node: new(fb.Node)}
}

// Bound makes the tensor's shape an upper bound: at run time it may be smaller.
func (r Ref) Bound() Ref {
	r.tensorOf("Bound").node.SetScalar(ptefb.SlotTensorShapeDynamism, 1,
		uint64(ptefb.TensorShapeDynamismDYNAMIC_BOUND))
	return r
}

// Order sets the order of the tensor's dimensions in memory. It is an error for a
// constant and for state with an initial value, which have the order of their tensor.
func (r Ref) Order(o tensor.Order) Ref {
	t := r.tensorOf("Order")
	if !o.Valid(len(t.shape)) || t.data != nil {
		if r.m != nil {
			r.m.fail(fs.ErrInvalid, "Order: %v", o)
		}
		return r
	}
	_, dims := sizesOf(t.shape, o)
	t.node.SetBytes(ptefb.SlotTensorDimOrder, dims, 1)
	return r
}

// Name sets the fully qualified name, by which applications find a tensor. The empty
// string removes it.
func (r Ref) Name(name string) Ref {
	info := r.tensorOf("Name").extraInfo()
	if info.SetString(ptefb.SlotExtraTensorInfoFullyQualifiedName, name); name == "" {
		info.Remove(ptefb.SlotExtraTensorInfoFullyQualifiedName)
	}
	return r
}

// Place sets the place of the tensor in memory, which is otherwise planned: the number of
// a buffer, from 1 on, and an offset in bytes. The caller is responsible for tensors that
// overlap. The buffer gets the size that its tensors need.
func (r Ref) Place(memory uint32, offset uint64) Ref {
	t := r.tensorOf("Place")
	if r.m != nil && (memory == 0 || memory > 1<<16 || !t.planned()) {
		r.m.fail(fs.ErrInvalid, "Place: value %d, which is %v, in buffer %d", r.Index(), t.role,
			memory)
	}
	t.placed, t.place = true, Place{memory, offset}
	return r
}

func convert[A, B any](list []A, to func(A) B) []B {
	all := make([]B, len(list))
	for i, x := range list {
		all[i] = to(x)
	}
	return all
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// sizesOf returns a shape and an order in the types of the file.
func sizesOf(s tensor.Shape, o tensor.Order) (sizes []int32, dims []byte) {
	dims = make([]byte, len(s))
	for i := range dims {
		dims[i] = byte(i)
		if o != nil {
			dims[i] = byte(o[i])
		}
	}
	return convert(s, func(n int64) int32 { return int32(n) }), dims
}
