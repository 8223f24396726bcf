package numpy

import (
	"io"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// LittleEndian returns the elements of a big-endian array, width bytes each, in
// little-endian order.
func LittleEndian(b tensor.Blob, width int) tensor.Blob {
	return tensor.NewBlob(&swapped{b, int64(width)})
}

type swapped struct {
	b     tensor.Blob
	width int64
}

func (s *swapped) Size() int64           { return s.b.Size() }
func (s *swapped) Bytes() ([]byte, bool) { return nil, false }

func (s *swapped) Stored() tensor.Stored {
	st, _ := s.b.Stored()
	if st.Encoding == "raw" {
		st.Encoding = "big-endian"
	} else {
		st.Encoding += " big-endian"
	}
	return st
}

func (s *swapped) ReadInto(p []byte) error {
	if err := s.b.ReadInto(p); err != nil {
		return err
	}
	le.Swap(p, int(s.width))
	return nil
}

func (s *swapped) ReadAt(p []byte, off int64) (int, error) {
	// Whole elements around the requested bytes.
	from := off / s.width * s.width
	to := min((off+int64(len(p))+s.width-1)/s.width*s.width, s.Size())
	if to < off+int64(len(p)) {
		return 0, io.ErrUnexpectedEOF
	}
	q := make([]byte, to-from)
	if n, err := s.b.ReadAt(q, from); n < len(q) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	le.Swap(q, int(s.width))
	return copy(p, q[off-from:]), nil
}

// Open streams: a digest, where there is one, is checked on the way.
func (s *swapped) Open() (io.ReadCloser, error) {
	r, err := s.b.Open()
	if err != nil {
		return nil, err
	}
	return source.Elements(r, int(s.width), func(p []byte) { le.Swap(p, int(s.width)) }), nil
}
