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
	return Change(b, width, "big-endian", func(p []byte) { le.Swap(p, width) })
}

// Change returns the elements of b, width bytes each, as f changes any number of whole
// ones in place. The word is what their encoding is named.
func Change(b tensor.Blob, width int, typeName string, f func(p []byte)) tensor.Blob {
	return tensor.NewBlob(&changed{b: b, width: int64(width), word: typeName, f: f})
}

type changed struct {
	tensor.Computed
	b     tensor.Blob
	width int64
	word  string
	f     func(p []byte)
}

func (s *changed) Size() int64    { return s.b.Size() }
func (s *changed) Seekable() bool { return s.b.Seekable() }

func (s *changed) Stored() (tensor.Stored, bool) {
	st, ok := s.b.Stored()
	if !ok { // not in the file as they are
		return tensor.Stored{Offset: -1, Size: s.Size(), Encoding: s.word}, true
	}
	if st.Encoding == "raw" {
		st.Encoding = s.word
	} else {
		st.Encoding += " " + s.word
	}
	return st, true
}

func (s *changed) ReadInto(p []byte) error {
	if err := s.b.ReadInto(p); err != nil {
		return err
	}
	s.f(p)
	return nil
}

func (s *changed) ReadAt(p []byte, off int64) (int, error) {
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
	s.f(q)
	return copy(p, q[off-from:]), nil
}

// Open streams: a digest, where there is one, is checked on the way.
func (s *changed) Open() (io.ReadCloser, error) {
	r, err := s.b.Open()
	if err != nil {
		return nil, err
	}
	return source.Elements(r, int(s.width), s.f), nil
}
