package pte

import (
	"fmt"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Device is the device that has a buffer or tensor: the CPU or an accelerator.
type Device struct {
	Type  ptefb.DeviceType
	Index int8
}

// String returns cpu, cuda:1, or device 7:0 for an unknown type.
func (d Device) String() string {
	switch d.Type {
	case ptefb.DeviceTypeCPU:
		return "cpu"
	case ptefb.DeviceTypeCUDA:
		return "cuda:" + strconv.Itoa(int(d.Index))
	}
	return fmt.Sprintf("device %d:%d", int8(d.Type), d.Index)
}

// A Role says where the bytes of a tensor come from when a method runs.
type Role uint8

// The roles of tensors.
const (
	// RolePlanned has a place in the memory plan and no stored bytes: an intermediate
	// result, an input or an output.
	RolePlanned Role = iota
	// RoleCaller has neither: the caller of the method provides the memory.
	RoleCaller
	// RoleConstant is stored in the program.
	RoleConstant
	// RoleState is planned memory that keeps its content from call to call. It has an
	// initial value in the program, or a name.
	RoleState
	// RoleExternal is a constant in a .ptd, under the tensor's name.
	RoleExternal
	// RoleExternalState is planned memory whose initial value is in a .ptd.
	RoleExternalState
)

// String returns the name of the role.
func (r Role) String() string {
	names := [...]string{"planned", "caller", "constant", "state", "external", "external state"}
	if int(r) < len(names) {
		return names[r]
	}
	return "Role(" + strconv.Itoa(int(r)) + ")"
}

// External reports whether the bytes are in a .ptd.
func (r Role) External() bool { return r == RoleExternal || r == RoleExternalState }

// Mutable reports whether the tensor is state.
func (r Role) Mutable() bool { return r == RoleState || r == RoleExternalState }

// counterpart returns the external role for a stored role, and the stored role for an
// external one.
func (r Role) counterpart() Role {
	return map[Role]Role{RoleConstant: RoleExternal, RoleState: RoleExternalState,
		RoleExternal: RoleConstant, RoleExternalState: RoleState}[r]
}

// listed reports whether Reader.Tensors has the tensor.
func (r Role) listed() bool { return r >= RoleConstant }

// A TensorInfo has all fields of a tensor in a program. They are as in the file,
// unchecked: see [Reader.Verify].
type TensorInfo struct {
	// ScalarType is the schema's number, and DType the dtype that it stands for: Unknown
	// for numbers that ExecuTorch does not load.
	ScalarType int8
	DType      tensor.DType
	// Shape is an upper bound if Dynamism is not STATIC.
	Shape    tensor.Shape
	Dynamism ptefb.TensorShapeDynamism
	// Order is the schema's dim_order; nil if it is row-major, or not a permutation of
	// the dimensions.
	Order tensor.Order
	// DimOrder is dim_order if it is not a permutation of the dimensions, else nil.
	DimOrder []byte
	// Name is the fully qualified name, empty for most tensors: exporters write it for
	// external tensors and, on request, for state.
	Name string
	Role Role
	// Buffer is data_buffer_idx: the index of the constant or initial value; 0 for none.
	Buffer uint32
	// Planned is set if the tensor has a place in the memory plan: Place.
	Planned bool
	Place   Place
	Device  Device
	// Exporters leave the following fields 0.
	StorageOffset int32
	Layout        int8
	MutableIndex  uint64 // mutable_data_segments_idx, which the runtime ignores
	RequiresGrad  bool
}

// A Place is the place of a tensor in the memory plan.
type Place struct {
	Memory uint32 // the buffer: an index into [Memory.Buffers], from 1 on
	Offset uint64 // in the buffer, in bytes
}

// Bytes returns the size of the tensor in bytes, false if it is unknown or overflows.
func (i TensorInfo) Bytes() (int64, bool) {
	n, ok := i.Shape.Elements()
	if !ok {
		return 0, false
	}
	return i.DType.Bytes(n)
}

// String returns dtype and shape, such as float32[2, 3], with ≤ before the shape if it is
// an upper bound.
func (i TensorInfo) String() string {
	d := i.DType.String()
	if !i.DType.Known() {
		d = "scalar_type " + strconv.Itoa(int(i.ScalarType))
	}
	if i.Dynamism != ptefb.TensorShapeDynamismSTATIC {
		d += "≤"
	}
	if len(i.Shape) > 16 {
		return fmt.Sprintf("%s[%d dimensions]", d, len(i.Shape))
	}
	return d + i.Shape.String()
}

// roleOf returns the role of a tensor with that data_buffer_idx and ExtraTensorInfo, nil
// if absent. The location decides first: exporters number external constants from 0, in a
// list of their own, so buffer says nothing about them.
func roleOf(buffer uint32, extra *ptefb.ExtraTensorInfo, planned bool) Role {
	external := extra != nil && extra.Location() == ptefb.TensorDataLocationEXTERNAL
	switch {
	case external && planned:
		return RoleExternalState
	case external:
		return RoleExternal
	case planned && (buffer != 0 || extra != nil && len(extra.FullyQualifiedName()) > 0):
		return RoleState
	case planned:
		return RolePlanned
	case buffer != 0:
		return RoleConstant
	}
	return RoleCaller
}

func infoOf(t *ptefb.Tensor) TensorInfo {
	i := TensorInfo{
		ScalarType:    int8(t.ScalarType()),
		Dynamism:      t.ShapeDynamism(),
		Buffer:        t.DataBufferIdx(),
		StorageOffset: t.StorageOffset(),
		Layout:        t.Layout(),
		RequiresGrad:  boolField(t.Table(), ptefb.SlotTensorRequiresGrad),
	}
	i.DType = executorch.DType(i.ScalarType)
	dims := t.DimOrderBytes()
	var ok bool
	if i.Shape, i.Order, ok = shapeOf(t.SizesLength(), t.Sizes, dims); !ok {
		i.DimOrder = append([]byte{}, dims...)
	}
	var a ptefb.AllocationDetails
	if i.Planned = t.AllocationInfo(&a) != nil; i.Planned {
		i.Place = placeOf(&a)
	}
	var x ptefb.ExtraTensorInfo
	extra := t.ExtraTensorInfo(&x)
	i.Role = roleOf(i.Buffer, extra, i.Planned)
	if extra != nil {
		i.Name = string(x.FullyQualifiedName())
		i.MutableIndex = x.MutableDataSegmentsIdx()
		i.Device = Device{x.DeviceType(), x.DeviceIndex()}
	}
	return i
}

func placeOf(a *ptefb.AllocationDetails) Place {
	return Place{a.MemoryId(), uint64(a.MemoryOffsetLow()) | uint64(a.MemoryOffsetHigh())<<32}
}

// shapeOf returns a shape, its order, and whether the order is a permutation.
func shapeOf(n int, size func(int) int32, dims []byte) (tensor.Shape, tensor.Order, bool) {
	shape := make(tensor.Shape, n)
	for d := range shape {
		shape[d] = int64(size(d))
	}
	order, ok := executorch.Order(dims, n, nil)
	if !ok {
		order = nil
	}
	return shape, order, ok
}
