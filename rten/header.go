package rten

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

const (
	magic      = "RTEN"
	headerSize = 32
	version2   = 2
)

// A Header precedes the model in a version 2 file. All fields are in bytes; offsets count
// from the start of the file.
type Header struct {
	ModelOffset  int64
	ModelSize    int64
	TensorOffset int64 // of the tensor data, which goes to the end of the file
}

// parseHeader parses the header of a version 2 file of size bytes. b is its first 32
// bytes, or all of a shorter file.
func parseHeader(b []byte, size int64) (h Header, err error) {
	if len(b) < 8 {
		return h, errs.Truncated(int64(len(b)), "header.version",
			"a header has %d bytes", headerSize)
	}
	if v := binary.LittleEndian.Uint32(b[4:]); v != version2 {
		return h, errs.At(4, "header.version", errors.ErrUnsupported,
			"version %d; 2 is the only one", v)
	}
	if len(b) < headerSize {
		return h, errs.Truncated(int64(len(b)), "header", "a header has %d bytes",
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
			return h, errs.Malformed(f.at, f.name, "%d is beyond every file", v)
		case v < uint64(f.min):
			return h, errs.Malformed(f.at, f.name, "%d is inside the header", v)
		case v > uint64(size):
			return h, errs.Truncated(f.at, f.name, "%d in a file of %d bytes", v, size)
		}
		*f.v = int64(v)
	}
	if h.ModelSize > size-h.ModelOffset {
		return h, errs.Truncated(16, "header.model_data_len",
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

// Plausible reports whether a file of size bytes may be a .rten file, given only its
// first bytes. If it returns false, the file is not one. It is cheap: [Detect] and
// [NewReader] read a version 1 file whole.
func Plausible(head []byte, size int64) bool {
	return hasMagic(head) || plausible(head, nil, size)
}

func hasMagic(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

// plausible reports whether a file may have a root table with a schema_version of 1 and a
// graph. head is the first bytes of the file; other bytes are read from rest. If rest is
// nil, they may be anything.
func plausible(head []byte, rest io.ReaderAt, size int64) bool {
	if size < 12 || size > maxModel {
		return false
	}
	known := true
	word := func(off int64) int64 {
		var b [4]byte
		switch {
		case !known:
		case off <= int64(len(head))-4:
			copy(b[:], head[off:])
		case rest == nil:
			known = false
		default:
			_, err := rest.ReadAt(b[:], off)
			known = err == nil
		}
		return int64(binary.LittleEndian.Uint32(b[:]))
	}
	root := word(0)
	if known && (root < 4 || root%4 != 0 || root > size-4) {
		return false
	}
	vtable := root - int64(int32(word(root)))
	if known && (vtable < 0 || vtable%2 != 0 || vtable > size-8) {
		return false
	}
	length := word(vtable) & 0xffff
	fields := word(vtable + rtenfb.SlotModelSchemaVersion) // and, two bytes on, the graph
	version, graph := fields&0xffff, fields>>16            // both are required
	if known && (length < 8 || length&1 != 0 || version < 4 || graph < 4 ||
		version > size-4-root) {
		return false
	}
	v := word(root + version)
	return v == schemaVersion && known || !known && rest == nil
}
