package rten

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// dataTypes is indexed by the schema's DataType, and as well by its ConstantDataType:
// two enums of different width, whose numbers agree.
var dataTypes = []tensor.DType{
	rtenfb.DataTypeInt32: tensor.I32,
	rtenfb.DataTypeFloat: tensor.F32,
	rtenfb.DataTypeInt8:  tensor.I8,
	rtenfb.DataTypeUInt8: tensor.U8,
}

// dataTypeNumber is the number of d in both enums.
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

// A Constant is a node with a tensor of its own: a weight, most often.
type Constant struct {
	n   Node
	pos flatbuffers.UOffsetT
}

func (c Constant) raw() *rtenfb.ConstantNode {
	raw := new(rtenfb.ConstantNode)
	raw.Init(c.n.m.buf, c.pos)
	return raw
}

// Node returns the constant as a node.
func (c Constant) Node() Node { return c.n }

// Inline reports whether the elements are in the flatbuffer, and not in the tensor data
// after it.
func (c Constant) Inline() bool { return c.raw().DataOffset() == nil }

// Tensor returns the constant under the name that [Reader.Tensors] describes. Each
// call makes a new one.
func (c Constant) Tensor() *tensor.Tensor {
	t := c.tensor(new(source.Extent))
	return &t
}

// tensor fills e, which the tensor keeps.
func (c Constant) tensor(e *source.Extent) tensor.Tensor {
	p := c.payload()
	*e, _ = c.n.m.r.src.Extent(p.off, p.size)
	return tensor.Tensor{Name: c.n.tensorName(), DType: p.dtype, Shape: p.shape(),
		Data: tensor.NewBlob(e)}
}

// payload is where the elements are, of a constant that Open checked.
func (c Constant) payload() (p payload) {
	p.read(c)
	return p
}

// tensorName is the name of a constant among those of all graphs.
func (n Node) tensorName() string {
	if n.graph == 0 {
		return n.Label()
	}
	return n.m.path(n.graph) + "/" + n.Label()
}

func (m *Model) tensorName(i int) string { return m.Constant(i).n.tensorName() }

// A payload is what a ConstantNode says about its elements.
type payload struct {
	dtype    tensor.DType
	dims     []byte // of the shape, as stored
	elements int64
	inline   bool
	off      int64 // in the file
	size     int64 // in bytes
}

func (p *payload) shape() tensor.Shape {
	s := make(tensor.Shape, len(p.dims)/4)
	for i := range s {
		s[i] = int64(binary.LittleEndian.Uint32(p.dims[4*i:]))
	}
	return s
}

// read fills p, or says what is wrong with the constant.
func (p *payload) read(c Constant) error {
	t := c.raw().Table()
	p.dims, _ = fb.FieldBytes(t, rtenfb.SlotConstantNodeShape, 4)
	ok := true
	p.elements = 1
	for b := p.dims; len(b) > 0; b = b[4:] {
		d := binary.LittleEndian.Uint32(b)
		if d == 0 { // whatever the others are
			p.elements, ok = 0, true
			break
		}
		if ok {
			p.elements, ok = align.Mul(p.elements, int64(d))
		}
	}
	if !ok {
		return c.wrong(tensor.ErrMalformed, rtenfb.SlotConstantNodeShape,
			"more than 2^63 elements")
	}
	// Not by DataOffset and Dtype, whose pointers take memory for each constant.
	if at := fb.FieldPos(t, rtenfb.SlotConstantNodeDataOffset); at != 0 {
		return p.readExternal(c, t.GetUint64(flatbuffers.UOffsetT(at)))
	}
	return p.readInline(c)
}

// wrong makes the error of a field of the ConstantNode.
func (c Constant) wrong(class error, slot int, format string, args ...any) error {
	t := c.raw().Table()
	pos := fb.FieldPosOr(t, slot)
	if slot == rtenfb.SlotConstantNodeShape {
		pos = fb.FieldTarget(t, slot) + 4 // its first dimension
	}
	name := rtenfb.Schema.Tables[rtenfb.TableConstantNode].FieldName(slot)
	return c.n.fail(class, pos, "data."+name, format, args...)
}

func (p *payload) readExternal(c Constant, rel uint64) error {
	const offset = rtenfb.SlotConstantNodeDataOffset
	r, t := c.n.m.r, c.raw().Table()
	at := fb.FieldPos(t, rtenfb.SlotConstantNodeDtype)
	dtype := t.GetUint16Slot(rtenfb.SlotConstantNodeDtype, 0)
	switch {
	case at == 0:
		return c.wrong(tensor.ErrMalformed, rtenfb.SlotConstantNodeDtype,
			"absent, while the elements are outside of the model")
	case int(dtype) >= len(dataTypes):
		return c.wrong(errors.ErrUnsupported, rtenfb.SlotConstantNodeDtype, "dtype %d", dtype)
	case !r.v2:
		return c.wrong(tensor.ErrMalformed, offset, "a file of version 1 has no tensor data")
	}
	p.dtype = dataTypes[dtype]
	var ok bool
	if p.size, ok = p.dtype.Bytes(p.elements); !ok {
		return c.wrong(tensor.ErrMalformed, rtenfb.SlotConstantNodeShape, "more than 2^63 bytes")
	}
	base := r.header.TensorOffset
	switch {
	case rel > math.MaxInt64:
		return c.wrong(tensor.ErrMalformed, offset, "%d is beyond every file", rel)
	case int64(rel) > r.size-base || p.size > r.size-base-int64(rel):
		return c.wrong(io.ErrUnexpectedEOF, offset,
			"%d bytes at %d of the tensor data, which has %d", p.size, rel, r.size-base)
	}
	p.off = base + int64(rel)
	return nil
}

func (p *payload) readInline(c Constant) error {
	raw := c.raw()
	p.inline = true
	tag := int(raw.DataType())
	var values flatbuffers.Table
	switch {
	case tag == 0 || !raw.Data(&values):
		return c.wrong(tensor.ErrMalformed, rtenfb.SlotConstantNodeData,
			"a constant without elements, inline or outside")
	case tag >= len(inlineTypes):
		return c.wrong(errors.ErrUnsupported, rtenfb.SlotConstantNodeDataType,
			"elements of kind %d", tag)
	}
	t := &inlineTypes[tag]
	p.dtype = t.dtype
	b, _ := fb.FieldBytes(values, t.slot, t.dtype.Size())
	vector := fb.FieldTarget(values, t.slot)
	if n := int64(len(b) / t.dtype.Size()); n != p.elements {
		return c.n.fail(tensor.ErrMalformed, vector, "data.data.data",
			"%d elements where the shape has %d", n, p.elements)
	}
	p.off, p.size = c.n.m.filePos(vector+4), int64(len(b))
	return nil
}
