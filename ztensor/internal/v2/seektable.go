package v2

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// The encoding zt.zstd-seekable/1 (§8): independent zstd frames, and then a frame that
// decoders skip, with a table of their sizes.
const (
	seekable     = "zt.zstd-seekable/1"
	maxFrame     = 16 << 20 // decoded
	seekHeader   = "\x5e\x2a\x4d\x18"
	seekMagic    = "\xb1\xea\x92\x8f"
	seekFooter   = 4 + 1 + 4 // number of frames, descriptor, magic
	minSeekTable = 8 + seekFooter
)

// A seekTable lists the frames of a payload.
type seekTable struct {
	list []frame
	size int64 // decoded size of all frames but the last
}

// A frame is an entry of a seek table.
type frame struct {
	off     int64  // within the blob
	stored  uint32 // stored size
	size    uint32 // decoded size
	decoded bool   // the frame was in the cache; frameCache.mu guards it
}

// A frameCodec is the codec of one payload.
type frameCodec struct {
	b     *core.Payload
	cache *frameCache
	once  sync.Once
	table *seekTable
	err   error // of the table
}

// seekTable returns the table, which it reads the first time. stored has all bytes of the
// payload, or is nil.
func (x *frameCodec) seekTable(stored []byte) (*seekTable, error) {
	x.once.Do(func() { x.table, x.err = x.readSeekTable(stored) })
	return x.table, x.err
}

// tableWindow is how many bytes are read at once if the file is not mapped, because a
// read may be a request to a server: they have the table of 8 GiB of data.
const tableWindow = 64 << 10

func (x *frameCodec) readSeekTable(stored []byte) (*seekTable, error) {
	if x.b.DecodedSize > x.b.R.Options.Limits.MaxDecoded {
		return nil, fmt.Errorf("%w: decodes to %d bytes of at most %d", tensor.ErrLimit,
			x.b.DecodedSize, x.b.R.Options.Limits.MaxDecoded)
	}
	if x.b.Length < minSeekTable {
		return nil, badFrames("%d bytes, and a seek table alone has %d", x.b.Length, minSeekTable)
	}
	src, err := x.b.Source()
	if err != nil {
		return nil, err
	}
	n := int64(seekFooter)
	if !src.Mapped() {
		n = min(x.b.Length, tableWindow)
	}
	tail := stored
	if tail == nil {
		if tail, err = src.Metadata(x.b.Offset+x.b.Length-n, n); err != nil {
			return nil, err
		}
	}
	end := tail[len(tail)-seekFooter:]
	n, descriptor := int64(binary.LittleEndian.Uint32(end)), end[4]
	width := int64(8)
	if descriptor&0x80 != 0 {
		width = 12 // with a checksum, which is not needed: frames have one
	}
	size := minSeekTable + n*width
	switch {
	case string(end[5:]) != seekMagic:
		return nil, badFrames("there is no seek table")
	case descriptor&0x7f != 0:
		return nil, badFrames("the seek table's descriptor is 0x%02x", descriptor)
	case size > x.b.Length:
		return nil, badFrames("a seek table of %d frames in %d bytes", n, x.b.Length)
	}
	if size > int64(len(tail)) {
		if tail, err = src.Metadata(x.b.Offset+x.b.Length-size, size); err != nil {
			return nil, err
		}
	}
	return x.entries(tail[int64(len(tail))-size:], n, width)
}

// entries reads a table of n entries.
func (x *frameCodec) entries(table []byte, n, width int64) (*seekTable, error) {
	size := int64(len(table))
	if string(table[:4]) != seekHeader || int64(binary.LittleEndian.Uint32(table[4:])) != size-8 {
		return nil, badFrames("the seek table does not begin where its length says")
	}
	f := &seekTable{list: make([]frame, n)}
	var off, decoded int64
	for i := range f.list {
		e := table[8+int64(i)*width:]
		fr := frame{off: off, stored: binary.LittleEndian.Uint32(e),
			size: binary.LittleEndian.Uint32(e[4:])}
		switch {
		case fr.stored == 0:
			return nil, badFrames("frame %d has no bytes", i)
		case fr.size > maxFrame:
			return nil, badFrames("frame %d decodes to %d bytes of at most %d", i, fr.size,
				maxFrame)
		case i == 0:
			f.size = int64(fr.size)
		case int64(fr.size) > f.size || int64(fr.size) < f.size && int64(i) < n-1 || f.size == 0:
			return nil, badFrames("frame %d decodes to %d bytes, the first to %d", i, fr.size,
				f.size)
		}
		f.list[i] = fr
		off += int64(fr.stored)
		decoded += int64(fr.size)
	}
	switch {
	case off != x.b.Length-size:
		return nil, badFrames("frames of %d bytes in %d", off, x.b.Length-size)
	case decoded != x.b.DecodedSize:
		return nil, badFrames("frames of %d decoded bytes, decoded_length says %d", decoded,
			x.b.DecodedSize)
	}
	return f, nil
}

// checkFrame requires that b is exactly one zstd frame, that it has a checksum, and that
// its blocks can decode to size bytes.
func checkFrame(b []byte, size int) error {
	var h zstd.Header
	if err := h.Decode(b); err != nil || h.Skippable {
		return badFrames("no zstd frame")
	}
	if !h.HasCheckSum {
		return badFrames("a frame without a checksum")
	}
	at, capacity := h.HeaderSize, 0
	for last := false; !last; {
		if len(b)-at < 3 {
			return badFrames("a frame ends within a block")
		}
		h := int(b[at]) | int(b[at+1])<<8 | int(b[at+2])<<16
		last = h&1 != 0
		n := h >> 3
		if h>>1&3 == 1 {
			n = 1 // repeated
		}
		capacity += 128 << 10
		if at += 3; len(b)-at < n {
			return badFrames("a frame ends within a block")
		}
		at += n
	}
	if at+4 != len(b) {
		return badFrames("%d bytes after a frame", len(b)-at-4)
	}
	if capacity < size {
		return badFrames("blocks for at most %d of %d bytes", capacity, size)
	}
	return nil
}

func badFrames(format string, args ...any) error {
	return rule.Broken(rule.Encoding, format, args...)
}
