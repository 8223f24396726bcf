package ptd

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	identifier = "FT01" // at byte 4
	magic      = "FH01" // at byte 8
	headerSize = 40     // from the magic to segment_data_size
	headSize   = 64     // what ExecuTorch reads first: it loads no shorter file
)

// A Header is the extended header of a file, as it stands there.
type Header struct {
	Length            uint32 // of the header, from its magic on
	FlatbufferOffset  int64  // bytes that were inserted into the FlatBuffer after its first 8
	FlatbufferSize    int64  // of the FlatBuffer without what was inserted
	SegmentBaseOffset int64  // where segment offsets count from
	SegmentDataSize   int64  // from there to the end of the last segment
}

// metadataEnd is the end of the FlatBuffer in the file.
func (h Header) metadataEnd() int64 { return h.FlatbufferOffset + h.FlatbufferSize }

// parseHeader reads the first 64 bytes of a file of that size and checks the header's
// numbers against each other.
func parseHeader(head []byte, size int64, limits tensor.Limits) (Header, error) {
	if err := recognise(head); err != nil {
		return Header{}, err
	}
	if len(head) < headSize {
		return Header{}, fail(io.ErrUnexpectedEOF, 0, "",
			"a file of %d bytes, shorter than the %d that ExecuTorch reads first", size, headSize)
	}
	var numbers [4]int64
	for i, name := range [...]string{"flatbuffer_offset", "flatbuffer_size", "segment_base_offset",
		"segment_data_size"} {
		at := 16 + 8*i
		n := binary.LittleEndian.Uint64(head[at:])
		if n > 1<<63-1 {
			return Header{}, malformed(int64(at), "header."+name, "%d is beyond any file", n)
		}
		numbers[i] = int64(n)
	}
	h := Header{binary.LittleEndian.Uint32(head[12:]), numbers[0], numbers[1], numbers[2],
		numbers[3]}
	switch {
	case h.Length < headerSize:
		return h, malformed(12, "header.length",
			"%d, less than the %d of the first version", h.Length, headerSize)
	case h.FlatbufferOffset < headerSize:
		return h, malformed(16, "header.flatbuffer_offset", "%d leaves no space for the header",
			h.FlatbufferOffset)
	case int64(h.Length) > h.FlatbufferOffset:
		return h, malformed(12, "header.length", "%d, where only %d bytes were inserted", h.Length,
			h.FlatbufferOffset)
	case h.FlatbufferSize < 12:
		return h, malformed(24, "header.flatbuffer_size", "%d bytes cannot hold a table",
			h.FlatbufferSize)
	case h.FlatbufferSize > 1<<31-1:
		return h, fail(tensor.ErrLimit, 24, "header.flatbuffer_size",
			"%d bytes, beyond the 2 GiB of a flatbuffer", h.FlatbufferSize)
	case h.FlatbufferOffset > size || h.FlatbufferSize > size-h.FlatbufferOffset:
		return h, fail(io.ErrUnexpectedEOF, 16, "header.flatbuffer_offset",
			"the flatbuffer, %d bytes with %d inserted, in a file of %d",
			h.FlatbufferSize, h.FlatbufferOffset, size)
	case h.metadataEnd() > limits.MaxMetadata:
		return h, fail(tensor.ErrLimit, 24, "header.flatbuffer_size",
			"%d bytes of metadata, the limit is %d", h.metadataEnd(), limits.MaxMetadata)
	case h.SegmentDataSize > 1<<63-1-h.SegmentBaseOffset:
		return h, malformed(40, "header.segment_data_size", "%d bytes at %d are beyond any file",
			h.SegmentDataSize, h.SegmentBaseOffset)
	case h.SegmentBaseOffset+h.SegmentDataSize > size:
		return h, fail(io.ErrUnexpectedEOF, 40, "header.segment_data_size",
			"%d bytes of segments at %d in a file of %d", h.SegmentDataSize,
			h.SegmentBaseOffset, size)
	case h.SegmentDataSize > 0 && h.SegmentBaseOffset < h.metadataEnd():
		return h, malformed(32, "header.segment_base_offset",
			"%d, inside of the metadata, which ends at %d", h.SegmentBaseOffset, h.metadataEnd())
	}
	return h, nil
}

// recognise returns what a file that begins with head is, when it is not one of ours.
// What is missing at the end of a short head is ignored.
func recognise(head []byte) error {
	at := func(off int) string { return string(head[min(off, len(head)):min(off+4, len(head))]) }
	id, ext := at(4), at(8)
	switch {
	case at(0) == magic:
		return fail(errors.ErrUnsupported, 0, "header",
			"the header is at byte 0, as in the weeks before ExecuTorch 0.6")
	case id == "ET12":
		return malformed(4, "identifier", "ET12: this is a program, a .pte")
	case len(id) == 4 && id != identifier && executorch.Generation(id, "FT"):
		return fail(errors.ErrUnsupported, 4, "identifier",
			"%s is another version of the format than %s", naming.Quote(id), identifier)
	case len(id) < 4 && id != identifier[:len(id)], len(id) == 4 && id != identifier:
		return malformed(4, "identifier", "%s is not %s", naming.Quote(id), identifier)
	case len(ext) == 4 && ext != magic && executorch.Generation(ext, "FH"):
		return fail(errors.ErrUnsupported, 8, "header",
			"%s is another version of the header than %s", naming.Quote(ext), magic)
	case ext != magic[:len(ext)]:
		return malformed(8, "header", "%s is not %s", naming.Quote(ext), magic)
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
func putHeader(metadata []byte, h Header) {
	copy(metadata[8:], magic)
	binary.LittleEndian.PutUint32(metadata[12:], h.Length)
	for i, n := range [...]int64{h.FlatbufferOffset, h.FlatbufferSize, h.SegmentBaseOffset,
		h.SegmentDataSize} {
		binary.LittleEndian.PutUint64(metadata[16+8*i:], uint64(n))
	}
}

// fail returns an error at a byte of the file.
func fail(class error, offset int64, field, format string, args ...any) error {
	return executorch.Errorf("ptd", class, offset, field, format, args...)
}

func malformed(offset int64, field, format string, args ...any) error {
	return fail(tensor.ErrMalformed, offset, field, format, args...)
}
