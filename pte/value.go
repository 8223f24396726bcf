package pte

import (
	"fmt"
	"math"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Kind is what a value is: the tag of the schema's union KernelTypes. Programs of a
// newer schema may have others than those below.
type Kind uint8

// The kinds of the schema.
const (
	KindNone               = Kind(ptefb.KernelTypesNONE) // not loaded by the runtime
	KindNull               = Kind(ptefb.KernelTypesNull)
	KindInt                = Kind(ptefb.KernelTypesInt)
	KindBool               = Kind(ptefb.KernelTypesBool)
	KindDouble             = Kind(ptefb.KernelTypesDouble)
	KindTensor             = Kind(ptefb.KernelTypesTensor)
	KindString             = Kind(ptefb.KernelTypesString)
	KindIntList            = Kind(ptefb.KernelTypesIntList) // indices of values, not numbers
	KindDoubleList         = Kind(ptefb.KernelTypesDoubleList)
	KindBoolList           = Kind(ptefb.KernelTypesBoolList)
	KindTensorList         = Kind(ptefb.KernelTypesTensorList)         // indices of values
	KindOptionalTensorList = Kind(ptefb.KernelTypesOptionalTensorList) // the same, -1 for None
)

func (k Kind) known() bool { return k <= KindOptionalTensorList }

// String is the name of the union's member, or KernelTypes(12) for an unknown one.
func (k Kind) String() string { return ptefb.KernelTypes(k).String() }

// IsList reports whether the value names other values by index.
func (k Kind) IsList() bool {
	return k == KindIntList || k == KindTensorList || k == KindOptionalTensorList
}

// A Value is one of a method's values: what instructions read and write. Its methods
// return zero for a value of another kind than theirs.
type Value struct {
	m     Method
	t     ptefb.EValue
	index int
}

// Index is the value's place in its method.
func (v Value) Index() int { return v.index }

// Kind is what the value is.
func (v Value) Kind() Kind {
	if v.m.r == nil {
		return KindNone
	}
	return Kind(v.t.ValType())
}

// of returns the union's table, absent unless the value is of kind k.
func (v Value) of(k Kind) (t flatbuffers.Table, ok bool) {
	ok = v.m.r != nil && Kind(v.t.ValType()) == k && v.t.Val(&t)
	return t, ok
}

// Int is the number of a KindInt.
func (v Value) Int() int64 {
	t, ok := v.of(KindInt)
	if !ok {
		return 0
	}
	return t.GetInt64Slot(ptefb.SlotIntIntVal, 0)
}

// Bool is the value of a KindBool.
func (v Value) Bool() bool {
	t, ok := v.of(KindBool)
	return ok && boolField(t, ptefb.SlotBoolBoolVal)
}

// Double is the number of a KindDouble.
func (v Value) Double() float64 {
	t, ok := v.of(KindDouble)
	if !ok {
		return 0
	}
	return t.GetFloat64Slot(ptefb.SlotDoubleDoubleVal, 0)
}

// Text is the string of a KindString.
func (v Value) Text() string {
	b, _ := v.items(KindString)
	return string(b)
}

// items returns the bytes of a list or string of kind k, and the size of an element.
func (v Value) items(k Kind) ([]byte, int) {
	slot, size := itemsOf(k)
	t, ok := v.of(k)
	if !ok || size == 0 {
		return nil, 1
	}
	b, _ := fb.FieldBytes(t, slot, size)
	return b, size
}

// itemsOf returns the slot of the only field of a list or string, and the size of its
// elements, 0 for other kinds.
func itemsOf(k Kind) (slot, size int) {
	switch k {
	case KindString:
		return ptefb.SlotStringStringVal, 1
	case KindIntList:
		return ptefb.SlotIntListItems, 8
	case KindDoubleList:
		return ptefb.SlotDoubleListItems, 8
	case KindBoolList:
		return ptefb.SlotBoolListItems, 1
	case KindTensorList:
		return ptefb.SlotTensorListItems, 4
	case KindOptionalTensorList:
		return ptefb.SlotOptionalTensorListItems, 4
	}
	return 0, 0
}

// Items returns the indices of the values that a KindIntList, KindTensorList or
// KindOptionalTensorList is made of; -1 in the last is None. They are as the file has
// them, not checked.
func (v Value) Items() []int {
	if !v.Kind().IsList() {
		return nil
	}
	b, size := v.items(v.Kind())
	return elements(b, size, func(b []byte) int {
		switch {
		case size == 4:
			return int(int32(u32s(b, 0)))
		case u64s(b, 0) <= math.MaxInt32:
			return int(u64s(b, 0))
		}
		return -1 // names no value either
	})
}

// Doubles returns the numbers of a KindDoubleList.
func (v Value) Doubles() []float64 { return list(v, KindDoubleList, doubleAt) }

func doubleAt(b []byte) float64 { return math.Float64frombits(u64s(b, 0)) }

// Bools returns the values of a KindBoolList.
func (v Value) Bools() []bool { return list(v, KindBoolList, boolAt) }

func list[T any](v Value, k Kind, element func([]byte) T) []T {
	if v.Kind() != k {
		return nil
	}
	b, size := v.items(k)
	return elements(b, size, element)
}

func boolAt(b []byte) bool { return b[0] != 0 }

// table returns the table of a KindTensor.
func (v Value) table() (x ptefb.Tensor, ok bool) {
	t, ok := v.of(KindTensor)
	x.Init(t.Bytes, t.Pos)
	return x, ok
}

// Tensor describes a KindTensor; false for all others.
func (v Value) Tensor() (TensorInfo, bool) {
	t, ok := v.table()
	if !ok {
		return TensorInfo{}, false
	}
	return infoOf(&t), true
}

// Blob returns the bytes of a KindTensor that the program stores: a constant, or the
// initial value of state. It is false for all other values. Reading fails where the bytes
// are not where they should be.
func (v Value) Blob() (tensor.Blob, bool) {
	t, ok := v.table()
	if !ok || t.DataBufferIdx() == 0 {
		return tensor.Blob{}, false
	}
	e := v.entry()
	return e.Data, !e.External
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
		return naming.Quote(v.Text())
	case KindTensor:
		i, _ := v.Tensor()
		return i.String()
	case KindDoubleList:
		return k.String() + short(v, doubleAt)
	case KindBoolList:
		return k.String() + short(v, boolAt)
	case KindIntList:
		return k.String() + short(v, func(b []byte) int64 { return int64(u64s(b, 0)) })
	case KindTensorList, KindOptionalTensorList:
		return k.String() + short(v, func(b []byte) int32 { return int32(u32s(b, 0)) })
	default:
		return k.String()
	}
}

// short writes the first elements of a list; only those are read.
func short[T any](v Value, element func([]byte) T) string {
	const limit = 16
	b, size := v.items(v.Kind())
	if n := len(b) / size; n > limit {
		return fmt.Sprintf("%v… (%d)", elements(b[:limit*size], size, element), n)
	}
	return fmt.Sprint(elements(b, size, element))
}
