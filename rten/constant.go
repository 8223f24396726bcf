package rten

import (
	"encoding/binary"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// dataTypes is indexed by the schema's DataType or ConstantDataType: two enums with the
// same numbers, stored in different widths.
var dataTypes = []tensor.DType{
	rtenfb.DataTypeInt32: tensor.I32,
	rtenfb.DataTypeFloat: tensor.F32,
	rtenfb.DataTypeInt8:  tensor.I8,
	rtenfb.DataTypeUInt8: tensor.U8,
}

// dataTypeNumber returns the number of d in both enums.
func dataTypeNumber(d tensor.DType) (int, bool) {
	i := slices.Index(dataTypes, d)
	return max(i, 0), i >= 0
}

// inlineTypes is indexed by the tag of the union ConstantData: the dtype of the member,
// and the slot of its only field.
var inlineTypes = [...]struct {
	dtype tensor.DType
	slot  int
}{
	rtenfb.ConstantDataFloatData: {tensor.F32, rtenfb.SlotFloatDataData},
	rtenfb.ConstantDataInt32Data: {tensor.I32, rtenfb.SlotInt32DataData},
	rtenfb.ConstantDataInt8Data:  {tensor.I8, rtenfb.SlotInt8DataData},
	rtenfb.ConstantDataUInt8Data: {tensor.U8, rtenfb.SlotUInt8DataData},
}

func inlineTag(d tensor.DType) int {
	for tag := range inlineTypes {
		if inlineTypes[tag].dtype == d {
			return tag
		}
	}
	return 0
}

// A Constant is a node with a stored tensor, such as a weight.
type Constant struct {
	n Node
	payload
}

// A payload is what the file says about the elements of a constant.
type payload struct {
	off    int64  // in the file
	pos    uint32 // of the ConstantNode
	shape  uint32 // of its first dimension
	rank   uint32
	dtype  tensor.DType
	inline bool
}

func (c Constant) raw() *rtenfb.ConstantNode {
	raw := new(rtenfb.ConstantNode)
	raw.Init(c.n.m.buf, flatbuffers.UOffsetT(c.pos))
	return raw
}

// Node returns the constant as a node.
func (c Constant) Node() Node { return c.n }

// Inline reports whether the elements are in the flatbuffer, and not in the tensor data
// after it.
func (c Constant) Inline() bool { return c.inline }

// Tensor returns the constant as a tensor with its name in [Reader.Tensors]. Each call
// makes a new one.
func (c Constant) Tensor() *tensor.Tensor {
	t := new(tensor.Tensor)
	c.fill(t, new(source.Extent), make(tensor.Shape, c.rank))
	return t
}

// fill sets t to the constant. t refers to e and shape, which has the rank of the
// constant.
func (c *Constant) fill(t *tensor.Tensor, e *source.Extent, shape tensor.Shape) {
	for i := range shape {
		shape[i] = int64(binary.LittleEndian.Uint32(c.dims()[4*i:]))
	}
	t.Name, t.DType, t.Shape = c.n.tensorName(), c.dtype, shape
	*e, _ = c.n.m.r.src.Extent(c.off, c.size())
	t.Data = tensor.NewBlob(e)
}

// tensorName returns the name of a constant in Reader.Tensors.
func (n Node) tensorName() string {
	if n.graph == 0 {
		return n.Label()
	}
	return n.m.path(n.graph) + "/" + n.Label()
}

func (m *Model) tensorName(i int) string { return m.Constant(i).n.tensorName() }

// dims returns the dimensions as stored.
func (c *Constant) dims() []byte { return c.n.m.buf[c.shape:][:4*c.rank] }

// elements returns the number of elements, false if it overflows.
func (c *Constant) elements() (n int64, ok bool) {
	n, ok = 1, true
	for b := c.dims(); len(b) > 0; b = b[4:] {
		d := binary.LittleEndian.Uint32(b)
		if d == 0 { // whatever the others are
			return 0, true
		}
		if ok {
			n, ok = align.Mul(n, int64(d))
		}
	}
	return n, ok
}

// size returns the size of the elements in bytes.
func (c *Constant) size() int64 {
	n, _ := c.elements()
	return n * int64(c.dtype.Size())
}
