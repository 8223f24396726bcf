package rten

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An encoder builds the flatbuffer of a model. Elements of constants go into the
// flatbuffer, or into the tensor data of version 2. Large constants of version 1 go to
// the end of the flatbuffer, so that they can be streamed.
type encoder struct {
	b    fb.Builder
	opts WriterOptions // with its defaults
	err  error         // the first error, which finish returns

	// Offsets in the tensor data, assigned before anything is encoded: a flatbuffer is
	// built from its end, but tensor data has the order of the nodes.
	placed   map[any]int64 // by the key of place
	external []format.Section
	end      int64 // of the tensor data

	tail  []tailVector // of version 1
	dummy fb.Offset    // a vector that tables refer to until the tail has a position
}

// section returns data as a section of a file at off.
func section(off int64, data tensor.Blob, name string) format.Section {
	return format.Section{Name: name, Off: off, Size: data.Size(), Data: data}
}

func modelSection(off int64, b []byte) format.Section {
	return section(off, tensor.BlobOf(b), "the model")
}

// A tailVector is a vector after the flatbuffer, and the table whose only
// field refers to it.
type tailVector struct {
	table          fb.Offset
	slot           int
	count          int64
	format.Section // without its offset
}

// tailSize is the smallest size in bytes of a constant of version 1 that is streamed.
const tailSize = 4 << 10

// fail records the first error.
func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// outside reports whether a constant of that many elements goes to the tensor data.
func (e *encoder) outside(elements int64) bool {
	return e.opts.Version == "2" && elements > int64(e.opts.InlineElements)
}

// place assigns a constant an offset in the tensor data, unless key already has one.
func (e *encoder) place(key any, name string, data tensor.Blob) {
	if _, ok := e.placed[key]; ok {
		return
	}
	off, ok := align.Up(e.end, e.opts.Alignment)
	if ok {
		e.end, ok = align.Add(off, data.Size())
	}
	if !ok {
		e.fail(errs.New(tensor.ErrLimit, "more than 2^63 bytes of tensor data"))
		return
	}
	e.placed[key] = off
	e.external = append(e.external, section(off, data, name))
}

// int32s returns node indices or dimensions as a vector of the file.
func int32s[T int | int64](v []T) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func (e *encoder) indices(v []int) fb.Offset { return e.b.Scalars(int32s(v), 4, 4) }

// constant writes a ConstantNode. key is the key of place. Scalars are stored even if
// they have their default, as in all tables of a model: absence has a meaning of its own.
func (e *encoder) constant(key any, name string, d tensor.DType, s tensor.Shape,
	data tensor.Blob) fb.Offset {
	n, _ := dataTypeNumber(d)
	number := fb.Stored(rtenfb.SlotConstantNodeDtype, 2, uint64(n))
	elements, _ := s.Elements()
	shape := fb.Ref(rtenfb.SlotConstantNodeShape, e.b.Scalars(int32s(s), 4, 4))
	if e.outside(elements) {
		return e.b.Table(fb.Stored(rtenfb.SlotConstantNodeDataOffset, 8, uint64(e.placed[key])),
			shape, number)
	}
	tag := inlineTag(d)
	values := e.elements(name, tag, elements, data)
	return e.b.Table(shape, fb.Ref(rtenfb.SlotConstantNodeData, values), number,
		fb.Stored(rtenfb.SlotConstantNodeDataType, 1, uint64(tag)))
}

// elements writes the member of the union ConstantData with that tag.
func (e *encoder) elements(name string, tag int, count int64, data tensor.Blob) fb.Offset {
	t := inlineTypes[tag]
	if e.opts.Version == "1" && data.Size() >= tailSize {
		if e.dummy == 0 {
			e.dummy = e.b.Scalars(nil, 4, 4)
		}
		table := e.b.Table(fb.Ref(t.slot, e.dummy))
		e.tail = append(e.tail, tailVector{table, t.slot, count, section(0, data, name)})
		return table
	}
	if data.Size() > maxModel {
		e.fail(errs.New(tensor.ErrLimit, "constant %s of %d bytes in a model of less than 2 GiB",
			naming.Quote(name), data.Size()))
	}
	if e.err != nil {
		return 0
	}
	var b bytes.Buffer // read as a stream, which checks a digest
	if _, err := format.CopyBlob(&b, data, data.Size()); err != nil {
		e.fail(errs.Wrap(-1, format.Field(name), err))
	}
	return e.b.Table(fb.Ref(t.slot, e.b.Scalars(b.Bytes(), t.dtype.Size(), 4)))
}

// metadata writes the strings that are not nil, by the schema's fields; 0 if there are
// none.
func (e *encoder) metadata(values []*string) fb.Offset {
	var fields []fb.Value
	for i, f := range metadataFields() {
		if s := values[i]; s != nil {
			fields = append(fields, fb.Ref(int(f.Slot), e.b.String(*s)))
		}
	}
	if fields == nil {
		return 0
	}
	return e.b.Table(fields...)
}

// model writes the root table.
func (e *encoder) model(graph, metadata fb.Offset) fb.Offset {
	return e.b.Table(fb.Ref(rtenfb.SlotModelMetadata, metadata),
		fb.Ref(rtenfb.SlotModelGraph, graph),
		fb.Stored(rtenfb.SlotModelSchemaVersion, 4, schemaVersion))
}

// finish closes the flatbuffer and returns the sections of the file.
func (e *encoder) finish(root fb.Offset) (*sections, error) {
	if e.err != nil {
		return nil, e.err
	}
	buf, err := e.b.Finish(root, "")
	if err != nil {
		return nil, errs.New(tensor.ErrLimit,
			"the model without the tensor data takes more than 2 GiB")
	}
	if n := e.b.Tables(); n > rtenMaxTables {
		return nil, errs.New(tensor.ErrLimit,
			"the model has %d tables, and RTen loads none of more than %d", n, rtenMaxTables)
	}
	limits := fb.Limits{MaxDepth: rtenMaxDepth}
	err = fb.Verify(buf, &rtenfb.Schema, rtenfb.TableModel, limits)
	if bad := (*fb.Error)(nil); errors.As(err, &bad) && bad.Limit {
		return nil, errs.New(tensor.ErrLimit, "%s: RTen does not load the model", bad.Reason)
	}
	if err != nil {
		return nil, errs.Wrap(-1, "", fmt.Errorf("the encoded model: %w", err))
	}
	if e.opts.Version == "1" {
		return e.version1(buf)
	}
	return e.version2(buf)
}

// version2 puts a header before the flatbuffer, and the tensor data after it.
func (e *encoder) version2(buf []byte) (*sections, error) {
	h := Header{ModelOffset: headerSize, ModelSize: int64(len(buf))}
	l := &sections{list: []format.Section{{}, modelSection(headerSize, buf)}}
	var ok bool
	h.TensorOffset, ok = align.Up(headerSize+h.ModelSize, max(e.opts.Alignment, 64))
	if ok {
		l.size, ok = align.Add(h.TensorOffset, e.end)
	}
	if !ok {
		return nil, errs.New(tensor.ErrLimit, "more than 2^63 bytes")
	}
	l.list[0] = section(0, tensor.BlobOf(h.append(nil)), "the header")
	for _, p := range e.external {
		p.Off += h.TensorOffset
		l.list = append(l.list, p)
	}
	return l, nil
}

// version1 appends the large vectors to the flatbuffer and sets the offsets that refer to
// them.
func (e *encoder) version1(buf []byte) (*sections, error) {
	l := &sections{list: []format.Section{modelSection(0, buf)}, size: int64(len(buf))}
	// Nodes were encoded from the last to the first.
	for i := len(e.tail) - 1; i >= 0; i-- {
		t := &e.tail[i]
		at, _ := align.Up(l.size, 4)
		table := flatbuffers.Table{Bytes: buf, Pos: flatbuffers.UOffsetT(len(buf) - int(t.table))}
		field := fb.FieldPos(table, t.slot)
		end := at + 4 + t.Size
		if end > maxModel || end < at {
			return nil, errs.New(tensor.ErrLimit, "a file of version 1 is less than 2 GiB long")
		}
		binary.LittleEndian.PutUint32(buf[field:], uint32(at-int64(field)))
		count := binary.LittleEndian.AppendUint32(nil, uint32(t.count))
		t.Off = at + 4
		l.list = append(l.list, modelSection(at, count), t.Section)
		l.size = end
	}
	return l, nil
}
