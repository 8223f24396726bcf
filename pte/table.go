package pte

import (
	"encoding/binary"
	"fmt"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A table is a type that flatc generates for a table.
type table interface{ Table() flatbuffers.Table }

// has reports whether a field is stored.
func has(t table, slot int) bool { return fb.FieldPos(t.Table(), slot) != 0 }

// A location is a table or a field, for errors. Its position and its path are computed
// only for an error.
type location struct {
	t       flatbuffers.Table
	table   int    // number in the schema
	path    string // of the table, with %d for each index
	index   [3]int
	slot    int // of a field, 0 for the table itself
	at      int // position in the flatbuffer, 0 for the position of the table or field
	element int // 1 + the index of an element of the field, 0 for none
}

// The paths of the tables of a method.
const (
	planPath        = "execution_plan[%d]"
	valuePath       = planPath + ".values[%d].val"
	delegatePath    = planPath + ".delegates[%d]"
	instructionPath = planPath + ".chains[%d].instructions[%d]"
)

// location returns the location of a table of the method.
func (m Method) location(number int, t table, path string, i, k int) location {
	return location{t: t.Table(), table: number, path: path, index: [3]int{m.index, i, k}}
}

// path returns the path of the value in the program, for errors.
func (v Value) path() string { return fmt.Sprintf(valuePath, v.m.index, v.index) }

// plan returns the location of the method's own table.
func (m Method) plan() location {
	return m.location(ptefb.TableExecutionPlan, &m.t, planPath, 0, 0)
}

// location returns the location of the table Program.
func (r *Reader) location() location { return rootLocation(ptefb.TableProgram, r.root, "", 0) }

// rootLocation returns the location of a table that the table Program refers to: element
// i, if it is in a vector.
func rootLocation(number int, t table, path string, i int) location {
	return location{t: t.Table(), table: number, path: path, index: [3]int{i}}
}

func (s location) field(slot int) location {
	s.slot = slot
	return s
}

// item returns the location of element k, of size bytes, of the vector in the field.
func (s location) item(k, size int) location {
	s = s.inside(k * size)
	s.element = k + 1
	return s
}

// inside returns the location of the vector in the field, at byte off of its elements.
func (s location) inside(off int) location {
	s.at = fb.FieldTarget(s.t, s.slot) + 4 + off
	return s
}

func (s location) pos() int {
	switch {
	case s.at != 0:
		return s.at
	case s.slot != 0:
		return fb.FieldPosOr(s.t, s.slot)
	}
	return int(s.t.Pos)
}

func (s location) String() string {
	indices := []any{s.index[0], s.index[1], s.index[2]}
	text := fmt.Sprintf(s.path, indices[:strings.Count(s.path, "%d")]...)
	if s.slot != 0 {
		text = strings.TrimPrefix(text+"."+ptefb.Schema.Tables[s.table].FieldName(s.slot), ".")
	}
	if s.element > 0 {
		text += fmt.Sprintf("[%d]", s.element-1)
	}
	return text
}

// error returns an error of that class at a location.
func (r *Reader) error(class error, s location, format string, args ...any) error {
	return errs.At(r.at+int64(s.pos()), s.String(), class, format, args...)
}

func (r *Reader) malformed(s location, format string, args ...any) error {
	return r.error(tensor.ErrMalformed, s, format, args...)
}

// int32Field returns an int32, 0 if it is absent.
func int32Field(t flatbuffers.Table, slot int) int32 {
	return t.GetInt32Slot(flatbuffers.VOffsetT(slot), 0)
}

// boolField returns a bool as the runtime reads it: 2 is true, though not for flatc's
// accessor.
func boolField(t flatbuffers.Table, slot int) bool {
	p := fb.FieldPos(t, slot)
	return p != 0 && t.Bytes[p] != 0
}

// u32s and u64s return element i of a vector whose bytes are b.
func u32s(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
func u64s(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

// elements returns the elements of a vector; element decodes one from its size bytes.
func elements[T any](b []byte, size int, element func([]byte) T) []T {
	all := make([]T, len(b)/size)
	for i := range all {
		all[i] = element(b[i*size:])
	}
	return all
}
