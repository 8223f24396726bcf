package rten

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/pieces"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	magic      = "RTEN"
	headerSize = 32
	version2   = 2
)

// A Header precedes the model in a version 2 file. All offsets
// count from the start of the file.
type Header struct {
	ModelOffset  int64
	ModelSize    int64
	TensorOffset int64 // tensor data reaches from here to the end of the file
}

// parseHeader reads the header of a version 2 file of that size; b is its first
// 32 bytes, or all of a shorter file.
func parseHeader(b []byte, size int64) (h Header, err error) {
	if len(b) < 8 {
		return h, fail(io.ErrUnexpectedEOF, int64(len(b)), "header.version",
			"a header has %d bytes", headerSize)
	}
	if v := binary.LittleEndian.Uint32(b[4:]); v != version2 {
		return h, fail(errors.ErrUnsupported, 4, "header.version",
			"version %d; 2 is the only one", v)
	}
	if len(b) < headerSize {
		return h, fail(io.ErrUnexpectedEOF, int64(len(b)), "header", "a header has %d bytes",
			headerSize)
	}
	for _, f := range []struct {
		at   int64
		name string
		v    *int64
		min  int64
	}{
		{8, "header.model_data_offset", &h.ModelOffset, headerSize},
		{16, "header.model_data_len", &h.ModelSize, 0},
		{24, "header.tensor_data_offset", &h.TensorOffset, headerSize},
	} {
		v := binary.LittleEndian.Uint64(b[f.at:])
		switch {
		case v > math.MaxInt64:
			return h, fail(tensor.ErrMalformed, f.at, f.name, "%d is beyond every file", v)
		case v < uint64(f.min):
			return h, fail(tensor.ErrMalformed, f.at, f.name, "%d is inside the header", v)
		case v > uint64(size):
			return h, fail(io.ErrUnexpectedEOF, f.at, f.name, "%d in a file of %d bytes", v, size)
		}
		*f.v = int64(v)
	}
	if h.ModelSize > size-h.ModelOffset {
		return h, fail(io.ErrUnexpectedEOF, 16, "header.model_data_len",
			"%d bytes at %d of a file of %d", h.ModelSize, h.ModelOffset, size)
	}
	return h, nil
}

// append adds the 32 bytes of h to b.
func (h Header) append(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version2)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.ModelOffset))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.ModelSize))
	return binary.LittleEndian.AppendUint64(b, uint64(h.TensorOffset))
}

// piece returns the header as the start of a file.
func (h Header) piece() pieces.Piece {
	return pieceOf(0, tensor.BlobOf(h.append(nil)), "the header")
}

// fail makes the error of a rule that the file breaks at off.
func fail(class error, off int64, field, format string, args ...any) error {
	return &tensor.FormatError{Format: "rten", Offset: off, Field: field,
		Err: fmt.Errorf("%w: %s", class, fmt.Sprintf(format, args...))}
}

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
	known := true
	word := func(off int64) (v int64) {
		x, ok := at(off)
		known = known && ok
		return int64(x)
	}
	root := word(0)
	if !known || root < 4 || root%4 != 0 || root > size-4 {
		return !known && unknown
	}
	vtable := root - int64(int32(word(root)))
	if !known || vtable < 0 || vtable%2 != 0 || vtable > size-8 {
		return !known && unknown
	}
	length := word(vtable) & 0xffff
	fields := word(vtable + rtenfb.SlotModelSchemaVersion) // and, two bytes on, the graph
	version, graph := fields&0xffff, fields>>16            // both are required
	if !known || length < 8 || length&1 != 0 || version < 4 || graph < 4 ||
		version > size-4-root {
		return !known && unknown
	}
	v := word(root + version)
	return !known && unknown || known && v == schemaVersion
}
