package rten

import (
	"errors"
	"iter"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// newer says where the model, or its tables of one type, have content that the schema
// does not describe, which a rewriting that moves tables could not keep. It is empty if
// there is none.
func (m *Model) newer(only string) (where string) {
	fb.EachTable(m.buf, &rtenfb.Schema, rtenfb.TableModel, func(v *fb.Visit) bool {
		if only == "" || only == v.Type.Name {
			v.Newer(func(_ int, what string) {
				where = what + " of " + v.Type.Name + " at " + v.Path()
			})
		}
		return where == ""
	})
	return where
}

// departures yields what Open tolerates.
func (m *Model) departures() iter.Seq[error] {
	return func(yield func(error) bool) {
		d := &departures{m: m, inputs: make(map[flatbuffers.UOffsetT]bool), yield: yield}
		for _, id := range m.Graph().Inputs() {
			d.inputs[m.Graph().Node(id).data()] = true
		}
		fb.EachTable(m.buf, &rtenfb.Schema, rtenfb.TableModel, func(v *fb.Visit) bool {
			d.at = v
			d.table()
			return !d.done
		})
	}
}

type departures struct {
	m      *Model
	inputs map[flatbuffers.UOffsetT]bool // ValueNodes that the caller of the model fills
	at     *fb.Visit
	tables int
	yield  func(error) bool
	done   bool
}

// table checks the current table.
func (d *departures) table() {
	v := d.at
	if d.tables++; d.tables == rtenMaxTables+1 {
		d.noteAt(tensor.ErrLimit, int(v.Pos), "",
			"more than %d tables: RTen refuses to load this model", rtenMaxTables)
	}
	v.Newer(func(pos int, what string) {
		d.noteAt(errors.ErrUnsupported, pos, "", "%s of %s is newer than this library",
			what, v.Type.Name)
	})
	switch v.Type.Name {
	case "OperatorNode":
		var raw rtenfb.OperatorNode
		raw.Init(v.Bytes, v.Pos)
		if op := OpType(raw.Type()); !op.Known() {
			d.note(errors.ErrUnsupported, rtenfb.SlotOperatorNodeType,
				"operator %v is newer than this library", op)
		}
	case "ConstantNode":
		var raw rtenfb.ConstantNode
		raw.Init(v.Bytes, v.Pos)
		d.constant(&raw)
	case "ValueNode":
		if d.inputs[v.Pos] {
			var value Value
			value.raw.Init(v.Bytes, v.Pos)
			d.input(value)
		}
	}
}

// note reports a departure of a field of the table at hand.
func (d *departures) note(class error, slot int, format string, args ...any) {
	d.noteAt(class, fb.FieldPosOr(d.at.Table, slot), d.at.Type.FieldName(slot), format,
		args...)
}

// noteAt is note for a position and the words for it.
func (d *departures) noteAt(class error, pos int, field, format string, args ...any) {
	if d.done {
		return
	}
	path := d.at.Path()
	if path != "" && field != "" {
		path += "."
	}
	d.done = !d.yield(d.m.fail(class, pos, path+field, format, args...))
}

// input looks for dimensions of 0 of an input; of another value that may be meant.
func (d *departures) input(v Value) {
	dims, _ := v.Shape()
	for i, dim := range dims {
		if n, fixed := dim.Size(); fixed && n == 0 {
			d.noteAt(tensor.ErrMalformed,
				fb.FieldPos(d.at.Table, rtenfb.SlotValueNodeShape), "shape["+strconv.Itoa(i)+"]",
				"an input of size 0, which rten-convert writes for a size that is not known: "+
					"RTen 0.25 and later accept no other")
		}
	}
}

func (d *departures) constant(raw *rtenfb.ConstantNode) {
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
