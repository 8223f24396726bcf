package rten

import (
	"encoding/binary"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// Plausible reports whether a file of that size may be a .rten file, by its first bytes
// alone: false is certain. It takes most other files off the list before [Detect] or
// [NewReader], for which version 1 costs reading the file.
func Plausible(head []byte, size int64) bool {
	if len(head) >= 4 && string(head[:4]) == magic {
		return true
	}
	return plausibleModel(size, true, func(off int64) (uint32, bool) {
		if off > int64(len(head))-4 {
			return 0, false
		}
		return binary.LittleEndian.Uint32(head[off:]), true
	})
}

// plausible is Plausible for version 1 with a few bytes more, so that not all of a
// large file need be read. head is what was read from the start.
func plausible(src *source.Source, head []byte) bool {
	return plausibleModel(src.Size(), false, func(off int64) (uint32, bool) {
		if off <= int64(len(head))-4 {
			return binary.LittleEndian.Uint32(head[off:]), true
		}
		var b [4]byte
		_, err := src.ReadAt(b[:], off)
		return binary.LittleEndian.Uint32(b[:]), err == nil
	})
}

// plausibleModel looks for a root table with a schema_version of 1 and a graph. Where
// at does not know the word at an offset of the file the result is unknown.
func plausibleModel(size int64, unknown bool, at func(off int64) (uint32, bool)) bool {
	if size < 12 || size > maxModel {
		return false
	}
	v, ok := at(0)
	if !ok {
		return unknown
	}
	root := int64(v)
	if root < 4 || root%4 != 0 || root > size-4 {
		return false
	}
	if v, ok = at(root); !ok {
		return unknown
	}
	vtable := root - int64(int32(v))
	if vtable < 0 || vtable%2 != 0 || vtable > size-8 {
		return false
	}
	length, ok := at(vtable)
	if !ok {
		return unknown
	}
	fields, ok := at(vtable + rtenfb.SlotModelSchemaVersion) // and, two bytes on, the graph
	if !ok {
		return unknown
	}
	version, graph := int64(fields&0xffff), fields>>16 // both are required
	if length&0xffff < 8 || length&1 != 0 || version < 4 || graph < 4 || version > size-4-root {
		return false
	}
	if v, ok = at(root + version); !ok {
		return unknown
	}
	return v == schemaVersion
}
