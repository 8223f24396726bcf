package ptd

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

const errs = format.Errors("ptd")

const (
	identifier = "FT01" // at byte 4
	magic      = "FH01" // at byte 8
	headerSize = 40     // from the magic to segment_data_size
	headSize   = 64     // what ExecuTorch reads first: it loads no shorter file
)

// A header is the extended header of a file.
type header struct {
	length            uint32 // of the header, from its magic on
	flatbufferOffset  int64  // bytes that were inserted into the FlatBuffer after its first 8
	flatbufferSize    int64  // of the FlatBuffer without what was inserted
	segmentBaseOffset int64  // where segment offsets count from
	segmentDataSize   int64  // from there to the end of the last segment
}

// metadataEnd is the end of the FlatBuffer in the file.
func (h header) metadataEnd() int64 { return h.flatbufferOffset + h.flatbufferSize }

// parseHeader reads the first 64 bytes of a file of that size and checks the header's
// numbers against each other.
func parseHeader(head []byte, size int64, limits tensor.Limits) (header, error) {
	if err := recognise(head); err != nil {
		return header{}, err
	}
	if len(head) < headSize {
		return header{}, errs.Truncated(0, "",
			"a file of %d bytes, shorter than the %d that ExecuTorch reads first", size, headSize)
	}
	var numbers [4]int64
	for i, name := range [...]string{"flatbuffer_offset", "flatbuffer_size", "segment_base_offset",
		"segment_data_size"} {
		at := 16 + 8*i
		n := binary.LittleEndian.Uint64(head[at:])
		if n > 1<<63-1 {
			return header{}, errs.Malformed(int64(at), "header."+name, "%d is beyond any file", n)
		}
		numbers[i] = int64(n)
	}
	h := header{binary.LittleEndian.Uint32(head[12:]), numbers[0], numbers[1], numbers[2],
		numbers[3]}
	switch {
	case h.length < headerSize:
		return h, errs.Malformed(12, "header.length",
			"%d, less than the %d of the first version", h.length, headerSize)
	case h.flatbufferOffset < headerSize:
		return h, errs.Malformed(16, "header.flatbuffer_offset",
			"%d leaves no space for the header", h.flatbufferOffset)
	case int64(h.length) > h.flatbufferOffset:
		return h, errs.Malformed(12, "header.length", "%d, where only %d bytes were inserted",
			h.length, h.flatbufferOffset)
	case h.flatbufferSize < 12:
		return h, errs.Malformed(24, "header.flatbuffer_size", "%d bytes cannot hold a table",
			h.flatbufferSize)
	case h.flatbufferSize > 1<<31-1:
		return h, errs.Limit(24, "header.flatbuffer_size",
			"%d bytes, beyond the 2 GiB of a flatbuffer", h.flatbufferSize)
	case h.flatbufferOffset > size || h.flatbufferSize > size-h.flatbufferOffset:
		return h, errs.Truncated(16, "header.flatbuffer_offset",
			"the flatbuffer, %d bytes with %d inserted, in a file of %d",
			h.flatbufferSize, h.flatbufferOffset, size)
	case h.metadataEnd() > limits.MaxMetadata:
		return h, errs.Limit(24, "header.flatbuffer_size",
			"%d bytes of metadata, the limit is %d", h.metadataEnd(), limits.MaxMetadata)
	case h.segmentDataSize > 1<<63-1-h.segmentBaseOffset:
		return h, errs.Malformed(40, "header.segment_data_size",
			"%d bytes at %d are beyond any file", h.segmentDataSize, h.segmentBaseOffset)
	case h.segmentBaseOffset+h.segmentDataSize > size:
		return h, errs.Truncated(40, "header.segment_data_size",
			"%d bytes of segments at %d in a file of %d", h.segmentDataSize,
			h.segmentBaseOffset, size)
	case h.segmentDataSize > 0 && h.segmentBaseOffset < h.metadataEnd():
		return h, errs.Malformed(32, "header.segment_base_offset",
			"%d, inside of the metadata, which ends at %d", h.segmentBaseOffset, h.metadataEnd())
	}
	return h, nil
}

// recognise returns what a file that begins with head is, when it is not one of ours.
// Fields that are missing at the end of a short head are ignored.
func recognise(head []byte) error {
	at := func(off int) string { return string(head[min(off, len(head)):min(off+4, len(head))]) }
	id, ext := at(4), at(8)
	switch {
	case at(0) == magic:
		return errs.At(0, "header", errors.ErrUnsupported,
			"the header is at byte 0, as in the weeks before ExecuTorch 0.6")
	case id == "ET12":
		return errs.Malformed(4, "identifier", "ET12: this is a program, a .pte")
	case len(id) == 4 && id != identifier && executorch.Generation(id, "FT"):
		return errs.At(4, "identifier", errors.ErrUnsupported,
			"%s is another version of the format than %s", naming.Quote(id), identifier)
	case len(id) < 4 && id != identifier[:len(id)], len(id) == 4 && id != identifier:
		return errs.Malformed(4, "identifier", "%s is not %s", naming.Quote(id), identifier)
	case len(ext) == 4 && ext != magic && executorch.Generation(ext, "FH"):
		return errs.At(8, "header", errors.ErrUnsupported,
			"%s is another version of the header than %s", naming.Quote(ext), magic)
	case ext != magic[:len(ext)]:
		return errs.Malformed(8, "header", "%s is not %s", naming.Quote(ext), magic)
	}
	return nil
}

// Detect reports whether r begins like a .ptd file, of this version or another one that
// Open would name.
func Detect(r io.ReaderAt, size int64) bool {
	var b [12]byte
	head := b[:min(int64(len(b)), max(size, 0))]
	if n, _ := r.ReadAt(head, 0); n < len(head) || n < 8 {
		return false
	}
	if id := string(head[4:8]); string(head[:4]) == magic || id == identifier {
		return true // what is wrong after it, Open says
	} else if !executorch.Generation(id, "FT") || len(head) < 12 {
		return false
	}
	return executorch.Generation(string(head[8:12]), "FH")
}

// putHeader writes the extended header after the first 8 bytes of a spliced FlatBuffer.
func putHeader(metadata []byte, h header) {
	copy(metadata[8:], magic)
	binary.LittleEndian.PutUint32(metadata[12:], h.length)
	for i, n := range [...]int64{h.flatbufferOffset, h.flatbufferSize, h.segmentBaseOffset,
		h.segmentDataSize} {
		binary.LittleEndian.PutUint64(metadata[16+8*i:], uint64(n))
	}
}
