package tensorfile

import (
	"errors"
	"io"

	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
)

// ErrUnknownFormat is the error for content that is not a tensor file of a format
// that this library knows. It is also tensor.ErrMalformed.
var ErrUnknownFormat error = unknownFormat{}

type unknownFormat struct{}

func (unknownFormat) Error() string { return "not a tensor file of a known format" }
func (unknownFormat) Unwrap() error { return tensor.ErrMalformed }

// Detect returns the format of a file by its content. It reads up to 64 KiB of the
// start, in one read; only a file that looks like a .rten of version 1, which has no
// magic number, is read whole and verified.
//
// The error is [ErrUnknownFormat], or that of r. That a format is detected does not
// mean that the file is sound.
func Detect(r io.ReaderAt, size int64) (Format, error) {
	in := newEdges(r, size)
	f, err := detectMagic(in, size)
	if f != 0 || err != nil {
		return f, err
	}
	if in.plausibleRTen() && rten.Detect(in, size) {
		return RTen, nil
	}
	return 0, in.unknown()
}

// detectMagic returns the format of a file with a magic number, 0 if there is none.
func detectMagic(in *edges, size int64) (Format, error) {
	for f := ZTensor; f < numFormats; f++ {
		if f != RTen && detect(f, in, size) {
			return f, nil
		}
	}
	if in.rtenMagic() {
		return RTen, nil
	}
	return 0, in.err
}

// unknown is the error for a file without a format, or that of its reader.
func (e *edges) unknown() error {
	if e.err != nil {
		return e.err
	}
	return ErrUnknownFormat
}

// plausibleRTen reports whether the file may be a .rten of version 1.
func (e *edges) plausibleRTen() bool {
	e.readHead()
	return rten.Plausible(e.head, e.size)
}

// rtenMagic reports whether the file has the magic number of .rten version 2: nothing
// else is plausible in four bytes.
func (e *edges) rtenMagic() bool {
	e.readHead()
	return len(e.head) >= 4 && rten.Plausible(e.head[:4], 4)
}

// openUnknown detects the format and opens the file. A .rten of version 1 is read once:
// that it can be opened is its detection.
func openUnknown(o Options, in input, e *edges) (*File, error) {
	var err error
	if o.Format, err = detectMagic(e, in.size); err != nil {
		return nil, err
	}
	if o.Format != 0 {
		return open(o, in)
	}
	if !e.plausibleRTen() {
		return nil, e.unknown()
	}
	o.Format = RTen
	f, err := open(o, in)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, e.err) && e.err != nil:
		return nil, err
	case rten.Detect(e, in.size): // opening is stricter than detection
		return nil, err
	}
	return nil, e.unknown()
}
