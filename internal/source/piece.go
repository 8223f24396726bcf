package source

import (
	"errors"
	"io"
)

// ReadPiece reads from r until p is full or r ends or fails. It returns io.EOF, with
// the bytes before it, where r ends early: unlike io.ReadFull it does not merge that
// with an io.ErrUnexpectedEOF of r, such as a decoder's for a truncated stream.
func ReadPiece(r io.Reader, p []byte) (n int, err error) {
	const maxEmptyReads = 100
	for empty := 0; n < len(p); {
		m, err := r.Read(p[n:])
		if m < 0 || m > len(p)-n {
			return n, errors.New("source: a reader returned an impossible count")
		}
		if n += m; n == len(p) {
			break // an error of a full piece comes back with the next one
		}
		if err != nil {
			return n, err
		}
		if m > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads {
			return n, io.ErrNoProgress
		}
	}
	return n, nil
}

// Elements streams r through f, which changes whole elements of width bytes in place.
// Reading fails with io.ErrUnexpectedEOF if the stream ends within an element.
func Elements(r io.ReadCloser, width int, f func(p []byte)) io.ReadCloser {
	return &elementStream{r: r, width: width, f: f}
}

type elementStream struct {
	r     io.ReadCloser
	width int
	f     func(p []byte)
	buf   []byte
	rest  []byte // of buf, changed and not yet returned
	err   error  // of r, once rest is returned
}

func (s *elementStream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(s.rest) == 0 && s.err == nil {
		if s.buf == nil {
			s.buf = make([]byte, 1<<10*s.width)
		}
		var n int
		n, s.err = ReadPiece(s.r, s.buf)
		whole := n / s.width * s.width
		if s.err == io.EOF && whole < n {
			s.err = io.ErrUnexpectedEOF
		}
		s.rest = s.buf[:whole]
		s.f(s.rest)
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *elementStream) Close() error { return s.r.Close() }
