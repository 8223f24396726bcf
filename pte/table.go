package pte

import (
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
