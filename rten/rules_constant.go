package rten

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// readConstant returns the node as a constant. Open fails with its error.
func (n Node) readConstant() (Constant, error) {
	c := Constant{n: n}
	c.pos = uint32(n.data())
	raw := c.raw()
	t := raw.Table()
	if c.rank = uint32(raw.ShapeLength()); c.rank > 0 {
		c.shape = uint32(fb.FieldTarget(t, rtenfb.SlotConstantNodeShape)) + 4
	}
	elements, ok := c.elements()
	if !ok {
		return c, c.fieldError(tensor.ErrMalformed, rtenfb.SlotConstantNodeShape,
			"more than 2^63 elements")
	}
	// Not by DataOffset and Dtype, whose pointers take memory for each constant.
	if fb.FieldPos(t, rtenfb.SlotConstantNodeDataOffset) != 0 {
		return c, c.readExternal(t, elements)
	}
	return c, c.readInline(elements)
}

// fieldError returns an error of a field of the ConstantNode.
func (c *Constant) fieldError(class error, slot int, format string, args ...any) error {
	t := c.raw().Table()
	pos := fb.FieldPosOr(t, slot)
	if slot == rtenfb.SlotConstantNodeShape {
		pos = fb.FieldTarget(t, slot) + 4 // its first dimension
	}
	name := rtenfb.Schema.Tables[rtenfb.TableConstantNode].FieldName(slot)
	return c.n.fail(class, pos, "data."+name, format, args...)
}

// readExternal checks a constant in the tensor data.
func (c *Constant) readExternal(t flatbuffers.Table, elements int64) error {
	const offset = rtenfb.SlotConstantNodeDataOffset
	r := c.n.m.r
	at := fb.FieldPos(t, rtenfb.SlotConstantNodeDtype)
	if at == 0 {
		return c.fieldError(tensor.ErrMalformed, rtenfb.SlotConstantNodeDtype,
			"absent, while the elements are outside of the model")
	}
	dtype := t.GetUint16(flatbuffers.UOffsetT(at))
	switch {
	case int(dtype) >= len(dataTypes):
		return c.fieldError(errors.ErrUnsupported, rtenfb.SlotConstantNodeDtype, "dtype %d", dtype)
	case r.version == "1":
		return c.fieldError(tensor.ErrMalformed, offset, "a file of version 1 has no tensor data")
	}
	c.dtype = dataTypes[dtype]
	size, ok := c.dtype.Bytes(elements)
	if !ok {
		return c.fieldError(tensor.ErrMalformed, rtenfb.SlotConstantNodeShape,
			"more than 2^63 bytes")
	}
	rel := t.GetUint64Slot(offset, 0)
	base := r.header.TensorOffset
	switch {
	case rel > math.MaxInt64:
		return c.fieldError(tensor.ErrMalformed, offset, "%d is beyond every file", rel)
	case int64(rel) > r.Size()-base || size > r.Size()-base-int64(rel):
		return c.fieldError(io.ErrUnexpectedEOF, offset,
			"%d bytes at %d of the tensor data, which has %d", size, rel, r.Size()-base)
	}
	c.off = base + int64(rel)
	return nil
}

// readInline checks a constant in the flatbuffer.
func (c *Constant) readInline(elements int64) error {
	raw := c.raw()
	c.inline = true
	tag := int(raw.DataType())
	var values flatbuffers.Table
	switch {
	case tag == 0 || !raw.Data(&values):
		return c.fieldError(tensor.ErrMalformed, rtenfb.SlotConstantNodeData,
			"a constant without elements, inline or outside")
	case tag >= len(inlineTypes):
		return c.fieldError(errors.ErrUnsupported, rtenfb.SlotConstantNodeDataType,
			"elements of kind %d", tag)
	}
	t := &inlineTypes[tag]
	c.dtype = t.dtype
	b, _ := fb.FieldBytes(values, t.slot, t.dtype.Size())
	vector := fb.FieldTarget(values, t.slot)
	if n := int64(len(b) / t.dtype.Size()); n != elements {
		return c.n.fail(tensor.ErrMalformed, vector, "data.data.data",
			"%d elements where the shape has %d", n, elements)
	}
	c.off = c.n.m.filePos(vector + 4)
	return nil
}

// constant warns of fields that contradict each other.
func (d *deviations) constant(raw *rtenfb.ConstantNode) {
	t := raw.Table()
	for i, stride := raw.ShapeLength()-1, int64(1); i >= 0; i-- {
		var ok bool
		stride, ok = align.Mul(stride, int64(raw.Shape(i)))
		if !ok { // next to a zero, else Open refused it
			d.noteAt(tensor.ErrMalformed,
				fb.FieldTarget(t, rtenfb.SlotConstantNodeShape)+4, "shape",
				"no elements, but strides beyond 2^63, which RTen refuses")
			break
		}
	}
	external := raw.DataOffset() != nil
	if external && fb.FieldPos(t, rtenfb.SlotConstantNodeData) != 0 {
		d.note(tensor.ErrMalformed, rtenfb.SlotConstantNodeDataOffset,
			"elements both inline and outside of the model; those outside count")
	}
	if dtype := raw.Dtype(); dtype != nil && !external {
		inline := inlineTypes[raw.DataType()].dtype
		if int(*dtype) >= len(dataTypes) || dataTypes[*dtype] != inline {
			d.note(tensor.ErrMalformed, rtenfb.SlotConstantNodeDtype,
				"dtype %d of inline elements that are %v", *dtype, inline)
		}
	}
}

// verifyRanges checks that the parts of the file do not overlap, that bytes between them
// are zero, and that everything can be read.
func (r *Reader) verifyRanges(ctx context.Context, list *format.Findings) error {
	m := r.model
	used := []fileRange{{m.base, m.base + int64(len(m.buf)), -1}}
	if r.version == "2" {
		used = append(used, fileRange{0, headerSize, -1})
	}
	for i := range m.constants {
		if c := m.Constant(i); !c.inline && c.size() > 0 {
			used = append(used, c.bytes(i))
		}
	}
	sortRanges(used)
	var gaps []fileRange
	reach := fileRange{constant: -1} // the range so far that ends last
	for _, x := range used {
		shared := x.off == reach.off && x.end == reach.end && x.constant >= 0 &&
			reach.constant >= 0
		switch {
		case x.off > reach.end:
			gaps = append(gaps, fileRange{reach.end, x.off, -1})
		case x.off < reach.end && !shared:
			// At least one is a constant: Open checked that header and model do not
			// overlap.
			whose, what := x.constant, "the header or the model"
			if whose < 0 {
				whose = reach.constant
			} else if reach.constant >= 0 {
				what = naming.Quote(m.tensorName(reach.constant))
			}
			field := m.Constant(whose).n.path("data.data_offset")
			list.Warn(errs.Malformed(x.off, field, "its bytes overlap the bytes of %s",
				what))
		}
		if x.end > reach.end {
			reach = x
		}
		if list.Full() {
			return nil
		}
	}
	if reach.end < r.Size() {
		gaps = append(gaps, fileRange{reach.end, r.Size(), -1})
	}
	s := format.NewScanner(ctx, "rten", r.src, list)
	structure := list.Options.Depth <= tensor.VerifyStructure
	if s.Total = r.Size(); structure {
		s.Total = 0
		for _, g := range gaps {
			s.Total += g.end - g.off
		}
	}
	for _, g := range gaps {
		hidden, err := s.NonZero(g.off, g.end, "padding")
		switch {
		case err != nil:
			return err
		case hidden >= 0:
			list.Warn(errs.Malformed(hidden, "",
				"bytes that are not zero in the %d at %d, which belong to nothing", g.end-g.off,
				g.off))
		case g.end-g.off > maxGap:
			list.Warn(errs.Malformed(g.off, "", "a hole of %d bytes", g.end-g.off))
		}
	}
	end := int64(0)
	for _, x := range used {
		if structure || list.Full() {
			break
		}
		field := "model"
		if x.constant >= 0 {
			field = m.Constant(x.constant).n.path("")
		}
		if err := s.Read(max(x.off, end), x.end, field, nil); err != nil {
			return err
		}
		end = max(end, x.end)
	}
	return nil
}

// maxGap is the largest gap that alignment explains: no system has pages above 64 KiB.
const maxGap = 64 << 10

// A fileRange is a byte range of the file, and the index of its constant, or -1.
type fileRange struct {
	off, end int64
	constant int
}

// bytes returns the range of the elements. i is the index of the constant.
func (c Constant) bytes(i int) fileRange { return fileRange{c.off, c.off + c.size(), i} }

func sortRanges(list []fileRange) {
	slices.SortFunc(list, func(a, b fileRange) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.end, b.end),
			cmp.Compare(a.constant, b.constant))
	})
}
