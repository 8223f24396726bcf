package rten

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// dataTypes is indexed by DataType, and as well by ConstantDataType: two enums
// of different width, whose numbers agree.
var dataTypes = [...]tensor.DType{tensor.I32, tensor.F32, tensor.I8, tensor.U8}

// inlineTypes is indexed by the tag of the union ConstantData, whose order is
// another one.
var inlineTypes = [...]tensor.DType{tensor.Unknown, tensor.F32, tensor.I32, tensor.I8, tensor.U8}

// A Constant is a node with a tensor of its own: a weight, most often.
type Constant struct {
	n   Node
	pos int
}

// Node is the constant as a node.
func (c Constant) Node() Node { return c.n }

// Inline reports whether the elements are in the flatbuffer, and not in the tensor data
// after it.
func (c Constant) Inline() bool { return c.n.m.field(c.pos, slotConstantOffset) == 0 }

// Tensor is the constant under the name that [Reader.Tensors] describes. Each
// call makes a new one.
func (c Constant) Tensor() *tensor.Tensor {
	var p payload
	p.read(c.n.m, c.pos) // checked by Open
	t := &struct {
		t tensor.Tensor
		e source.Extent
	}{}
	t.e, _ = c.n.m.r.src.Extent(p.off, p.size)
	t.t = tensor.Tensor{Name: c.n.tensorName(), DType: p.dtype, Shape: make(tensor.Shape, p.rank), Data: tensor.NewBlob(&t.e)}
	for i := range t.t.Shape {
		t.t.Shape[i] = int64(c.n.m.u32(p.dims + 4*i))
	}
	return &t.t
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
	dtype  tensor.DType
	dims   int // where the first dimension stands in the buffer
	rank   int
	inline bool
	off    int64 // in the file
	size   int64 // in bytes

	shape tableShape // of ConstantNodes
}

// read fills p from the ConstantNode at pos, or says what is wrong with it: the
// error's field is that of the node.
func (p *payload) read(m *Model, pos int) (field string, where int, err error) {
	fields := p.shape.of(m, pos)
	at := pos + int(fields[0]) // required
	at = m.follow(at)
	p.dims, p.rank = at+4, int(m.u32(at))
	dims := m.buf[p.dims:][:4*p.rank]
	elements := int64(1)
	overflow := false
	for ; len(dims) > 0; dims = dims[4:] {
		d := binary.LittleEndian.Uint32(dims)
		if d == 0 { // whatever the others are
			elements, overflow = 0, false
			break
		}
		if overflow {
			continue
		}
		var ok bool
		elements, ok = align.Mul(elements, int64(d))
		overflow = !ok
	}
	if overflow {
		return "data.shape", p.dims, fmt.Errorf("%w: more than 2^63 elements", tensor.ErrMalformed)
	}
	offset := int(fields[4])
	p.inline = offset == 0
	if p.inline {
		return p.readInline(m, pos, elements)
	}
	offset += pos
	rel := m.u64(offset)
	f := int(fields[3])
	if f == 0 {
		return "data.dtype", pos, fmt.Errorf("%w: absent, while the elements are outside of the model", tensor.ErrMalformed)
	}
	f += pos
	dtype := m.u16(f)
	if dtype >= len(dataTypes) {
		return "data.dtype", f, fmt.Errorf("%w: element type %d", errors.ErrUnsupported, dtype)
	}
	p.dtype = dataTypes[dtype]
	if !m.r.v2 {
		return "data.data_offset", offset, fmt.Errorf("%w: a file of version 1 has no tensor data", tensor.ErrMalformed)
	}
	var ok bool
	if p.size, ok = p.dtype.Bytes(elements); !ok {
		return "data.shape", p.dims, fmt.Errorf("%w: more than 2^63 bytes", tensor.ErrMalformed)
	}
	base := m.r.header.TensorOffset
	switch {
	case rel > math.MaxInt64:
		return "data.data_offset", offset, fmt.Errorf("%w: %d is beyond every file", tensor.ErrMalformed, rel)
	case int64(rel) > m.r.size-base || p.size > m.r.size-base-int64(rel):
		return "data.data_offset", offset, fmt.Errorf("%w: %d bytes at %d of the tensor data, which has %d", io.ErrUnexpectedEOF, p.size, rel, m.r.size-base)
	}
	p.off = base + int64(rel)
	return "", 0, nil
}

func (p *payload) readInline(m *Model, pos int, elements int64) (field string, where int, err error) {
	tag := int(m.tag(pos, slotConstantDataType))
	switch {
	case tag == 0:
		return "data.data", pos, fmt.Errorf("%w: a constant without elements, inline or outside", tensor.ErrMalformed)
	case tag >= len(inlineTypes):
		return "data.data_type", m.field(pos, slotConstantDataType), fmt.Errorf("%w: elements of kind %d", errors.ErrUnsupported, tag)
	}
	p.dtype = inlineTypes[tag]
	off, n, first := m.elements(m.child(pos, slotConstantData))
	if n != elements {
		return "data.data.data", first - 4, fmt.Errorf("%w: %d elements where the shape has %d", tensor.ErrMalformed, n, elements)
	}
	p.off = off
	p.size = n * int64(p.dtype.Size())
	return "", 0, nil
}
