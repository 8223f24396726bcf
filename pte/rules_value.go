package pte

import (
	"bytes"
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// kind returns the kind of value i, which may not be checked yet.
func (c *checker) kind(i int) Kind {
	c.m.t.Values(&c.pointee, i)
	return Kind(c.pointee.ValType())
}

// values checks the memory plan and each EValue, and collects the tensors that
// Reader.Tensors yields. It fails only if a limit is exceeded.
func (c *checker) values() error {
	c.memory()
	var t flatbuffers.Table
	for i, e := range fb.Each(c.n, c.m.t.Values) {
		k, present := Kind(e.ValType()), e.Val(&t)
		c.index = i
		switch {
		case k == kindNone:
			c.malformed(c.valueAt(e).field(ptefb.SlotEValueValType), "NONE")
		case !k.known(): // the FlatBuffers verifier skipped it
			c.error(errors.ErrUnsupported, c.valueAt(e).field(ptefb.SlotEValueValType), "%v", k)
		case !present:
			if k != kindNull {
				c.malformed(c.valueAt(e).field(ptefb.SlotEValueVal), "a %v without a value", k)
			}
		case k == kindTensor:
			c.tensor.Init(t.Bytes, t.Pos)
			max := &c.r.in.Options.Limits
			sizes, ok := fb.FieldBytes(t, ptefb.SlotTensorSizes, 4)
			if n := len(sizes) / 4; int64(n) > max.MaxRank {
				return c.r.error(tensor.ErrLimit, c.tensorAt(ptefb.SlotTensorSizes),
					"%d dimensions are more than the limit of %d", n, max.MaxRank)
			}
			if !c.checkTensor(sizes, ok).listed() {
				continue
			}
			if int64(len(c.stored)) >= max.MaxTensors {
				return c.r.error(tensor.ErrLimit, c.valueAt(e),
					"more tensors than the limit of %d", max.MaxTensors)
			}
			c.stored = append(c.stored, valueID{int32(c.m.index), int32(i)})
		default:
			c.list(t, k)
		}
	}
	return nil
}

// valueAt returns the location of the value that is being checked; tensorAt, extraAt and
// placeAt return locations of fields of its tensor.
func (c *checker) valueAt(e *ptefb.EValue) location {
	return c.m.location(ptefb.TableEValue, e, planPath+".values[%d]", c.index, 0)
}

func (c *checker) tensorAt(slot int) location {
	return c.m.location(ptefb.TableTensor, &c.tensor, valuePath, c.index, 0).field(slot)
}

func (c *checker) extraAt(slot int) location {
	const path = valuePath + ".extra_tensor_info"
	return c.m.location(ptefb.TableExtraTensorInfo, &c.extra, path, c.index, 0).field(slot)
}

func (c *checker) placeAt(slot int) location {
	const path = valuePath + ".allocation_info"
	return c.m.location(ptefb.TableAllocationDetails, &c.allocation, path, c.index, 0).field(slot)
}

// list checks the indices in the list t. The runtime makes values in order, so a list of
// tensors must come after its tensors.
func (c *checker) list(t flatbuffers.Table, k Kind) {
	slot, size := itemsOf(k)
	if size == 0 {
		return
	}
	s := location{t: t, table: int(ptefb.Schema.Unions[ptefb.UnionKernelTypes].Members[k]),
		path: valuePath, index: [3]int{c.m.index, c.index}}
	b, ok := fb.FieldBytes(t, slot, size)
	if !ok {
		c.malformed(s, "a %v without items", k)
	}
	if !k.isList() {
		return
	}
	item := func(n int) location { return s.field(slot).item(n, size) }
	for n := range len(b) / size {
		var x int64
		if size == 8 {
			x = int64(u64s(b, n))
		} else if x = int64(int32(u32s(b, n))); x == -1 && k == kindOptionalTensorList {
			continue
		}
		if x < 0 || x >= int64(c.n) {
			c.malformed(item(n), "%d of %d values", x, c.n)
			continue
		}
		pointee := c.kind(int(x))
		switch {
		case k == kindIntList && pointee == kindNull:
			c.warn(item(n), "value %d is not a number until an instruction makes it one", x)
		case k == kindIntList && pointee != kindInt,
			k == kindTensorList && pointee != kindTensor,
			k == kindOptionalTensorList && pointee != kindTensor && pointee != kindNull:
			c.malformed(item(n), "value %d is a %v, which a %v cannot have", x, pointee, k)
		case k != kindIntList && x >= int64(c.index):
			c.malformed(item(n), "value %d does not come before the list", x)
		}
	}
}

// checkTensor checks the table c.tensor and returns its role. sizes is its shape, and
// found false if that is absent.
func (c *checker) checkTensor(sizes []byte, found bool) Role {
	t := &c.tensor
	if o := t.StorageOffset(); o != 0 {
		c.error(errors.ErrUnsupported, c.tensorAt(ptefb.SlotTensorStorageOffset), "%d", o)
	}
	d := executorch.DType(int8(t.ScalarType()))
	if d == tensor.Unknown {
		s := c.tensorAt(ptefb.SlotTensorScalarType)
		c.error(errors.ErrUnsupported, s, "%d", t.ScalarType())
	}
	switch x := t.ShapeDynamism(); x {
	case ptefb.TensorShapeDynamismSTATIC, ptefb.TensorShapeDynamismDYNAMIC_BOUND:
	case ptefb.TensorShapeDynamismDYNAMIC_UNBOUND:
		c.error(errors.ErrUnsupported, c.tensorAt(ptefb.SlotTensorShapeDynamism), "%v", x)
	default:
		c.warn(c.tensorAt(ptefb.SlotTensorShapeDynamism), "unknown value %d", x)
	}
	if l := t.Layout(); l != 0 {
		c.warn(c.tensorAt(ptefb.SlotTensorLayout),
			"%d is not strided, as which the runtime takes it", l)
	}
	size, known := int64(0), false
	if found {
		size, known = c.shape(d, sizes)
	} else {
		c.malformed(c.tensorAt(ptefb.SlotTensorSizes), "absent")
	}
	extra, buffer := t.ExtraTensorInfo(&c.extra), t.DataBufferIdx()
	planned := t.AllocationInfo(&c.allocation) != nil
	role := roleOf(buffer, extra, planned)
	var name []byte
	if extra != nil {
		name = c.extraInfo()
	}
	switch {
	case role.External():
		c.externalTensor(name)
	case role == RoleConstant, role == RoleState && buffer != 0:
		c.storedTensor(role, buffer, d, size, known)
	}
	if planned {
		c.place(role, buffer, size, known)
	}
	return role
}

// storedTensor checks the location of the bytes of a constant or an initial value.
func (c *checker) storedTensor(role Role, buffer uint32, d tensor.DType, size int64, known bool) {
	s := c.tensorAt(ptefb.SlotTensorDataBufferIdx)
	if !known {
		size = 0
	}
	x, err := c.r.locate(role, buffer, size, s)
	switch {
	case err != nil:
		c.out.Error(err)
	case role == RoleConstant && size > 0 && d.Align() > 1 &&
		!align.Is(x.off-c.r.at, int64(d.Align())):
		c.warn(s, "constant %d at %d is not aligned to the %d bytes of %v", buffer, x.off,
			d.Align(), d)
	}
}

// place checks an AllocationDetails, a tensor's place in the memory plan.
func (c *checker) place(role Role, index uint32, size int64, known bool) {
	p := placeOf(&c.allocation)
	n := int64(len(c.buffers))
	if p.Memory == 0 || int64(p.Memory) >= n {
		c.malformed(c.placeAt(ptefb.SlotAllocationDetailsMemoryId), "%d of buffers 1 to %d",
			p.Memory, n-1)
		return
	}
	if !known {
		return
	}
	buffer := uint64(c.buffers[p.Memory])
	if p.Offset > buffer || uint64(size) > buffer-p.Offset {
		c.malformed(c.placeAt(ptefb.SlotAllocationDetailsMemoryOffsetLow),
			"%d bytes at %d in a buffer of %d", size, p.Offset, int64(buffer))
	} else if buffer == 0 && role == RoleState && index != 0 {
		c.malformed(c.placeAt(ptefb.SlotAllocationDetailsMemoryId),
			"an initial value without elements for buffer %d, which has no bytes and is not made",
			p.Memory)
	}
}

// extraInfo checks the table ExtraTensorInfo and returns the tensor's name.
func (c *checker) extraInfo() []byte {
	x := &c.extra
	if l := x.Location(); l > ptefb.TensorDataLocationEXTERNAL || l < 0 {
		c.warn(c.extraAt(ptefb.SlotExtraTensorInfoLocation),
			"unknown location %d, which the runtime takes for a segment", uint8(l))
	}
	if d := x.DeviceType(); d > ptefb.DeviceTypeCUDA || d < 0 {
		c.warn(c.extraAt(ptefb.SlotExtraTensorInfoDeviceType), "unknown device %d", uint8(d))
	} else if i := x.DeviceIndex(); i < 0 {
		c.warn(c.extraAt(ptefb.SlotExtraTensorInfoDeviceIndex), "%d", i)
	}
	name := x.FullyQualifiedName()
	if len(name) > 0 {
		c.name(name, c.extraAt(ptefb.SlotExtraTensorInfoFullyQualifiedName))
	}
	return name
}

// shape checks sizes and dim_order, and returns the size of the tensor in bytes.
func (c *checker) shape(d tensor.DType, sizes []byte) (size int64, known bool) {
	rank, dims := len(sizes)/4, c.tensor.DimOrderBytes()
	switch {
	case dims == nil:
		c.malformed(c.tensorAt(ptefb.SlotTensorDimOrder), "absent")
	case len(dims) != rank:
		c.malformed(c.tensorAt(ptefb.SlotTensorDimOrder), "%d entries for %d dimensions",
			len(dims), rank)
	case rank > maxRank:
		c.malformed(c.tensorAt(ptefb.SlotTensorSizes),
			"%d dimensions, and the runtime supports %d", rank, maxRank)
	default:
		if _, ok := executorch.Order(dims, rank, nil); !ok {
			s := c.tensorAt(ptefb.SlotTensorDimOrder).inside(0)
			c.malformed(s, "%v is not a permutation", dims)
		}
	}
	// The runtime multiplies in order. A zero after an overflow does not undo it; a zero
	// before it does not prevent it either: the strides count a zero as one.
	n, zero, ok := max(int64(d.Size()), 1), false, true
	for i := range rank {
		x := int64(int32(u32s(sizes, i)))
		if x < 0 {
			c.malformed(c.tensorAt(ptefb.SlotTensorSizes).inside(4*i), "dimension %d is %d", i, x)
			return 0, false
		}
		zero = zero || x == 0
		if n, ok = align.Mul(n, max(x, 1)); !ok {
			c.malformed(c.tensorAt(ptefb.SlotTensorSizes), "the product overflows")
			return 0, false
		}
	}
	if zero {
		n = 0
	}
	return n, d != tensor.Unknown
}

// externalTensor checks a tensor that is in a .ptd under its name. The runtime compares
// only the first tensor of each name with the .ptd.
func (c *checker) externalTensor(name []byte) {
	if len(name) == 0 {
		c.malformed(c.extraAt(ptefb.SlotExtraTensorInfoFullyQualifiedName),
			"an external tensor without a name")
		return
	}
	p, dup := c.external[string(name)]
	if !dup {
		c.external[string(name)] = valueID{int32(c.m.index), int32(c.index)}
		return
	}
	first, _ := c.r.value(p).table()
	if !sameTable(&first, &c.tensor) {
		c.malformed(c.extraAt(ptefb.SlotExtraTensorInfoFullyQualifiedName),
			"external tensor %s has another layout than where it was used before",
			naming.Quote(string(name)))
	}
}

// sameTable reports whether two tensors have the same stored type, shape and order.
func sameTable(a, b *ptefb.Tensor) bool {
	x, _ := fb.FieldBytes(a.Table(), ptefb.SlotTensorSizes, 4)
	y, _ := fb.FieldBytes(b.Table(), ptefb.SlotTensorSizes, 4)
	return a.ScalarType() == b.ScalarType() && bytes.Equal(x, y) && bytes.Equal(a.DimOrderBytes(),
		b.DimOrderBytes())
}
