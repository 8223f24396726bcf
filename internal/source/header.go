package source

import (
	"errors"
	"fmt"
)

// A Header is the start of a file that came as a stream. Reading the rest of the file
// fails with errors.ErrUnsupported.
type Header []byte

// ReadAt implements io.ReaderAt.
func (h Header) ReadAt(p []byte, off int64) (int, error) {
	if off > int64(len(h)) || len(p) > len(h)-int(off) {
		return 0, fmt.Errorf("%w: data that came as a stream", errors.ErrUnsupported)
	}
	return copy(p, h[off:]), nil
}
