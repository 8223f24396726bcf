package rten

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An encoder builds the flatbuffer of a model and plans where the elements of
// its constants go: into the flatbuffer, into the tensor data of a version 2
// file, or, for the larger constants of version 1, behind the flatbuffer's
// other content, so that they can be streamed as well.
type encoder struct {
	b       fb.Builder
	opts    WriterOptions // with its defaults
	tables  int
	deepest int // table below the root, which is 1

	// Places in the tensor data, handed out before anything is encoded: a
	// flatbuffer is built from its end, and files have the order of the nodes.
	placed   map[any]int64 // by what the elements come from
	external []piece
	end      int64 // of the tensor data

	tail  []tailVector // of version 1
	dummy fb.Offset    // what their offsets lead to until the tail has a place
}

// A piece is the elements of a constant at a place in the tensor data.
type piece struct {
	off  int64
	data tensor.Blob
	name string
}

// A tailVector is a vector behind the flatbuffer, and the table whose only
// field refers to it.
type tailVector struct {
	table fb.Offset
	count int64
	piece
}

// tailSize is what makes a constant of version 1 worth streaming.
const tailSize = 4 << 10

func newEncoder(opts WriterOptions) *encoder {
	return &encoder{opts: opts, placed: make(map[any]int64)}
}

// outside reports whether a constant of that many elements goes to the tensor
// data.
func (e *encoder) outside(elements int64) bool {
	return e.opts.Version == 2 && elements > int64(e.opts.InlineElements)
}

// place gives a constant its place in the tensor data, the one that it has if
// key was placed before.
func (e *encoder) place(key any, name string, data tensor.Blob) error {
	if _, ok := e.placed[key]; ok {
		return nil
	}
	off, ok := align.Up(e.end, e.opts.Align)
	if ok {
		e.end, ok = align.Add(off, data.Size())
	}
	if !ok {
		return fmt.Errorf("%w: more than 2^63 bytes of tensor data", tensor.ErrLimit)
	}
	e.placed[key] = off
	e.external = append(e.external, piece{off, data, name})
	return nil
}

// scalar stores a field whatever its default: absence has a meaning of its own
// in this schema.
func (e *encoder) scalar(slot, size int, x uint64) { e.b.Scalar(slot, size, x, ^x) }

// begin and finish enclose a table.
func (e *encoder) begin() { e.b.Begin() }

func (e *encoder) finish() fb.Offset {
	e.tables++
	return e.b.End()
}

func (e *encoder) uint32s(v []int) fb.Offset {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(x)))
	}
	return e.b.Scalars(b, 4, 4)
}

func (e *encoder) shape(s tensor.Shape) fb.Offset {
	b := make([]byte, 0, 4*len(s))
	for _, d := range s {
		b = binary.LittleEndian.AppendUint32(b, uint32(d))
	}
	return e.b.Scalars(b, 4, 4)
}

// constant writes a ConstantNode. key is what place was called with.
func (e *encoder) constant(key any, name string, d tensor.DType, s tensor.Shape, data tensor.Blob) (fb.Offset, error) {
	number, _ := dataTypeNumber(d)
	elements, _ := s.Elements()
	shape := e.shape(s)
	if e.outside(elements) {
		e.begin()
		e.scalar(slotConstantOffset, 8, uint64(e.placed[key]))
		e.b.Ref(slotConstantShape, shape)
		e.scalar(slotConstantDtype, 2, uint64(number))
		return e.finish(), nil
	}
	values, err := e.elements(name, d, elements, data)
	if err != nil {
		return 0, err
	}
	e.begin()
	e.b.Ref(slotConstantShape, shape)
	e.b.Ref(slotConstantData, values)
	e.scalar(slotConstantDtype, 2, uint64(number))
	e.scalar(slotConstantDataType, 1, uint64(inlineTag(d)))
	return e.finish(), nil
}

func inlineTag(d tensor.DType) int {
	for tag, x := range inlineTypes {
		if x == d {
			return tag
		}
	}
	return 0
}

// elements writes FloatData or one of its like.
func (e *encoder) elements(name string, d tensor.DType, count int64, data tensor.Blob) (fb.Offset, error) {
	if e.opts.Version == 1 && data.Size() >= tailSize {
		if e.dummy == 0 {
			e.dummy = e.b.Scalars(nil, 4, 4)
		}
		e.begin()
		e.b.Ref(slotFirst, e.dummy)
		table := e.finish()
		e.tail = append(e.tail, tailVector{table, count, piece{0, data, name}})
		return table, nil
	}
	if data.Size() > maxModel {
		return 0, fmt.Errorf("%w: constant %s takes %d bytes in the model, which is less than 2 GiB", tensor.ErrLimit, tensor.Quote(name), data.Size())
	}
	var b bytes.Buffer // not ReadAll: the stream checks a digest
	if _, err := data.WriteTo(&b); err != nil {
		return 0, fmt.Errorf("rten: constant %s: %w", tensor.Quote(name), err)
	}
	values := e.b.Scalars(b.Bytes(), d.Size(), 4)
	e.begin()
	e.b.Ref(slotFirst, values)
	return e.finish(), nil
}

// RTen's verifier gives up beyond these.
const rtenMaxDepth = 64

// model closes the flatbuffer and says how the file is laid out.
func (e *encoder) model(root fb.Offset) (*layout, error) {
	buf, err := e.b.Finish(root, "")
	if err != nil {
		return nil, fmt.Errorf("%w: the model without the tensor data takes more than 2 GiB", tensor.ErrLimit)
	}
	if e.tables > rtenMaxTables && !e.opts.Unlimited {
		return nil, fmt.Errorf("%w: the model has %d tables, and RTen loads none of more than %d", tensor.ErrLimit, e.tables, rtenMaxTables)
	}
	if e.deepest > rtenMaxDepth {
		return nil, fmt.Errorf("%w: tables nested deeper than RTen loads", tensor.ErrLimit)
	}
	if e.opts.Version == 1 {
		return e.version1(buf)
	}
	return version2Layout([]piece{{0, tensor.BlobOf(buf), "the model"}}, int64(len(buf)), e.external, e.end, e.opts.Align)
}

// version1 puts the large vectors behind the flatbuffer and leads to them the
// offsets that wait.
func (e *encoder) version1(buf []byte) (*layout, error) {
	l := &layout{pieces: []piece{{0, tensor.BlobOf(buf), "the model"}}, size: int64(len(buf))}
	// The last that was encoded is the first in the order of nodes.
	for i := len(e.tail) - 1; i >= 0; i-- {
		t := &e.tail[i]
		at, _ := align.Up(l.size, 4)
		table := int64(len(buf)) - int64(t.table)
		vtable := table - int64(int32(binary.LittleEndian.Uint32(buf[table:])))
		field := table + int64(binary.LittleEndian.Uint16(buf[vtable+slotFirst:]))
		end := at + 4 + t.data.Size()
		if end > maxModel || end < at {
			return nil, fmt.Errorf("%w: a file of version 1 is less than 2 GiB long", tensor.ErrLimit)
		}
		binary.LittleEndian.PutUint32(buf[field:], uint32(at-field))
		l.pieces = append(l.pieces, piece{at, tensor.BlobOf(binary.LittleEndian.AppendUint32(nil, uint32(t.count))), "the model"}, piece{at + 4, t.data, t.name})
		l.size = end
	}
	return l, nil
}

// plan places the constants of a graph under construction.
func (g *GraphBuilder) plan(e *encoder) error {
	for _, n := range g.nodes {
		if n.kind == ConstantNode {
			if elements, _ := n.tensor.Shape.Elements(); e.outside(elements) {
				if err := e.place(n.tensor, n.name, n.tensor.Data); err != nil {
					return err
				}
			}
		}
		for _, sub := range n.attrs.graphs() {
			if err := sub.plan(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *GraphBuilder) encode(e *encoder, depth int) (fb.Offset, error) {
	if e.deepest = max(e.deepest, depth); e.deepest > rtenMaxDepth {
		return 0, fmt.Errorf("%w: graphs nested deeper than RTen loads", tensor.ErrLimit)
	}
	nodes := make([]fb.Offset, len(g.nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		var err error
		if nodes[i], err = g.nodes[i].encode(e, depth+1); err != nil {
			return 0, err
		}
	}
	var captures fb.Offset
	if len(g.captures) > 0 {
		captures = e.uint32s(g.captures)
	}
	outputs := e.uint32s(g.outputs)
	inputs := e.uint32s(g.inputs)
	list := e.b.Offsets(nodes)
	e.begin()
	e.b.Ref(slotGraphCaptures, captures)
	e.b.Ref(slotGraphOutputs, outputs)
	e.b.Ref(slotGraphInputs, inputs)
	e.b.Ref(slotGraphNodes, list)
	return e.finish(), nil
}

func (n *builtNode) encode(e *encoder, depth int) (fb.Offset, error) {
	var data fb.Offset
	var err error
	switch n.kind {
	case ConstantNode:
		elements, _ := n.tensor.Shape.Elements()
		e.deepest = max(e.deepest, depth+1)
		if !e.outside(elements) {
			e.deepest = max(e.deepest, depth+2)
		}
		data, err = e.constant(n.tensor, n.name, n.tensor.DType, n.tensor.Shape, n.tensor.Data)
	case ValueNode:
		e.deepest = max(e.deepest, depth+1)
		if len(n.dims) > 0 {
			e.deepest = max(e.deepest, depth+2)
		}
		data = n.encodeValue(e)
	case OperatorNode:
		data, err = n.encodeOperator(e, depth+1)
	}
	if err != nil {
		return 0, err
	}
	var name fb.Offset
	if n.named {
		name = e.b.String(n.name)
	}
	e.begin()
	e.b.Ref(slotNodeName, name)
	e.b.Ref(slotNodeData, data)
	e.scalar(slotNodeDataType, 1, uint64(n.kind))
	return e.finish(), nil
}

func (n *builtNode) encodeValue(e *encoder) fb.Offset {
	var shape fb.Offset
	if n.dims != nil {
		dims := make([]fb.Offset, len(n.dims))
		for i, d := range n.dims {
			if d.symbolic {
				name := e.b.String(d.name)
				e.begin()
				e.b.Ref(slotDimName, name)
			} else {
				e.begin()
				e.scalar(slotDimValue, 4, uint64(d.size))
			}
			dims[i] = e.finish()
		}
		shape = e.b.Offsets(dims)
	}
	e.begin()
	e.b.Ref(slotValueShape, shape)
	if number, ok := dataTypeNumber(n.dtype); ok {
		e.scalar(slotValueDtype, 1, uint64(number))
	}
	return e.finish()
}

func (n *builtNode) encodeOperator(e *encoder, depth int) (fb.Offset, error) {
	var attrs fb.Offset
	e.deepest = max(e.deepest, depth)
	if n.attrs != nil {
		e.deepest = max(e.deepest, depth+1)
		var err error
		if attrs, err = n.attrs.encode(e, depth+1); err != nil {
			return 0, err
		}
	}
	outputs := e.uint32s(n.outputs)
	inputs := e.uint32s(n.inputs)
	e.begin()
	e.b.Ref(slotOperatorOutputs, outputs)
	e.b.Ref(slotOperatorInputs, inputs)
	if attrs != 0 {
		e.b.Ref(slotOperatorAttrs, attrs)
		e.scalar(slotOperatorAttrsType, 1, uint64(n.attrs.tag))
	}
	e.scalar(slotOperatorType, 1, uint64(n.op))
	return e.finish(), nil
}

func (a *builtAttrs) encode(e *encoder, depth int) (fb.Offset, error) {
	children := make([]fb.Offset, len(a.fields))
	for i := range a.fields {
		f := &a.fields[i]
		var err error
		switch {
		case !f.set:
		case f.graph != nil:
			children[i], err = f.graph.encode(e, depth+1)
		case f.field.typ == isString:
			children[i] = e.b.String(f.text)
		case f.field.typ == isInt32s || f.field.typ == isUint32s:
			children[i] = e.b.Scalars(f.list, 4, 4)
		case f.field.typ == isScalar:
			e.deepest = max(e.deepest, depth+1)
			e.begin()
			e.scalar(slotFirst, 4, uint64(f.bits))
			children[i] = e.finish()
		}
		if err != nil {
			return 0, err
		}
	}
	e.begin()
	for _, width := range [...]int{4, 1} { // large fields first, so that no padding comes between
		for i := range a.fields {
			f := &a.fields[i]
			at := slot(int(f.field.id))
			switch {
			case !f.set || f.field.width() != width:
			case children[i] != 0:
				e.b.Ref(at, children[i])
			default:
				e.scalar(at, width, uint64(f.bits))
			}
			if f.set && width == 1 && f.field.typ == isScalar {
				e.scalar(at-2, 1, uint64(f.kind))
			}
		}
	}
	return e.finish(), nil
}

// width is the size of the field in its table.
func (f *attrField) width() int {
	if f.typ == isBool || f.typ >= isDataType {
		return 1
	}
	return 4
}

// encodeMetadata writes the strings that are set, 0 if there are none.
func encodeMetadata(e *encoder, values *[len(metadataKeys)]*string) fb.Offset {
	var list [len(metadataKeys)]fb.Offset
	any := false
	for i, s := range values {
		if s != nil {
			list[i] = e.b.String(*s)
			any = true
		}
	}
	if !any {
		return 0
	}
	e.begin()
	for i := range list {
		e.b.Ref(slot(i), list[i])
	}
	return e.finish()
}

// encodeModel writes the root table.
func encodeModel(e *encoder, graph, metadata fb.Offset) fb.Offset {
	e.begin()
	e.b.Ref(slotModelMetadata, metadata)
	e.b.Ref(slotModelGraph, graph)
	e.scalar(slotFirst, 4, schemaVersion)
	return e.finish()
}
