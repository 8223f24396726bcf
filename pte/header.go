package pte

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// headBytes is the number of bytes that the runtime reads first. It refuses shorter
// files.
const headBytes = 64

// A Header is the extended header, which a program has if segments follow its flatbuffer.
// All fields are in bytes. Offsets count from the first byte of the program, which in a
// .bpte is not the first byte of the file.
type Header struct {
	// Length is the size of the header: 24 until ExecuTorch 0.7, 32 since 1.0, 0 for no
	// header.
	Length int64
	// ProgramSize is the size of the flatbuffer, header included.
	ProgramSize int64
	// SegmentBase is the offset from which the offsets of segments count; 0 if there are
	// no segments.
	SegmentBase int64
	// SegmentDataSize is the size of all segments from SegmentBase on; 0 in an old
	// header.
	SegmentDataSize int64
}

// identify reads the first bytes of a program and reports whether it is a bundle.
func identify(head []byte, at int64) (bundle bool, err error) {
	if len(head) < 8 {
		return false, errs.At(at, "", io.ErrUnexpectedEOF,
			"%d bytes are too few for a program", len(head))
	}
	switch id := string(head[4:8]); {
	case id == "ET12":
		return false, nil
	case id == "BP08":
		return true, nil
	case executorch.Generation(id, "ET") || executorch.Generation(id, "BP"):
		return false, errs.At(at+4, "file_identifier", errors.ErrUnsupported,
			"%s is another generation of the format than ET12", naming.Quote(id))
	default:
		return false, errs.Malformed(at+4, "file_identifier", "%s is not ET12", naming.Quote(id))
	}
}

// parseHeader reads the extended header from the first bytes of a program of size bytes
// that begins at byte at of the file. It makes the checks that need no flatbuffer. A
// program without a header is all flatbuffer. An unknown version is an error: the runtime
// ignores such a header, and reads weights from the wrong place.
func parseHeader(head []byte, at, size int64) (Header, error) {
	none := Header{ProgramSize: size}
	if len(head) < 12 || string(head[8:10]) != "eh" {
		return none, nil
	}
	refuse := func(class error, off int64, field, format string, args ...any) (Header, error) {
		return none, errs.At(at+off, "extended_header"+field, class, format, args...)
	}
	if v := string(head[10:12]); v != "00" {
		if strings.Trim(v, "0123456789") == "" {
			return refuse(errors.ErrUnsupported, 8, ".magic", "version %s", v)
		}
		return refuse(tensor.ErrMalformed, 8, ".magic", "%s is not eh00",
			naming.Quote(string(head[8:12])))
	}
	const cut = "the file ends inside it"
	if len(head) < 32 {
		return refuse(io.ErrUnexpectedEOF, 8, "", cut)
	}
	length := int64(binary.LittleEndian.Uint32(head[12:]))
	program, base, data := u64s(head, 2), u64s(head, 3), uint64(0)
	switch {
	case length < 24:
		return refuse(tensor.ErrMalformed, 12, ".length",
			"%d bytes are fewer than the 24 of the first version", length)
	case length >= headerLength && len(head) < 40:
		return refuse(io.ErrUnexpectedEOF, 8, "", cut)
	case length >= headerLength:
		data = u64s(head, 4)
	}
	const inProgram, inBase = ".program_size", ".segment_base_offset"
	switch {
	case program < 8 || program >= 1<<31:
		return refuse(tensor.ErrMalformed, 16, inProgram, "%d bytes are not a flatbuffer", program)
	case program > uint64(size):
		return refuse(io.ErrUnexpectedEOF, 16, inProgram, "%d bytes, but the file has %d", program,
			size)
	case length > int64(program)-8:
		return refuse(tensor.ErrMalformed, 12, ".length",
			"%d bytes leave nothing of a program of %d", length, program)
	case base != 0 && base < program:
		return refuse(tensor.ErrMalformed, 24, inBase, "%d is inside the program of %d bytes",
			base, program)
	case base > 1<<63-1 || data > 1<<63-1-base:
		return refuse(tensor.ErrMalformed, 24, inBase, "%d and segment_data_size %d overflow",
			base, data)
	case data > 0 && base+data > uint64(size):
		return refuse(io.ErrUnexpectedEOF, 32, ".segment_data_size",
			"%d bytes from %d on, but the file has %d", data, base, size)
	case base > uint64(size):
		return refuse(tensor.ErrMalformed, 24, inBase, "%d is beyond the file's %d bytes", base,
			size)
	}
	return Header{length, int64(program), int64(base), int64(data)}, nil
}

// put writes the header into the first bytes of a program.
func (h Header) put(head []byte) {
	copy(head[8:], "eh00")
	binary.LittleEndian.PutUint32(head[12:], uint32(h.Length))
	binary.LittleEndian.PutUint64(head[16:], uint64(h.ProgramSize))
	binary.LittleEndian.PutUint64(head[24:], uint64(h.SegmentBase))
	if h.Length >= headerLength {
		binary.LittleEndian.PutUint64(head[32:], uint64(h.SegmentDataSize))
	}
}

// checkRoot refuses a root table inside the identifier or the extended header.
func checkRoot(buf []byte, h Header, at int64) error {
	root := binary.LittleEndian.Uint32(buf)
	if h.Length > 0 && int64(root) < 8+h.Length {
		return errs.Malformed(at, "root",
			"table at %d inside the extended header, which ends at %d", root, 8+h.Length)
	}
	if root < 8 {
		return errs.Malformed(at, "root", "table at %d inside the file identifier", root)
	}
	return nil
}
