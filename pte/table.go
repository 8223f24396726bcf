package pte

import (
	"encoding/binary"
	"iter"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
)

// A table is one of those that flatc generates.
type table interface{ Table() flatbuffers.Table }

// has reports whether a field is stored.
func has(t table, slot int) bool { return fb.FieldPos(t.Table(), slot) != 0 }

// pos is the position of a table in the flatbuffer.
func pos(t table) int { return int(t.Table().Pos) }

// at is the position of a field, that of its table if the field is absent.
func at(t table, slot int) int { return fb.FieldPosOr(t.Table(), slot) }

// dataAt is the position of the first element of a vector or string.
func dataAt(t table, slot int) int { return fb.FieldTarget(t.Table(), slot) + 4 }

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
