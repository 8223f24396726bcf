package pte

import (
	"fmt"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// A Kind is the kind of a value: the tag of the schema's union KernelTypes. Programs of a
// newer schema may have kinds that String does not know.
type Kind uint8

const (
	kindNone               = Kind(ptefb.KernelTypesNONE) // not loaded by the runtime
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

// String returns the name of the union's member, such as IntList, or KernelTypes(12) for
// an unknown one.
func (k Kind) String() string { return ptefb.KernelTypes(k).String() }

// isList reports whether the value names other values by index.
func (k Kind) isList() bool {
	return k == kindIntList || k == kindTensorList || k == kindOptionalTensorList
}

// A Value is one of a method's values: what instructions read and write. Its methods
// return zero for a value of another kind than theirs.
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

// of returns the union's table, absent unless the value is of kind k.
func (v Value) of(k Kind) (t flatbuffers.Table, ok bool) {
	ok = v.m.r != nil && Kind(v.t.ValType()) == k && v.t.Val(&t)
	return t, ok
}

// Constant returns the value before the method runs: an int64, bool, float64, string,
// []int64, []float64, []bool, or the *tensor.Tensor of a tensor that [Reader.Tensors]
// has; nil for None and all else.
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
		ints := make([]int64, 0, 16) // 0 is computed while the method runs
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

// number is a kindInt, 0 for another kind.
func (v Value) number() int64 {
	t, ok := v.of(kindInt)
	if !ok {
		return 0
	}
	return t.GetInt64Slot(ptefb.SlotIntIntVal, 0)
}

// double is a kindDouble, 0 for another kind.
func (v Value) double() float64 {
	t, ok := v.of(kindDouble)
	if !ok {
		return 0
	}
	return t.GetFloat64Slot(ptefb.SlotDoubleDoubleVal, 0)
}

// isTrue is a kindBool, false for another kind.
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

// Items returns the indices of the values in a list: an IntList, TensorList or
// OptionalTensorList, in which -1 is None. They are as the file has them, not checked.
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
		return -1 // names no value either
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

// Tensor describes a kindTensor; false for all others.
func (v Value) Tensor() (TensorInfo, bool) {
	t, ok := v.table()
	if !ok {
		return TensorInfo{}, false
	}
	return infoOf(&t), true
}

// String shows the value as a person would write it: 5, true, "text", float32[2, 3].
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

// short writes the first elements of a list; only those are read.
func short[T any](v Value, element func([]byte) T) string {
	const limit = 16
	b, size := v.items(v.Kind())
	if n := len(b) / size; n > limit {
		return fmt.Sprintf("%v… (%d)", elements(b[:limit*size], size, element), n)
	}
	return fmt.Sprint(elements(b, size, element))
}
