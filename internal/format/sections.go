package format

import (
	"context"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Section is a payload, and where it goes.
type Section struct {
	Name string // for errors
	Off  int64  // in the file
	Size int64  // of the data, as it was when the place was chosen
	Data tensor.Blob
}

// WriteSections writes sections, in the order of their offsets, to w, which has at bytes
// of the file so far, with zeros between them and up to end. It returns how long the file
// is then. A source that has another number of bytes than its Size is an error. A method
// Reserve of w is called with the length of the file first.
func WriteSections(ctx context.Context, w io.Writer, at int64, all []Section,
	end int64) (int64, error) {
	if f, ok := w.(interface{ Reserve(bytes int64) }); ok {
		last := Section{}
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		f.Reserve(max(end, last.Off+last.Size))
	}
	w = Until(ctx, w)
	for i := range all {
		p := &all[i]
		var err error
		if at, err = zeros(w, at, p.Off); err != nil {
			return at, err
		}
		n, err := CopyBlob(w, p.Data, p.Size)
		if at += n; err != nil {
			return at, fmt.Errorf("%s: %w", naming.Quote(p.Name), err)
		}
	}
	return zeros(w, at, end)
}

// CopyBlob writes a blob to w. Another number of bytes than size is an error, unless that
// is -1.
func CopyBlob(w io.Writer, b tensor.Blob, size int64) (int64, error) {
	n, err := b.WriteTo(w)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("%w: the source gave %d bytes of %d", io.ErrUnexpectedEOF, n, size)
	}
	return n, err
}

// zeros writes zero bytes from at to end.
func zeros(w io.Writer, at, end int64) (int64, error) {
	var block [4096]byte
	for at < end {
		n, err := w.Write(block[:min(end-at, int64(len(block)))])
		if at += int64(n); err != nil {
			return at, err
		}
	}
	return at, nil
}
