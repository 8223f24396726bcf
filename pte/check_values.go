package pte

import (
	"bytes"
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// memory checks the memory plan.
func (c *checker) memory() {
	t := &c.m.t
	s := c.m.site(t, planPath, 0, 0).
		field(ptefb.SlotExecutionPlanNonConstBufferSizes, "non_const_buffer_sizes")
	c.buffers = c.buffers[:0]
	var total int64
	for i := range t.NonConstBufferSizesLength() {
		n := t.NonConstBufferSizes(i)
		c.buffers = append(c.buffers, n)
		if i == 0 {
			continue // reserved
		}
		sum, ok := align.Add(total, n)
		if !ok || n > maxBuffer {
			c.bad(s.element(i, 8), "%d bytes", n)
			continue
		}
		total = sum
	}
	for i, d := range fb.Each(t.NonConstBufferDeviceLength(), t.NonConstBufferDevice) {
		s := c.m.site(d, planPath+"non_const_buffer_device[%d].", i, 0)
		if k := d.BufferIdx(); k < 0 || int(k) >= len(c.buffers) {
			c.warn(s.named("buffer_idx"), "%d of %d buffers", k, len(c.buffers))
		}
		if x := DeviceType(d.DeviceType()); !x.known() {
			c.warn(s.named("device_type"), "unknown device %d", x)
		}
	}
}

// kind is that of value i, which may come later.
func (c *checker) kind(i int64) Kind {
	c.m.t.Values(&c.pointee, int(i))
	return Kind(c.pointee.ValType())
}

// values always runs to its end: it also counts what there is.
func (c *checker) values() error {
	c.memory()
	for i, e := range fb.Each(c.n, c.m.t.Values) {
		s := c.m.site(e, planPath+"values[%d].", i, 0)
		var t flatbuffers.Table
		k, present := Kind(e.ValType()), e.Val(&t)
		switch {
		case k == KindNone:
			c.bad(s.named("val_type"), "NONE")
		case !k.known(): // the verifier has not seen what is there
			c.error(errors.ErrUnsupported, s.field(ptefb.SlotEValueValType, "val_type"), "%v", k)
		case !present:
			if k != KindNull {
				c.bad(s.named("val"), "a %v without a value", k)
			}
		case k == KindTensor:
			c.tensor.Init(t.Bytes, t.Pos)
			c.index = i
			if err := c.checkTensor(s); err != nil {
				return err
			}
		default:
			s.t = t
			c.list(s, k)
		}
	}
	return nil
}

// list checks the values that the list at s names. The runtime makes values in order, so
// that a list of tensors must come after its tensors.
func (c *checker) list(s site, k Kind) {
	slot, size := itemsOf(k)
	if size == 0 {
		return
	}
	b, ok := fb.FieldBytes(s.t, slot, size)
	if !ok {
		c.bad(s.named("val"), "a %v without items", k)
	}
	if !k.IsList() {
		return
	}
	s = s.field(slot, "val.items")
	for n := range len(b) / size {
		var x int64
		if size == 8 {
			x = int64(u64s(b, n))
		} else if x = int64(int32(u32s(b, n))); x == -1 && k == KindOptionalTensorList {
			continue
		}
		if x < 0 || x >= int64(c.n) {
			c.bad(s.element(n, size), "%d of %d values", x, c.n)
			continue
		}
		pointee := c.kind(x)
		switch {
		case k == KindIntList && pointee == KindNull:
			c.warn(s.element(n, size), "value %d is not a number until an instruction makes it one", x)
		case k == KindIntList && pointee != KindInt,
			k == KindTensorList && pointee != KindTensor,
			k == KindOptionalTensorList && pointee != KindTensor && pointee != KindNull:
			c.bad(s.element(n, size), "value %d is a %v, which a %v cannot have", x, pointee, k)
		case k != KindIntList && x >= int64(s.index[1]):
			c.bad(s.element(n, size), "value %d does not come before the list", x)
		}
	}
}

// checkTensor checks c.tensor, of the value at s.
func (c *checker) checkTensor(value site) error {
	t := &c.tensor
	s := c.m.site(t, valuePath, c.index, 0)
	sizes, present := fb.FieldBytes(s.t, ptefb.SlotTensorSizes, 4)
	if n := int64(len(sizes) / 4); n > c.r.limits.MaxRank {
		return c.r.error(tensor.ErrLimit, s.field(ptefb.SlotTensorSizes, "sizes"),
			"%d dimensions are more than the limit of %d", n, c.r.limits.MaxRank)
	}
	if o := t.StorageOffset(); o != 0 {
		c.error(errors.ErrUnsupported, s.field(ptefb.SlotTensorStorageOffset, "storage_offset"), "%d", o)
	}
	d := executorch.DType(int8(t.ScalarType()))
	if d == tensor.Unknown {
		c.error(errors.ErrUnsupported, s.field(ptefb.SlotTensorScalarType, "scalar_type"), "%d",
			int8(t.ScalarType()))
	}
	switch x := Dynamism(t.ShapeDynamism()); x {
	case Static, Bound:
	case Unbound:
		c.error(errors.ErrUnsupported, s.field(ptefb.SlotTensorShapeDynamism, "shape_dynamism"), "%v", x)
	default:
		c.warn(s.field(ptefb.SlotTensorShapeDynamism, "shape_dynamism"), "unknown value %d", x)
	}
	if l := t.Layout(); l != 0 {
		c.warn(s.field(ptefb.SlotTensorLayout, "layout"),
			"%d is not strided, as which the runtime takes it", l)
	}
	size, known := int64(0), false
	if present {
		size, known = c.shape(s, d, sizes)
	} else {
		c.bad(s.named("sizes"), "absent")
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
		c.storedTensor(s, role, buffer, d, size, known)
	}
	if planned {
		c.place(role, size, known)
	}
	if !role.listed() {
		return nil
	}
	if int64(len(c.stored)) >= c.r.limits.MaxTensors {
		value.path = planPath + "values[%d]"
		return c.r.error(tensor.ErrLimit, value, "more tensors than the limit of %d",
			c.r.limits.MaxTensors)
	}
	c.stored = append(c.stored, place{int32(c.m.index), int32(c.index)})
	return nil
}

// storedTensor checks where the bytes of a constant or an initial value are.
func (c *checker) storedTensor(s site, role Role, buffer uint32, d tensor.DType, size int64,
	known bool) {
	s = s.field(ptefb.SlotTensorDataBufferIdx, "data_buffer_idx")
	if !known {
		size = 0
	}
	x, err := c.r.locate(role, buffer, size, s)
	switch {
	case err != nil:
		c.out.Error(err)
	case role == RoleConstant && size > 0 && d.Align() > 1 && !align.Is(x.off-c.r.at, int64(d.Align())):
		c.warn(s, "constant %d at %d is not aligned to the %d bytes of %v", buffer, x.off, d.Align(), d)
	}
}

// place checks a tensor's place in the memory plan.
func (c *checker) place(role Role, size int64, known bool) {
	s := c.m.site(&c.allocation, valuePath+"allocation_info", c.index, 0)
	p := placeOf(&c.allocation)
	n := int64(len(c.buffers))
	if p.Memory == 0 || int64(p.Memory) >= n {
		c.bad(s.field(ptefb.SlotAllocationDetailsMemoryId, ".memory_id"), "%d of buffers 1 to %d",
			p.Memory, n-1)
		return
	}
	if !known {
		return
	}
	buffer := uint64(c.buffers[p.Memory])
	if p.Offset > buffer || uint64(size) > buffer-p.Offset {
		c.bad(s.field(ptefb.SlotAllocationDetailsMemoryOffsetLow, ""),
			"%d bytes at %d in a buffer of %d", size, p.Offset, int64(buffer))
	} else if buffer == 0 && role == RoleState && c.tensor.DataBufferIdx() != 0 {
		c.bad(s.field(ptefb.SlotAllocationDetailsMemoryId, ".memory_id"),
			"an initial value without elements for buffer %d, which has no bytes and is not made",
			p.Memory)
	}
}

func (c *checker) extraSite() site {
	return c.m.site(&c.extra, valuePath+"extra_tensor_info.", c.index, 0)
}

// extraInfo checks a tensor's extra information and returns its name.
func (c *checker) extraInfo() []byte {
	x, s := &c.extra, c.extraSite()
	if l := x.Location(); l > ptefb.TensorDataLocationEXTERNAL || l < 0 {
		c.warn(s.field(ptefb.SlotExtraTensorInfoLocation, "location"),
			"unknown location %d, which the runtime takes for a segment", uint8(l))
	}
	if d := DeviceType(x.DeviceType()); !d.known() {
		c.warn(s.field(ptefb.SlotExtraTensorInfoDeviceType, "device_type"), "unknown device %d", uint8(d))
	} else if i := x.DeviceIndex(); i < 0 {
		c.warn(s.field(ptefb.SlotExtraTensorInfoDeviceIndex, "device_index"), "%d", i)
	}
	name := x.FullyQualifiedName()
	if len(name) > 0 {
		c.name(name, s.field(ptefb.SlotExtraTensorInfoFullyQualifiedName, "fully_qualified_name"))
	}
	return name
}

// shape checks sizes and dim_order and returns how many bytes they make.
func (c *checker) shape(s site, d tensor.DType, sizes []byte) (size int64, known bool) {
	rank, dims := len(sizes)/4, c.tensor.DimOrderBytes()
	order, s := s.field(ptefb.SlotTensorDimOrder, "dim_order"), s.field(ptefb.SlotTensorSizes, "sizes")
	switch {
	case dims == nil:
		c.bad(order, "absent")
	case len(dims) != rank:
		c.bad(order, "%d entries for %d dimensions", len(dims), rank)
	case rank > maxRank:
		c.bad(s, "%d dimensions, and the runtime supports %d", rank, maxRank)
	default:
		if _, ok := executorch.Order(dims, rank, nil); !ok {
			order.at = order.element(0, 1).at
			c.bad(order, "%v is not a permutation", dims)
		}
	}
	// The runtime multiplies in order and keeps an overflow, whatever zero follows; with
	// the zero before it overflows in the strides, where a zero counts as one.
	n, zero, ok := max(int64(d.Size()), 1), false, true
	for i := range rank {
		x := int64(int32(u32s(sizes, i)))
		if x < 0 {
			s.at = s.element(i, 4).at
			c.bad(s, "dimension %d is %d", i, x)
			return 0, false
		}
		zero = zero || x == 0
		if n, ok = align.Mul(n, max(x, 1)); !ok {
			c.bad(s, "the product overflows")
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
	s := c.extraSite().named("fully_qualified_name")
	if len(name) == 0 {
		c.bad(s, "an external tensor without a name")
		return
	}
	p, dup := c.external[string(name)]
	if !dup {
		c.external[string(name)] = place{int32(c.m.index), int32(c.index)}
		return
	}
	first, _ := c.r.value(p).table()
	if !sameTable(&first, &c.tensor) {
		c.bad(s.field(ptefb.SlotExtraTensorInfoFullyQualifiedName, s.name),
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
