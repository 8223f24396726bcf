package pte

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// segmentField changes a number of a segment in the finished file.
func segmentField(i, slot int, v uint64) func([]byte) []byte {
	return func(b []byte) []byte {
		var t ptefb.DataSegment
		ptefb.GetRootAsProgram(b, 0).Segments(&t, i)
		if !has(&t, slot) {
			panic("the field is not stored")
		}
		return put64(b, fb.FieldPosOr(t.Table(), slot), v)
	}
}

// A hostile file has how it is made, and what must be reported of it: by Open, or,
// where it opens nevertheless, by Verify.
type hostile struct {
	name   string
	base   string
	tables func(c crafted)       // changed, or
	bytes  func(b []byte) []byte // of the file
	open   error                 // class of Open's error
	verify error                 // class of Verify's error
	warn   string                // field of a warning, where it is no error
	// runtime is what ExecuTorch 1.5.1 does: "runs", "refuses", "dies" or, if that
	// depends on chance, "any".
	runtime string
}

// hostiles are the files of both tables.
var hostiles = slices.Concat(hostileContainers, hostilePrograms)

func (h hostile) make(t testing.TB) []byte {
	b := base(t, h.base)
	if h.tables != nil {
		b = craft(t, b, h.tables)
	}
	if h.bytes != nil {
		b = h.bytes(b)
	}
	return b
}

var hostileContainers = []hostile{
	{name: "empty", base: "lean", bytes: func(b []byte) []byte { return b[:0] },
		open: io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "seven bytes", base: "lean", bytes: func(b []byte) []byte { return b[:7] },
		open: io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "another format", base: "lean",
		bytes: func(b []byte) []byte { copy(b[4:], "FT01"); return b }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "ET13", base: "lean", bytes: func(b []byte) []byte { copy(b[4:], "ET13"); return b },
		open: errors.ErrUnsupported, runtime: "refuses"},
	{name: "ETxx", base: "lean", bytes: func(b []byte) []byte { copy(b[4:], "ETxx"); return b },
		open: errors.ErrUnsupported, runtime: "refuses"},
	{name: "eh01", base: "lean", bytes: func(b []byte) []byte { copy(b[8:], "eh01"); return b },
		open: errors.ErrUnsupported, runtime: "any"},
	{name: "eh99", base: "lean", bytes: func(b []byte) []byte { copy(b[8:], "eh99"); return b },
		open: errors.ErrUnsupported, runtime: "any"},
	{name: "EH00", base: "lean", bytes: func(b []byte) []byte { copy(b[8:], "EH00"); return b },
		open: tensor.ErrMalformed, runtime: "any"},
	{name: "header length 0", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, 0) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "header length 23", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, 23) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "header length 2^32-1", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, math.MaxUint32) },
		open:  tensor.ErrMalformed, runtime: "runs"},
	{name: "header over the root table", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 12, binary.LittleEndian.Uint32(b)) },
		open:  tensor.ErrMalformed, runtime: "runs"},
	{name: "program size 7", base: "lean", bytes: func(b []byte) []byte { return put64(b, 16, 7) },
		open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "program size beyond the file", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, uint64(len(b))+1) },
		open:  io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "program size 2^31", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, 1<<31) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "program size 2^63", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, 1<<63) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "program size 2^64-1", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, math.MaxUint64) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "program size cuts the flatbuffer", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 16, binary.LittleEndian.Uint64(b[16:])/2) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "base inside the program", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 24, binary.LittleEndian.Uint64(b[16:])-1) },
		open:  tensor.ErrMalformed, runtime: "any"},
	{name: "base 1", base: "lean", bytes: func(b []byte) []byte { return put64(b, 24, 1) },
		open: tensor.ErrMalformed, runtime: "any"},
	{name: "base beyond the file", base: "lean",
		bytes: func(b []byte) []byte { return put64(put64(b, 32, 0), 24, uint64(len(b))+1) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "base and size wrap", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 32, math.MaxUint64-100) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "base wraps", base: "lean",
		bytes: func(b []byte) []byte { return put64(b, 24, math.MaxUint64-7) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "one byte short", base: "lean", bytes: func(b []byte) []byte { return b[:len(b)-1] },
		open: io.ErrUnexpectedEOF, runtime: "refuses"},
	{name: "one byte short behind an old header", base: "generation-0.7.0-conv.pte",
		bytes: func(b []byte) []byte { return b[:len(b)-1] }, open: io.ErrUnexpectedEOF,
		runtime: "refuses"},
	{name: "base 0 with data", base: "lean",
		bytes: func(b []byte) []byte { return put64(put64(b, 24, 0), 32, 0) },
		open:  tensor.ErrMalformed, runtime: "any"},
	{name: "segment offset wraps", base: "lean",
		bytes: segmentField(1, ptefb.SlotDataSegmentOffset, math.MaxUint64-7),
		open:  tensor.ErrMalformed, runtime: "any"},
	{name: "segment size wraps", base: "lean",
		bytes: segmentField(0, ptefb.SlotDataSegmentSize, math.MaxUint64-7),
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "segment offset 2^63", base: "lean",
		bytes: segmentField(1, ptefb.SlotDataSegmentOffset, 1<<63), open: tensor.ErrMalformed,
		runtime: "any"},
	{name: "segment beyond the file", base: "lean",
		bytes: segmentField(2, ptefb.SlotDataSegmentSize, 1<<20), open: tensor.ErrMalformed,
		runtime: "runs"},
	// until it is asked for
	{name: "named data in an empty segment beyond the file", base: "lean", bytes: emptyBeyond(2),
		verify: tensor.ErrMalformed, runtime: "runs"},
	{name: "a delegate's payload in an empty segment beyond the file", base: "rich",
		bytes: emptyBeyond(2), verify: tensor.ErrMalformed, runtime: "refuses"},
	{name: "segment beyond the header's size", base: "lean", bytes: func(b []byte) []byte {
		return append(segmentField(2, ptefb.SlotDataSegmentSize, 20)(b), "0123456789abcdef"...)
	}, warn: "segments[2]", runtime: "runs"},
	{name: "segments overlap", base: "lean",
		bytes: segmentField(2, ptefb.SlotDataSegmentOffset, 8), warn: "segments[2]",
		runtime: "runs"},
	{name: "root 0", base: "lean", bytes: func(b []byte) []byte { return put32(b, 0, 0) },
		open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "root 4 of a headerless file", base: "export-1.5.1-no-weights.pte",
		bytes: func(b []byte) []byte { return put32(b, 0, 4) }, open: tensor.ErrMalformed,
		runtime: "refuses"},
	{name: "root misaligned", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, 0, binary.LittleEndian.Uint32(b)+1) },
		open:  tensor.ErrMalformed, runtime: "refuses"},
	{name: "root 2^31", base: "lean", bytes: func(b []byte) []byte { return put32(b, 0, 1<<31) },
		open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "root at the end", base: "lean",
		bytes: func(b []byte) []byte {
			return put32(b, 0, uint32(binary.LittleEndian.Uint64(b[16:]))-3)
		}, open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "vtable far before", base: "lean",
		bytes: func(b []byte) []byte {
			return put32(b, int(binary.LittleEndian.Uint32(b)), 1<<30)
		}, open: tensor.ErrMalformed, runtime: "refuses"},
	{name: "vtable is the table", base: "lean",
		bytes: func(b []byte) []byte { return put32(b, int(binary.LittleEndian.Uint32(b)), 0) },
		open:  tensor.ErrMalformed, runtime: "any"},
}
