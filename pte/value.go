package pte

import (
	"fmt"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// A Kind is the kind of a value: the tag of the schema's union KernelTypes. A program of
// a newer schema may have unknown kinds.
type Kind uint8

const (
	kindNone               = Kind(ptefb.KernelTypesNONE) // the runtime does not load it
	kindNull               = Kind(ptefb.KernelTypesNull)
	kindInt                = Kind(ptefb.KernelTypesInt)
	kindBool               = Kind(ptefb.KernelTypesBool)
	kindDouble             = Kind(ptefb.KernelTypesDouble)
	kindTensor             = Kind(ptefb.KernelTypesTensor)
	kindString             = Kind(ptefb.KernelTypesString)
	kindIntList            = Kind(ptefb.KernelTypesIntList) // indices of values, not numbers
	kindDoubleList         = Kind(ptefb.KernelTypesDoubleList)
	kindBoolList           = Kind(ptefb.KernelTypesBoolList)
	kindTensorList         = Kind(ptefb.KernelTypesTensorList)         // indices of values
	kindOptionalTensorList = Kind(ptefb.KernelTypesOptionalTensorList) // the same, -1 for None
)

func (k Kind) known() bool { return k <= kindOptionalTensorList }

// String returns the name in the union, such as IntList, or KernelTypes(12) if it is
// unknown.
func (k Kind) String() string { return ptefb.KernelTypes(k).String() }

// isList reports whether a value of the kind is a list of indices of other values.
func (k Kind) isList() bool {
	return k == kindIntList || k == kindTensorList || k == kindOptionalTensorList
}

// A Value is one of a method's values, which instructions read and write. A method that
// does not apply to the kind of the value returns zero.
type Value struct {
	m     Method
	t     ptefb.EValue
	index int
}

// Index returns the value's index in its method.
func (v Value) Index() int { return v.index }

// Kind returns the kind of the value.
func (v Value) Kind() Kind {
	if v.m.r == nil {
		return kindNone
	}
	return Kind(v.t.ValType())
}

// of returns the table that holds the value, false unless the value is of kind k.
func (v Value) of(k Kind) (t flatbuffers.Table, ok bool) {
	ok = v.m.r != nil && Kind(v.t.ValType()) == k && v.t.Val(&t)
	return t, ok
}

// Constant returns the value before the method runs: an int64, bool, float64, string,
// []int64, []float64, []bool or *tensor.Tensor; nil for None and other kinds. Numbers of
// an []int64 that the method computes are 0.
func (v Value) Constant() any {
	switch v.Kind() {
	case kindInt:
		return v.number()
	case kindBool:
		return v.isTrue()
	case kindDouble:
		return v.double()
	case kindString:
		b, _ := v.items(kindString)
		return string(b)
	case kindIntList:
		ints := make([]int64, 0, 16)
		for _, i := range v.Items() {
			ints = append(ints, v.m.Value(i).number())
		}
		return ints
	case kindDoubleList:
		return list(v, doubleAt)
	case kindBoolList:
		return list(v, boolAt)
	case kindTensor:
		if _, ok := v.table(); ok {
			return v.entry().Tensor
		}
	}
	return nil
}

// number returns the number of a kindInt, 0 for another kind.
func (v Value) number() int64 {
	t, ok := v.of(kindInt)
	if !ok {
		return 0
	}
	return t.GetInt64Slot(ptefb.SlotIntIntVal, 0)
}

// double returns the number of a kindDouble, 0 for another kind.
func (v Value) double() float64 {
	t, ok := v.of(kindDouble)
	if !ok {
		return 0
	}
	return t.GetFloat64Slot(ptefb.SlotDoubleDoubleVal, 0)
}

// isTrue reports whether the value is a kindBool and true.
func (v Value) isTrue() bool {
	t, ok := v.of(kindBool)
	return ok && boolField(t, ptefb.SlotBoolBoolVal)
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
	case kindString:
		return ptefb.SlotStringStringVal, 1
	case kindIntList:
		return ptefb.SlotIntListItems, 8
	case kindDoubleList:
		return ptefb.SlotDoubleListItems, 8
	case kindBoolList:
		return ptefb.SlotBoolListItems, 1
	case kindTensorList:
		return ptefb.SlotTensorListItems, 4
	case kindOptionalTensorList:
		return ptefb.SlotOptionalTensorListItems, 4
	}
	return 0, 0
}

// Items returns the indices of the values in an IntList, TensorList or
// OptionalTensorList, in which -1 is None. They are as in the file, unchecked, except
// that an index above the range of int32 becomes -1.
func (v Value) Items() []int {
	if !v.Kind().isList() {
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
		return -1 // out of range too
	})
}

func doubleAt(b []byte) float64 { return math.Float64frombits(u64s(b, 0)) }

func boolAt(b []byte) bool { return b[0] != 0 }

func list[T any](v Value, element func([]byte) T) []T {
	b, size := v.items(v.Kind())
	return elements(b, size, element)
}

// table returns the table of a kindTensor.
func (v Value) table() (x ptefb.Tensor, ok bool) {
	t, ok := v.of(kindTensor)
	x.Init(t.Bytes, t.Pos)
	return x, ok
}

// Tensor describes a value that is a tensor; false for other kinds.
func (v Value) Tensor() (TensorInfo, bool) {
	t, ok := v.table()
	if !ok {
		return TensorInfo{}, false
	}
	return infoOf(&t), true
}

// String returns the value in short form, such as 5, true, "text" or float32[2, 3]. It
// shows the first elements of a list.
func (v Value) String() string {
	switch k := v.Kind(); k {
	case kindNull:
		return "None"
	case kindInt, kindBool, kindDouble:
		return fmt.Sprint(v.Constant())
	case kindString:
		return naming.Quote(v.Constant().(string))
	case kindTensor:
		i, _ := v.Tensor()
		return i.String()
	case kindDoubleList:
		return k.String() + short(v, doubleAt)
	case kindBoolList:
		return k.String() + short(v, boolAt)
	case kindIntList:
		return k.String() + short(v, func(b []byte) int64 { return int64(u64s(b, 0)) })
	case kindTensorList, kindOptionalTensorList:
		return k.String() + short(v, func(b []byte) int32 { return int32(u32s(b, 0)) })
	default:
		return k.String()
	}
}

// short returns the first elements of a list as text. It reads only these.
func short[T any](v Value, element func([]byte) T) string {
	const limit = 16
	b, size := v.items(v.Kind())
	if n := len(b) / size; n > limit {
		return fmt.Sprintf("%v… (%d)", elements(b[:limit*size], size, element), n)
	}
	return fmt.Sprint(elements(b, size, element))
}
