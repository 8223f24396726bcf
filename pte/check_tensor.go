package pte

import (
	"bytes"
	"errors"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkTensor checks c.tensor, of the value whose table is at pos.
func (c *checker) checkTensor(pos int) error {
	t := &c.tensor
	sizes, present := fb.FieldBytes(t.Table(), ptefb.SlotTensorSizes, 4)
	if n := int64(len(sizes) / 4); n > c.r.limits.MaxRank {
		return fail(tensor.ErrLimit, c.r.at+int64(at(t, ptefb.SlotTensorSizes)),
			c.valueField("sizes"), "%d dimensions are more than the limit of %d", n, c.r.limits.MaxRank)
	}
	if o := t.StorageOffset(); o != 0 {
		c.error(errors.ErrUnsupported, at(t, ptefb.SlotTensorStorageOffset),
			c.valueField("storage_offset"), "%d", o)
	}
	d := executorch.DType(int8(t.ScalarType()))
	if d == tensor.Unknown {
		c.error(errors.ErrUnsupported, at(t, ptefb.SlotTensorScalarType),
			c.valueField("scalar_type"), "%d", int8(t.ScalarType()))
	}
	switch x := Dynamism(t.ShapeDynamism()); x {
	case Static, Bound:
	case Unbound:
		c.error(errors.ErrUnsupported, at(t, ptefb.SlotTensorShapeDynamism),
			c.valueField("shape_dynamism"), "%v", x)
	default:
		c.warn(at(t, ptefb.SlotTensorShapeDynamism), c.valueField("shape_dynamism"),
			"unknown value %d", x)
	}
	if l := t.Layout(); l != 0 {
		c.warn(at(t, ptefb.SlotTensorLayout), c.valueField("layout"),
			"%d is not strided, as which the runtime takes it", l)
	}
	size, known := int64(0), false
	if present {
		size, known = c.shape(d, sizes)
	} else {
		c.bad(int(t.Table().Pos), c.valueField("sizes"), "absent")
	}
	var name []byte
	external := false
	if t.ExtraTensorInfo(&c.extra) != nil {
		name = c.extraInfo()
		external = c.extra.Location() == ptefb.TensorDataLocationEXTERNAL
	}
	buffer, planned := t.DataBufferIdx(), t.AllocationInfo(&c.allocation) != nil
	role := role(external, planned, buffer != 0, len(name) > 0)
	switch {
	case external:
		c.externalTensor(name)
	case role == RoleConstant, role == RoleState && buffer != 0:
		c.storedTensor(role, buffer, d, size, known)
	}
	if planned {
		c.place(role, size, known)
	}
	if role.listed() {
		return c.keep(pos)
	}
	return nil
}

// storedTensor checks where the bytes of a constant or an initial value are.
func (c *checker) storedTensor(role Role, buffer uint32, d tensor.DType, size int64, known bool) {
	where := at(&c.tensor, ptefb.SlotTensorDataBufferIdx)
	field := func() string { return c.valueField("data_buffer_idx") }
	if !known {
		size = 0
	}
	x, err := c.r.locate(role, buffer, size, where, field)
	switch {
	case err != nil:
		c.out.Error(err)
	case role == RoleConstant && size > 0 && misaligned(x.off-c.r.at, d):
		c.warn(where, field(), "constant %d at %d is not aligned to the %d bytes of %v",
			buffer, x.off, d.Align(), d)
	}
}

// place checks a tensor's place in the memory plan.
func (c *checker) place(role Role, size int64, known bool) {
	a := &c.allocation
	p := placeOf(a)
	n := int64(len(c.buffers))
	if p.Memory == 0 || int64(p.Memory) >= n {
		c.bad(at(a, ptefb.SlotAllocationDetailsMemoryId),
			c.valueField("allocation_info.memory_id"), "%d of buffers 1 to %d", p.Memory, n-1)
		return
	}
	if !known {
		return
	}
	buffer := uint64(c.buffers[p.Memory])
	if p.Offset > buffer || uint64(size) > buffer-p.Offset {
		c.bad(at(a, ptefb.SlotAllocationDetailsMemoryOffsetLow), c.valueField("allocation_info"),
			"%d bytes at %d in a buffer of %d", size, p.Offset, int64(buffer))
	} else if buffer == 0 && role == RoleState && c.tensor.DataBufferIdx() != 0 {
		c.bad(at(a, ptefb.SlotAllocationDetailsMemoryId),
			c.valueField("allocation_info.memory_id"),
			"an initial value without elements for buffer %d, which has no bytes and is not made",
			p.Memory)
	}
}

// extraInfo checks a tensor's extra information and returns its name.
func (c *checker) extraInfo() []byte {
	x := &c.extra
	if l := x.Location(); l > ptefb.TensorDataLocationEXTERNAL || l < 0 {
		c.warn(at(x, ptefb.SlotExtraTensorInfoLocation), c.valueField("extra_tensor_info.location"),
			"unknown location %d, which the runtime takes for a segment", uint8(l))
	}
	if d := DeviceType(x.DeviceType()); !d.known() {
		c.warn(at(x, ptefb.SlotExtraTensorInfoDeviceType),
			c.valueField("extra_tensor_info.device_type"), "unknown device %d", uint8(d))
	} else if i := x.DeviceIndex(); i < 0 {
		c.warn(at(x, ptefb.SlotExtraTensorInfoDeviceIndex),
			c.valueField("extra_tensor_info.device_index"), "%d", i)
	}
	name := x.FullyQualifiedName()
	if len(name) > 0 {
		c.name(name, at(x, ptefb.SlotExtraTensorInfoFullyQualifiedName),
			func() string { return c.valueField("extra_tensor_info.fully_qualified_name") })
	}
	return name
}

// shape checks sizes and dim_order and returns how many bytes they make.
func (c *checker) shape(d tensor.DType, sizes []byte) (size int64, known bool) {
	t := &c.tensor
	rank, dims := len(sizes)/4, t.DimOrderBytes()
	switch {
	case dims == nil:
		c.bad(pos(t), c.valueField("dim_order"), "absent")
	case len(dims) != rank:
		c.bad(at(t, ptefb.SlotTensorDimOrder), c.valueField("dim_order"),
			"%d entries for %d dimensions", len(dims), rank)
	case rank > maxRank:
		c.bad(at(t, ptefb.SlotTensorSizes), c.valueField("sizes"),
			"%d dimensions, and the runtime supports %d", rank, maxRank)
	default:
		if _, ok := executorch.Order(dims, rank, nil); !ok {
			c.bad(dataAt(t, ptefb.SlotTensorDimOrder), c.valueField("dim_order"),
				"%v is not a permutation", dims)
		}
	}
	// The runtime multiplies in order and keeps an overflow, whatever zero follows; with
	// the zero before it overflows in the strides, where a zero counts as one.
	n, zero, ok := max(int64(d.Size()), 1), false, true
	for i := range rank {
		x := int64(int32(u32s(sizes, i)))
		if x < 0 {
			c.bad(dataAt(t, ptefb.SlotTensorSizes)+4*i, c.valueField("sizes"),
				"dimension %d is %d", i, x)
			return 0, false
		}
		zero = zero || x == 0
		if n, ok = align.Mul(n, max(x, 1)); !ok {
			c.bad(at(t, ptefb.SlotTensorSizes), c.valueField("sizes"), "the product overflows")
			return 0, false
		}
	}
	if zero {
		n = 0
	}
	return n, d != tensor.Unknown
}

// externalTensor checks a tensor that is in a .ptd under its name. The runtime compares
// the layout of only the first tensor of a name with the file.
func (c *checker) externalTensor(name []byte) {
	field := "extra_tensor_info.fully_qualified_name"
	if len(name) == 0 {
		c.bad(pos(&c.extra), c.valueField(field), "an external tensor without a name")
		return
	}
	p, dup := c.external[string(name)]
	if !dup {
		c.external[string(name)] = place{int32(c.m.index), int32(c.index)}
		return
	}
	first, _ := c.r.value(p).table()
	if !sameTable(&first, &c.tensor) {
		c.bad(at(&c.extra, ptefb.SlotExtraTensorInfoFullyQualifiedName), c.valueField(field),
			"external tensor %s has another layout than where it was used before", quote.Name(string(name)))
	}
}

// sameTable reports whether two tensors have the same type, shape and order, as the file
// has them.
func sameTable(a, b *ptefb.Tensor) bool {
	x, _ := fb.FieldBytes(a.Table(), ptefb.SlotTensorSizes, 4)
	y, _ := fb.FieldBytes(b.Table(), ptefb.SlotTensorSizes, 4)
	return a.ScalarType() == b.ScalarType() && bytes.Equal(x, y) && bytes.Equal(a.DimOrderBytes(),
		b.DimOrderBytes())
}
