package source

import (
	"errors"
	"fmt"
)

// OfHeader makes a Source of a file of size bytes that came as a stream, of which head
// is kept: what follows cannot be read, which is errors.ErrUnsupported.
func OfHeader(head []byte, size int64) (*Source, error) {
	return OfReaderAt(header(head), size)
}

type header []byte

func (h header) ReadAt(p []byte, off int64) (int, error) {
	if off > int64(len(h)) || len(p) > len(h)-int(off) {
		return 0, fmt.Errorf("%w: data that came as a stream", errors.ErrUnsupported)
	}
	return copy(p, h[off:]), nil
}
