package format

import (
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Section is a payload with its place in a file that is written.
type Section struct {
	Name string // for errors
	Off  int64  // in the file
	Size int64  // of Data when Off was chosen
	Data tensor.Blob
}

// WriteSections writes a file of size bytes: head, then the sections, which are sorted by
// their offsets, with zeros between them. It fails if Data has another number of bytes
// than Size.
func WriteSections(out *Output, head []byte, all []Section, size int64) error {
	w := Begin(out, size)
	if _, err := w.Write(head); err != nil {
		return err
	}
	at := int64(len(head))
	for i := range all {
		p := &all[i]
		err := zeros(w, p.Off-at)
		if err != nil {
			return err
		}
		if _, err := CopyBlob(w, p.Data, p.Size); err != nil {
			return fmt.Errorf("%s: %w", naming.Quote(p.Name), err)
		}
		at = max(at, p.Off+p.Size)
	}
	return zeros(w, size-at)
}

// CopyBlob writes a blob to w, and returns the number of bytes. It fails if that is not
// size, unless size is -1.
func CopyBlob(w io.Writer, b tensor.Blob, size int64) (int64, error) {
	n, err := b.WriteTo(w)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("%w: the source gave %d bytes of %d", io.ErrUnexpectedEOF, n, size)
	}
	return n, err
}

// zeros writes n zero bytes.
func zeros(w io.Writer, n int64) error {
	var block [4096]byte
	for n > 0 {
		k, err := w.Write(block[:min(n, int64(len(block)))])
		if n -= int64(k); err != nil {
			return err
		}
	}
	return nil
}
