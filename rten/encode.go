package rten

import (
	"encoding/binary"
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An encoder builds the flatbuffer of a model and plans where the elements of
// its constants go: into the flatbuffer, into the tensor data of a version 2
// file, or, for the larger constants of version 1, after the flatbuffer's
// other content, so that they can be streamed as well.
type encoder struct {
	b    fb.Builder
	opts WriterOptions // with its defaults

	// Offsets in the tensor data, assigned before anything is encoded: a
	// flatbuffer is built from its end, and files have the order of the nodes.
	placed   map[any]int64 // by what the elements come from
	external []pieces.Piece
	end      int64 // of the tensor data

	tail  []tailVector // of version 1
	dummy fb.Offset    // what their offsets refer to until the tail has a position
}

// pieceOf returns data as a piece of a file at off.
func pieceOf(off int64, data tensor.Blob, name string) pieces.Piece {
	return pieces.Piece{Name: name, Off: off, Size: data.Size(), Data: data}
}

func modelPiece(off int64, b []byte) pieces.Piece {
	return pieceOf(off, tensor.BlobOf(b), "the model")
}

// A tailVector is a vector after the flatbuffer, and the table whose only
// field refers to it.
type tailVector struct {
	table        fb.Offset
	slot         int
	count        int64
	pieces.Piece // without its place
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

// place assigns a constant its offset in the tensor data, the one that it has if
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
	e.external = append(e.external, pieceOf(off, data, name))
	return nil
}

// scalar stores a field whatever its default: absence has a meaning of its own
// in this schema.
func (e *encoder) scalar(slot, size int, x uint64) { e.b.Scalar(slot, size, x, ^x) }

// int32s is the form of a vector of node indices, or of dimensions.
func int32s[T int | int64](v []T) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func (e *encoder) indices(v []int) fb.Offset { return e.b.Scalars(int32s(v), 4, 4) }

// constant writes a ConstantNode. key is what place was called with.
func (e *encoder) constant(key any, name string, d tensor.DType, s tensor.Shape,
	data tensor.Blob) (fb.Offset, error) {
	number, _ := dataTypeNumber(d)
	elements, _ := s.Elements()
	shape := e.b.Scalars(int32s(s), 4, 4)
	if e.outside(elements) {
		e.b.Begin()
		e.scalar(rtenfb.SlotConstantNodeDataOffset, 8, uint64(e.placed[key]))
		e.b.Ref(rtenfb.SlotConstantNodeShape, shape)
		e.scalar(rtenfb.SlotConstantNodeDtype, 2, uint64(number))
		return e.b.End(), nil
	}
	tag := inlineTag(d)
	values, err := e.elements(name, tag, elements, data)
	if err != nil {
		return 0, err
	}
	e.b.Begin()
	e.b.Ref(rtenfb.SlotConstantNodeShape, shape)
	e.b.Ref(rtenfb.SlotConstantNodeData, values)
	e.scalar(rtenfb.SlotConstantNodeDtype, 2, uint64(number))
	e.scalar(rtenfb.SlotConstantNodeDataType, 1, uint64(tag))
	return e.b.End(), nil
}

// elements writes the member of the union ConstantData with that tag.
func (e *encoder) elements(
	name string, tag int, count int64, data tensor.Blob,
) (fb.Offset, error) {
	t := inlineTypes[tag]
	if e.opts.Version == 1 && data.Size() >= tailSize {
		if e.dummy == 0 {
			e.dummy = e.b.Scalars(nil, 4, 4)
		}
		table := e.only(t.slot, e.dummy)
		e.tail = append(e.tail, tailVector{table, t.slot, count, pieceOf(0, data, name)})
		return table, nil
	}
	if data.Size() > maxModel {
		return 0, fmt.Errorf("%w: constant %s of %d bytes in a model of less than 2 GiB",
			tensor.ErrLimit, quote.Name(name), data.Size())
	}
	b, err := data.ReadAll()
	if err != nil {
		return 0, fmt.Errorf("rten: constant %s: %w", quote.Name(name), err)
	}
	return e.only(t.slot, e.b.Scalars(b, t.dtype.Size(), 4)), nil
}

// only writes a table of one reference.
func (e *encoder) only(slot int, to fb.Offset) fb.Offset {
	e.b.Begin()
	e.b.Ref(slot, to)
	return e.b.End()
}

// model closes the flatbuffer and returns the layout of the file.
func (e *encoder) model(root fb.Offset) (*layout, error) {
	buf, err := e.b.Finish(root, "")
	if err != nil {
		return nil, fmt.Errorf("%w: the model without the tensor data takes more than 2 GiB",
			tensor.ErrLimit)
	}
	if n := e.b.Tables(); n > rtenMaxTables && !e.opts.Unlimited {
		return nil, fmt.Errorf("%w: the model has %d tables, and RTen loads none of more than %d",
			tensor.ErrLimit, n, rtenMaxTables)
	}
	limits := fb.Limits{MaxDepth: rtenMaxDepth}
	err = fb.Verify(buf, &rtenfb.Schema, rtenfb.TableModel, limits)
	if bad := (*fb.Error)(nil); errors.As(err, &bad) && bad.Limit {
		return nil, fmt.Errorf("%w: %s: RTen does not load the model", tensor.ErrLimit, bad.Reason)
	}
	if err != nil {
		return nil, fmt.Errorf("rten: the encoded model: %w", err)
	}
	if e.opts.Version == 1 {
		return e.version1(buf)
	}
	return version2Layout([]pieces.Piece{modelPiece(0, buf)}, int64(len(buf)),
		e.external, e.end, e.opts.Align)
}

// version1 appends the large vectors to the flatbuffer and sets the offsets that wait
// for them.
func (e *encoder) version1(buf []byte) (*layout, error) {
	l := &layout{pieces: []pieces.Piece{modelPiece(0, buf)}, size: int64(len(buf))}
	// The last that was encoded is the first in the order of nodes.
	for i := len(e.tail) - 1; i >= 0; i-- {
		t := &e.tail[i]
		at, _ := align.Up(l.size, 4)
		table := flatbuffers.Table{Bytes: buf, Pos: flatbuffers.UOffsetT(len(buf) - int(t.table))}
		field := fb.FieldPos(table, t.slot)
		end := at + 4 + t.Size
		if end > maxModel || end < at {
			return nil, fmt.Errorf("%w: a file of version 1 is less than 2 GiB long",
				tensor.ErrLimit)
		}
		binary.LittleEndian.PutUint32(buf[field:], uint32(at-int64(field)))
		count := binary.LittleEndian.AppendUint32(nil, uint32(t.count))
		t.Off = at + 4
		l.pieces = append(l.pieces, modelPiece(at, count), t.Piece)
		l.size = end
	}
	return l, nil
}

// encodeMetadata writes the strings that are not nil, by the schema's fields; 0 if there
// are none.
func encodeMetadata(e *encoder, values []*string) fb.Offset {
	list := make([]fb.Offset, len(values))
	empty := true
	for i, s := range values {
		if s != nil {
			list[i] = e.b.String(*s)
			empty = false
		}
	}
	if empty {
		return 0
	}
	e.b.Begin()
	for i, f := range metadataFields() {
		e.b.Ref(int(f.Slot), list[i])
	}
	return e.b.End()
}

// encodeModel writes the root table.
func encodeModel(e *encoder, graph, metadata fb.Offset) fb.Offset {
	e.b.Begin()
	e.b.Ref(rtenfb.SlotModelMetadata, metadata)
	e.b.Ref(rtenfb.SlotModelGraph, graph)
	e.scalar(rtenfb.SlotModelSchemaVersion, 4, schemaVersion)
	return e.b.End()
}
