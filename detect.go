package tensorfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/tensor"
)

// ErrUnknownFormat is the error for content that is no tensor file of a kind
// that this library knows. It is also tensor.ErrMalformed.
var ErrUnknownFormat = fmt.Errorf("%w: not a tensor file of a known format", tensor.ErrMalformed)

// Detect tells the format of a file from its content. It reads a few bytes at
// the start and at the end; only a file that looks like a .rten of version 1,
// which has no magic number, costs a full verification of its metadata.
//
// The error is [ErrUnknownFormat], or what r answered. That a format is detected
// does not mean that the file is sound.
func Detect(r io.ReaderAt, size int64) (Format, error) {
	return detectWith(r, size, func(in io.ReaderAt) bool { return detect(RTen, in, size) })
}

// detectWith asks rten for the one format that takes more than a few bytes.
func detectWith(r io.ReaderAt, size int64, isRTen func(in io.ReaderAt) bool) (Format, error) {
	in := &noting{r: r}
	for f := ZTensor; f < numFormats; f++ {
		if f != RTen && detect(f, in, size) {
			return f, nil
		}
	}
	if isRTen(in) { // last: looking for a version 1 reads here and there
		return RTen, nil
	}
	if in.err != nil {
		return 0, in.err
	}
	return 0, ErrUnknownFormat
}

// noting remembers a reader's own error, so that a failing disk is not taken for
// a file of an unknown format.
type noting struct {
	r   io.ReaderAt
	err error
}

func (n *noting) ReadAt(p []byte, off int64) (int, error) {
	k, err := n.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) && n.err == nil {
		n.err = err
	}
	return k, err
}
