package pte

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A table is one of those that flatc generates.
type table interface{ Table() flatbuffers.Table }

// has reports whether a field is stored.
func has(t table, slot int) bool { return fb.FieldPos(t.Table(), slot) != 0 }

// itself stands for a slot where a site is the table and not a field of it.
const itself = 0

// A site is a table, or a field of it, as errors name it. Neither its position nor its
// path is found before there is an error.
type site struct {
	t     flatbuffers.Table
	path  string // of the table, with %d for each index, and what separates it from a field
	index [3]int
	slot  int    // or itself
	name  string // of the field
	at    int    // position, where it is that of an element
}

// The paths of the tables of a method.
const (
	planPath     = "execution_plan[%d]."
	valuePath    = planPath + "values[%d].val."
	delegatePath = planPath + "delegates[%d]."
)

// site returns the site of a table of the method.
func (m Method) site(t table, path string, i, k int) site {
	return site{t: t.Table(), path: path, index: [3]int{m.index, i, k}}
}

// rootSite is the site of the program, or of element i of one of its vectors.
func rootSite(t table, path string, i int) site {
	return site{t: t.Table(), path: path, index: [3]int{i}}
}

func (s site) field(slot int, name string) site {
	s.slot, s.name = slot, name
	return s
}

// named is the table under the name of a field that it lacks.
func (s site) named(name string) site { return s.field(itself, name) }

// element is element k, of size bytes, of the vector in the field.
func (s site) element(k, size int) site {
	s = s.inside(k * size)
	s.name += "[" + strconv.Itoa(k) + "]"
	return s
}

// inside is the vector in the field, at a byte of its elements.
func (s site) inside(off int) site {
	s.at = fb.FieldTarget(s.t, s.slot) + 4 + off
	return s
}

func (s site) pos() int {
	switch {
	case s.at != 0:
		return s.at
	case s.slot != itself:
		return fb.FieldPosOr(s.t, s.slot)
	}
	return int(s.t.Pos)
}

func (s site) String() string {
	indices := []any{s.index[0], s.index[1], s.index[2]}
	return fmt.Sprintf(s.path, indices[:strings.Count(s.path, "%d")]...) + s.name
}

// error is an error of that class about a site.
func (r *Reader) error(class error, s site, format string, args ...any) error {
	return fail(class, r.at+int64(s.pos()), s.String(), format, args...)
}

func (r *Reader) malformed(s site, format string, args ...any) error {
	return r.error(tensor.ErrMalformed, s, format, args...)
}

// int32Field returns a number, 0 for one that is absent.
func int32Field(t flatbuffers.Table, slot int) int32 {
	return t.GetInt32Slot(flatbuffers.VOffsetT(slot), 0)
}

// boolField reads a bool as the runtime does: flatc's accessor takes other bytes than 1
// for false.
func boolField(t flatbuffers.Table, slot int) bool {
	p := fb.FieldPos(t, slot)
	return p != 0 && t.Bytes[p] != 0
}

// u32s and u64s return element i of a vector whose bytes are b.
func u32s(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
func u64s(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

// elements returns what element reads from each size bytes of a vector.
func elements[T any](b []byte, size int, element func([]byte) T) []T {
	all := make([]T, len(b)/size)
	for i := range all {
		all[i] = element(b[i*size:])
	}
	return all
}

// each yields at(0) … at(n-1).
func each[T any](n int, at func(int) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range n {
			if !yield(at(i)) {
				return
			}
		}
	}
}
