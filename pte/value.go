package pte

import (
	"fmt"
	"math"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Kind is what a value is: the tag of the schema's union KernelTypes. Programs of a newer schema may have others than
// those below.
type Kind uint8

// The kinds of the schema.
const (
	KindNone Kind = iota // no value: the runtime does not load the method
	KindNull
	KindInt
	KindBool
	KindDouble
	KindTensor
	KindString
	KindIntList // indices of values, not numbers
	KindDoubleList
	KindBoolList
	KindTensorList         // indices of values
	KindOptionalTensorList // indices of values, -1 for None
	numKinds
)

var kindNames = [numKinds]string{"NONE", "Null", "Int", "Bool", "Double", "Tensor", "String", "IntList", "DoubleList", "BoolList", "TensorList", "OptionalTensorList"}

// String is the name of the union's member, or "unknown kind 12".
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return "unknown kind " + strconv.Itoa(int(k))
}

// IsList reports whether the value names other values by index.
func (k Kind) IsList() bool {
	return k == KindIntList || k == KindTensorList || k == KindOptionalTensorList
}

// A Value is one of a method's values: what instructions read and write. Its methods answer zero for a value of another
// kind than theirs.
type Value struct {
	m     Method
	t     fb.Object // the EValue
	index int
}

// Index is the value's place in its method.
func (v Value) Index() int { return v.index }

// Kind is what the value is.
func (v Value) Kind() Kind {
	if !v.t.Present() {
		return KindNone
	}
	return Kind(v.t.Uint8(slotUnionType, 0))
}

// of is the union's table, absent unless the value is of kind k.
func (v Value) of(k Kind) fb.Object {
	if v.Kind() != k {
		return fb.Object{}
	}
	return v.t.Child(slotUnion)
}

// Int is the number of a KindInt.
func (v Value) Int() int64 { return int64(v.scalar(KindInt)) }

// Bool is the truth of a KindBool.
func (v Value) Bool() bool {
	t := v.of(KindBool)
	return t.Present() && t.Uint8(slotItems, 0) != 0
}

// Double is the number of a KindDouble.
func (v Value) Double() float64 { return math.Float64frombits(v.scalar(KindDouble)) }

func (v Value) scalar(k Kind) uint64 {
	t := v.of(k)
	if !t.Present() {
		return 0
	}
	return t.Uint64(slotItems, 0)
}

// Text is the string of a KindString.
func (v Value) Text() string {
	if t := v.of(KindString); t.Present() {
		return text(t, slotItems)
	}
	return ""
}

// Items are the indices of the values that a KindIntList, KindTensorList or KindOptionalTensorList is made of; -1 in the
// last is None. They are as the file has them, not checked.
func (v Value) Items() []int {
	k := v.Kind()
	if !k.IsList() {
		return nil
	}
	t := v.of(k)
	if !t.Present() {
		return nil
	}
	if k == KindIntList {
		b, _ := t.Bytes(slotItems, 8)
		all := make([]int, len(b)/8)
		for i := range all {
			if all[i] = -1; u64s(b, i) <= math.MaxInt32 { // anything else names no value either
				all[i] = int(u64s(b, i))
			}
		}
		return all
	}
	b, _ := t.Bytes(slotItems, 4)
	all := make([]int, len(b)/4)
	for i := range all {
		all[i] = int(int32(u32s(b, i)))
	}
	return all
}

// Doubles are the numbers of a KindDoubleList.
func (v Value) Doubles() []float64 {
	t := v.of(KindDoubleList)
	if !t.Present() {
		return nil
	}
	b, _ := t.Bytes(slotItems, 8)
	all := make([]float64, len(b)/8)
	for i := range all {
		all[i] = math.Float64frombits(u64s(b, i))
	}
	return all
}

// Bools are the truths of a KindBoolList.
func (v Value) Bools() []bool {
	t := v.of(KindBoolList)
	if !t.Present() {
		return nil
	}
	b, _ := t.Bytes(slotItems, 1)
	all := make([]bool, len(b))
	for i := range all {
		all[i] = b[i] != 0
	}
	return all
}

// Ints are the numbers that a KindIntList stands for: those of the values that its items name, 0 for one that is no
// KindInt because it is computed while the method runs.
func (v Value) Ints() []int64 {
	items := v.Items()
	if v.Kind() != KindIntList {
		return nil
	}
	all := make([]int64, len(items))
	for i, x := range items {
		all[i] = v.m.Value(x).Int()
	}
	return all
}

// Tensor describes a KindTensor; false for all others.
func (v Value) Tensor() (TensorInfo, bool) {
	t := v.of(KindTensor)
	if !t.Present() {
		return TensorInfo{}, false
	}
	return infoOf(t), true
}

// Raw is the value's table with the accessors that flatc generates. The zero Value has none and answers nil.
func (v Value) Raw() *ptefb.EValue {
	if !v.t.Present() {
		return nil
	}
	e := new(ptefb.EValue)
	e.Init(v.m.r.buf, flatbuffers.UOffsetT(v.t.Pos()))
	return e
}

// String shows the value as a person would write it: 5, true, "text", float32[2, 3].
func (v Value) String() string {
	switch k := v.Kind(); k {
	case KindNull:
		return "None"
	case KindInt:
		return strconv.FormatInt(v.Int(), 10)
	case KindBool:
		return strconv.FormatBool(v.Bool())
	case KindDouble:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case KindString:
		return tensor.Quote(v.Text())
	case KindTensor:
		i, _ := v.Tensor()
		return i.String()
	case KindDoubleList:
		return k.String() + v.short(8, func(b []byte) any { return math.Float64frombits(u64s(b, 0)) })
	case KindBoolList:
		return k.String() + v.short(1, func(b []byte) any { return b[0] != 0 })
	case KindIntList:
		return k.String() + v.short(8, func(b []byte) any { return int64(u64s(b, 0)) })
	case KindTensorList, KindOptionalTensorList:
		return k.String() + v.short(4, func(b []byte) any { return int32(u32s(b, 0)) })
	default:
		return k.String()
	}
}

// short writes the first elements of a list; only those are looked at.
func (v Value) short(size int, element func([]byte) any) string {
	const most = 16
	t := v.of(v.Kind())
	if !t.Present() {
		return "[]"
	}
	b, _ := t.Bytes(slotItems, size)
	n := len(b) / size
	all := make([]any, min(n, most))
	for i := range all {
		all[i] = element(b[i*size:])
	}
	if n > most {
		return fmt.Sprintf("%v… (%d)", all, n)
	}
	return fmt.Sprint(all)
}

// Dynamism says what the shape of a tensor means.
type Dynamism int8

// The kinds of dynamism.
const (
	Static  Dynamism = iota
	Bound            // the shape is an upper bound
	Unbound          // the shape means nothing; the portable runtime refuses it
)

// String is the schema's word: STATIC, DYNAMIC_BOUND, DYNAMIC_UNBOUND.
func (d Dynamism) String() string {
	switch d {
	case Static:
		return "STATIC"
	case Bound:
		return "DYNAMIC_BOUND"
	case Unbound:
		return "DYNAMIC_UNBOUND"
	}
	return "unknown dynamism " + strconv.Itoa(int(d))
}

// A Device is where memory is: CPU, or an accelerator and its number.
type Device struct {
	Type  int8 // 0 CPU, 1 CUDA
	Index int8
}

// String writes cpu, cuda:1, or device 7:0 for a type that the schema does not name.
func (d Device) String() string {
	switch d.Type {
	case 0:
		return "cpu"
	case 1:
		return "cuda:" + strconv.Itoa(int(d.Index))
	}
	return fmt.Sprintf("device %d:%d", d.Type, d.Index)
}

// A Role says where the bytes of a tensor come from when a method runs.
type Role uint8

// The roles of tensors.
const (
	// RolePlanned has a place in the memory plan and nothing stored: an intermediate result, an input or an output.
	RolePlanned Role = iota
	// RoleCaller has neither: the program's caller gives the memory.
	RoleCaller
	// RoleConstant is stored in the program.
	RoleConstant
	// RoleState is planned memory that lives from call to call: it has initial values in the program, or a name.
	RoleState
	// RoleExternal is a constant that is kept in a .ptd under the tensor's name.
	RoleExternal
	// RoleExternalState is planned memory whose initial values are kept in a .ptd.
	RoleExternalState
)

func (r Role) String() string {
	switch r {
	case RolePlanned:
		return "planned"
	case RoleCaller:
		return "caller"
	case RoleConstant:
		return "constant"
	case RoleState:
		return "state"
	case RoleExternal:
		return "external"
	case RoleExternalState:
		return "external state"
	}
	return "Role(" + strconv.Itoa(int(r)) + ")"
}

// External reports whether the bytes are in a .ptd.
func (r Role) External() bool { return r == RoleExternal || r == RoleExternalState }

// Mutable reports whether the tensor is state.
func (r Role) Mutable() bool { return r == RoleState || r == RoleExternalState }

// listed reports whether Reader.Tensors has the tensor.
func (r Role) listed() bool { return r >= RoleConstant }

// A TensorInfo is all that a program says about a tensor. Everything is as the file has it: [Reader.Verify] checks it.
type TensorInfo struct {
	// ScalarType is the schema's number, DType what it stands for: Unknown for numbers that ExecuTorch does not load.
	ScalarType int8
	DType      tensor.DType
	// Shape is an upper bound where Dynamism is not Static.
	Shape    tensor.Shape
	Dynamism Dynamism
	// Order is the schema's dim_order; nil when it is row-major, or no permutation of the dimensions.
	Order tensor.Order
	// DimOrder is dim_order as it stands where it is no permutation of the dimensions, nil where it is one.
	DimOrder []byte
	// Name is the fully qualified name, empty for most tensors: exporters write it for external ones and, if asked, for
	// state.
	Name string
	Role Role
	// Buffer is data_buffer_idx: which constant or initial value the tensor's bytes are; 0 for none.
	Buffer uint32
	// Planned tells whether the tensor has a place in the memory plan: Place.
	Planned bool
	Place   Place
	Device  Device
	// What follows is 0 in all that exporters write.
	StorageOffset int32
	Layout        int8
	MutableIndex  uint64 // mutable_data_segments_idx, which the runtime ignores
	RequiresGrad  bool
}

// A Place is where a tensor is in the memory plan.
type Place struct {
	Memory uint32 // which buffer: an index into [Memory.Buffers], from 1 on
	Offset uint64
}

// Elements counts the elements of the shape; false when it is negative or overflows.
func (i TensorInfo) Elements() (int64, bool) { return i.Shape.Elements() }

// Bytes is how many bytes the tensor takes, false when that is unknown or overflows.
func (i TensorInfo) Bytes() (int64, bool) {
	n, ok := i.Shape.Elements()
	if !ok {
		return 0, false
	}
	return i.DType.Bytes(n)
}

// String writes type and shape, such as float32[2, 3], with ≤ before the shape where it is a bound.
func (i TensorInfo) String() string {
	d := i.DType.String()
	if !i.DType.Known() {
		d = "scalar_type " + strconv.Itoa(int(i.ScalarType))
	}
	if i.Dynamism != Static {
		d += "≤"
	}
	if len(i.Shape) > 16 {
		return fmt.Sprintf("%s[%d dimensions]", d, len(i.Shape))
	}
	return d + i.Shape.String()
}

// scalarTypes is indexed by the schema's ScalarType.
var scalarTypes = [...]tensor.DType{
	0: tensor.U8, 1: tensor.I8, 2: tensor.I16, 3: tensor.I32, 4: tensor.I64, 5: tensor.F16, 6: tensor.F32, 7: tensor.F64,
	8: tensor.C32, 9: tensor.C64, 10: tensor.C128, 11: tensor.Bool, 12: tensor.QI8, 13: tensor.QU8, 14: tensor.QI32, 15: tensor.BF16,
	16: tensor.QU4x2, 17: tensor.QU2x4, 18: tensor.Bits1x8, 19: tensor.Bits2x4, 20: tensor.Bits4x2, 21: tensor.Bits8, 22: tensor.Bits16,
	23: tensor.F8E5M2, 24: tensor.F8E4M3FN, 25: tensor.F8E5M2FNUZ, 26: tensor.F8E4M3FNUZ, 27: tensor.U16, 28: tensor.U32, 29: tensor.U64,
}

func dtypeOf(scalarType int8) tensor.DType {
	if scalarType < 0 || int(scalarType) >= len(scalarTypes) {
		return tensor.Unknown
	}
	return scalarTypes[scalarType]
}

// scalarTypeOf is the schema's number for d, false when the format has none.
func scalarTypeOf(d tensor.DType) (int8, bool) {
	for i, s := range scalarTypes {
		if s == d {
			return int8(i), true
		}
	}
	return 0, false
}

// roleOf classifies a Tensor table. The location comes first: the first external constant of a program has buffer 0 and
// others have indices into a list of their own.
func roleOf(t fb.Object) Role {
	planned := t.Has(slotTensorAllocation)
	var named bool
	if x := t.Child(slotTensorExtra); x.Present() {
		if x.Uint8(slotExtraLocation, 0) == uint8(ptefb.TensorDataLocationEXTERNAL) {
			if planned {
				return RoleExternalState
			}
			return RoleExternal
		}
		b, _ := x.Bytes(slotExtraName, 1)
		named = len(b) > 0
	}
	stored := t.Uint32(slotTensorDataBuffer, 0) != 0
	switch {
	case planned && (stored || named):
		return RoleState
	case planned:
		return RolePlanned
	case stored:
		return RoleConstant
	}
	return RoleCaller
}

func infoOf(t fb.Object) TensorInfo {
	i := TensorInfo{
		ScalarType:    int8(t.Uint8(slotTensorScalarType, 0)),
		Dynamism:      Dynamism(t.Uint8(slotTensorDynamism, 0)),
		Role:          roleOf(t),
		Buffer:        t.Uint32(slotTensorDataBuffer, 0),
		StorageOffset: int32(t.Uint32(slotTensorStorageOffset, 0)),
		Layout:        int8(t.Uint8(slotTensorLayout, 0)),
		RequiresGrad:  t.Uint8(slotTensorRequiresGrad, 0) != 0,
	}
	i.DType = dtypeOf(i.ScalarType)
	i.Shape, i.Order = shapeOf(t, nil)
	if dims, _ := t.Bytes(slotTensorDimOrder, 1); i.Order == nil && (len(dims) != len(i.Shape) || !rowMajor(dims)) {
		i.DimOrder = append([]byte{}, dims...)
	}
	if a := t.Child(slotTensorAllocation); a.Present() {
		i.Planned, i.Place = true, placeOf(a)
	}
	if x := t.Child(slotTensorExtra); x.Present() {
		i.Name = text(x, slotExtraName)
		i.MutableIndex = x.Uint64(slotExtraMutableIndex, 0)
		i.Device = Device{int8(x.Uint8(slotExtraDeviceType, 0)), int8(x.Uint8(slotExtraDeviceIndex, 0))}
	}
	return i
}

func placeOf(a fb.Object) Place {
	return Place{a.Uint32(slotAllocationID, 0), uint64(a.Uint32(slotAllocationLow, 0)) | uint64(a.Uint32(slotAllocationHigh, 0))<<32}
}

// shapeOf reads sizes and dim_order, into room if it suffices. The order is nil when it is row-major or does not fit the
// sizes.
func shapeOf(t fb.Object, room tensor.Shape) (tensor.Shape, tensor.Order) {
	sizes, _ := t.Bytes(slotTensorSizes, 4)
	dims, _ := t.Bytes(slotTensorDimOrder, 1)
	return decodeShape(sizes, dims, room)
}

func decodeShape(sizes, dims []byte, room tensor.Shape) (tensor.Shape, tensor.Order) {
	shape, n := room, len(sizes)/4
	if shape == nil || n > len(shape) {
		shape = make(tensor.Shape, n)
	}
	shape = shape[:n:n]
	for d := range shape {
		shape[d] = int64(int32(u32s(sizes, d)))
	}
	if len(dims) != len(shape) || rowMajor(dims) {
		return shape, nil
	}
	order := make(tensor.Order, len(dims))
	for i, d := range dims {
		order[i] = int(d)
	}
	if !order.Valid(len(shape)) {
		return shape, nil
	}
	return shape, order
}

func rowMajor(dims []byte) bool {
	for i, d := range dims {
		if int(d) != i {
			return false
		}
	}
	return true
}
