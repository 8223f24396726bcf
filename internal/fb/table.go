package fb

import (
	"iter"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"
)

// These functions add to the generated accessors, on the tables that they read. The
// buffer must have passed Verify.

// FieldPos returns the position of a field in the buffer, 0 if it is absent.
func FieldPos(t flatbuffers.Table, slot int) int {
	o := t.Offset(flatbuffers.VOffsetT(slot))
	if o == 0 {
		return 0
	}
	return int(t.Pos) + int(o)
}

// FieldPosOr returns the position of a field in the buffer, or of its table if it is
// absent.
func FieldPosOr(t flatbuffers.Table, slot int) int {
	if p := FieldPos(t, slot); p != 0 {
		return p
	}
	return int(t.Pos)
}

// FieldTarget returns the position that a field refers to: of a table, or of the length
// of a vector or string. It is 0 if the field is absent.
func FieldTarget(t flatbuffers.Table, slot int) int {
	p := FieldPos(t, slot)
	if p == 0 {
		return 0
	}
	return int(t.Indirect(flatbuffers.UOffsetT(p)))
}

// FieldTable returns the table that a field refers to, and whether it is there.
func FieldTable(t flatbuffers.Table, slot int) (flatbuffers.Table, bool) {
	p := FieldTarget(t, slot)
	return flatbuffers.Table{Bytes: t.Bytes, Pos: flatbuffers.UOffsetT(p)}, p != 0
}

// FieldBytes returns the bytes of a string, or of a vector of scalars of size bytes, and
// whether it is there. They alias the buffer.
func FieldBytes(t flatbuffers.Table, slot, size int) ([]byte, bool) {
	p := FieldTarget(t, slot)
	if p == 0 {
		return nil, false
	}
	first := p + 4
	end := first + size*int(flatbuffers.GetUOffsetT(t.Bytes[p:]))
	return t.Bytes[first:end:end], true
}

// Each yields the tables of a vector with their indices, given its length and the
// accessor that flatc generates for an element. All share one variable: copy a table to
// keep it.
func Each[T any](n int, at func(*T, int) bool) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		x := new(T)
		for i := range n {
			if at(x, i); !yield(i, x) {
				return
			}
		}
	}
}

// fieldOffsets returns where the offsets of a vector of tables or strings begin, and
// their number, 0 if the vector is absent.
func fieldOffsets(t flatbuffers.Table, slot int) (first, n int) {
	p := FieldTarget(t, slot)
	if p == 0 {
		return 0, 0
	}
	return p + 4, int(flatbuffers.GetUOffsetT(t.Bytes[p:]))
}

// indirect returns the table that the offset at pos leads to.
func indirect(t flatbuffers.Table, pos int) flatbuffers.Table {
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(flatbuffers.UOffsetT(pos))}
}

func vtablePos(t flatbuffers.Table) int {
	return int(t.Pos) - int(flatbuffers.GetSOffsetT(t.Bytes[t.Pos:]))
}

func vtableSize(t flatbuffers.Table) int {
	return int(flatbuffers.GetVOffsetT(t.Bytes[vtablePos(t):]))
}

// A search looks for fields that the schema does not know. Tables may share a vtable, and
// vtables overlap: left bounds how many bytes of them it reads, by what the buffer has.
type search struct{ left int }

func newSearch(buf []byte) search { return search{4 * len(buf)} }

// newer calls found for the fields of a table beyond the fields of its type. A field that
// is too much to read counts as a field.
func (x *search) newer(t flatbuffers.Table, table *Table, found func(pos int, what string)) {
	known := 4
	if n := len(table.Fields); n > 0 {
		known = int(table.Fields[n-1].Slot) + 2
	}
	size := vtableSize(t)
	if size <= known {
		return
	}
	if x.left -= size; x.left < 0 {
		found(int(t.Pos), "a vtable of "+strconv.Itoa(size)+" bytes")
		return
	}
	for slot := known; slot < size; slot += 2 {
		if pos := FieldPos(t, slot); pos != 0 {
			found(min(pos, len(t.Bytes)-1), "field "+strconv.Itoa((slot-4)/2))
		}
	}
}
