package pte

import (
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// memory checks the memory plan.
func (c *checker) memory() {
	t := &c.m.t
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
			c.bad(dataAt(t, ptefb.SlotExecutionPlanNonConstBufferSizes)+8*i,
				c.m.field("non_const_buffer_sizes[%d]", i), "%d bytes", n)
			continue
		}
		total = sum
	}
	for i, d := range fb.Each(t.NonConstBufferDeviceLength(), t.NonConstBufferDevice) {
		if k := d.BufferIdx(); k < 0 || int(k) >= len(c.buffers) {
			c.warn(pos(d), c.m.field("non_const_buffer_device[%d].buffer_idx", i),
				"%d of %d buffers", k, len(c.buffers))
		}
		if x := DeviceType(d.DeviceType()); !x.known() {
			c.warn(pos(d), c.m.field("non_const_buffer_device[%d].device_type", i),
				"unknown device %d", x)
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
		var t flatbuffers.Table
		k, present := Kind(e.ValType()), e.Val(&t)
		switch {
		case k == KindNone:
			c.bad(pos(e), c.m.field("values[%d].val_type", i), "NONE")
		case !k.known(): // the verifier has not seen what is there
			c.error(errors.ErrUnsupported, at(e, ptefb.SlotEValueValType),
				c.m.field("values[%d].val_type", i), "%v", k)
		case !present:
			if k != KindNull {
				c.bad(pos(e), c.m.field("values[%d].val", i), "a %v without a value", k)
			}
		case k == KindTensor:
			c.tensor.Init(t.Bytes, t.Pos)
			c.index = i
			if err := c.checkTensor(pos(e)); err != nil {
				return err
			}
		default:
			c.list(i, k, t)
		}
	}
	return nil
}

// list checks the values that value i names. The runtime makes values in order, so that a
// list of tensors must come after its tensors.
func (c *checker) list(i int, k Kind, t flatbuffers.Table) {
	slot, size := itemsOf(k)
	if size == 0 {
		return
	}
	b, ok := fb.FieldBytes(t, slot, size)
	if !ok {
		c.bad(int(t.Pos), c.m.field("values[%d].val", i), "a %v without items", k)
	}
	if !k.IsList() {
		return
	}
	for n := range len(b) / size {
		var x int64
		if size == 8 {
			x = int64(u64s(b, n))
		} else if x = int64(int32(u32s(b, n))); x == -1 && k == KindOptionalTensorList {
			continue
		}
		where := func() (int, string) {
			return fb.FieldTarget(t, slot) + 4 + n*size, c.m.field("values[%d].val.items[%d]", i,
				n)
		}
		if x < 0 || x >= int64(c.n) {
			pos, field := where()
			c.bad(pos, field, "%d of %d values", x, c.n)
			continue
		}
		pointee := c.kind(x)
		switch {
		case k == KindIntList && pointee == KindNull:
			pos, field := where()
			c.warn(pos, field, "value %d is not a number until an instruction makes it one", x)
		case k == KindIntList && pointee != KindInt,
			k == KindTensorList && pointee != KindTensor,
			k == KindOptionalTensorList && pointee != KindTensor && pointee != KindNull:
			pos, field := where()
			c.bad(pos, field, "value %d is a %v, which a %v cannot have", x, pointee, k)
		case k != KindIntList && x >= int64(i):
			pos, field := where()
			c.bad(pos, field, "value %d does not come before the list", x)
		}
	}
}

// valueField is the path of a field of the value that is being checked.
func (c *checker) valueField(name string) string {
	return c.m.field("values[%d].val.%s", c.index, name)
}

// keep notes a tensor that Reader.Tensors yields.
func (c *checker) keep(pos int) error {
	if int64(len(c.stored)) >= c.r.limits.MaxTensors {
		return fail(tensor.ErrLimit, c.r.at+int64(pos), c.m.field("values[%d]", c.index),
			"more tensors than the limit of %d", c.r.limits.MaxTensors)
	}
	c.stored = append(c.stored, place{int32(c.m.index), int32(c.index)})
	return nil
}
