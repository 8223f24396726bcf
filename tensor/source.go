package tensor

import (
	"errors"
	"fmt"
	"io"

	"github.com/tensorfile/tensorfile/internal/align"
)

// inMemory is a Source of bytes that are there.
type inMemory []byte

func (m inMemory) Size() int64            { return int64(len(m)) }
func (m inMemory) Bytes() ([]byte, bool)  { return m[:len(m):len(m)], true }
func (m inMemory) Memory() ([]byte, bool) { return m.Bytes() }
func (m inMemory) Stored() (Stored, bool) { return Stored{}, false }
func (m inMemory) Seekable() bool         { return true }
func (m inMemory) Identity() any          { return nil }

func (m inMemory) ReadInto(p []byte) error      { return ReadFull(m, p) }
func (m inMemory) Open() (io.ReadCloser, error) { return Stream(m), nil }

func (m inMemory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// section is a part of another source.
type section struct {
	src    Source
	off, n int64
}

func (s *section) Size() int64 { return s.n }

func (s *section) Bytes() ([]byte, bool)  { return s.of(s.src.Bytes()) }
func (s *section) Memory() ([]byte, bool) { return s.of(s.src.Memory()) }
func (s *section) Seekable() bool         { return s.src.Seekable() }
func (s *section) Identity() any          { return nil }

func (s *section) ReadInto(p []byte) error      { return ReadFull(s, p) }
func (s *section) Open() (io.ReadCloser, error) { return Stream(s), nil }

// Stored is the place of plain bytes; other bytes have none of their own.
func (s *section) Stored() (Stored, bool) {
	st, ok := s.src.Stored()
	if !ok || st.Encoding != "raw" || st.Offset < 0 || st.Digest != "" {
		return Stored{}, false
	}
	st.Offset, st.Size = st.Offset+s.off, s.n
	return st, true
}

func (s *section) of(p []byte, ok bool) ([]byte, bool) {
	if !ok || !align.Within(s.off, s.n, int64(len(p))) {
		return nil, false
	}
	return p[s.off : s.off+s.n : s.off+s.n], true
}

func (s *section) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > s.n {
		return 0, io.EOF
	}
	short := int64(len(p)) > s.n-off
	if short {
		p = p[:s.n-off]
	}
	n, err := s.src.ReadAt(p, s.off+off)
	if n == len(p) {
		err = nil
		if short {
			err = io.EOF
		}
	}
	return n, err
}

// stream is a Source that can only be read from its start.
type stream struct {
	Computed
	size int64
	open func() (io.ReadCloser, error)
}

func (s *stream) Size() int64 { return s.size }

func (s *stream) Open() (io.ReadCloser, error) {
	r, err := s.open()
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, errors.New("tensor: a BlobFunc opened nothing")
	}
	return &exactly{r, s.size, s.size}, nil
}

func (s *stream) ReadInto(p []byte) error { return readStream(Blob{s}, p) }

func (s *stream) ReadAt(p []byte, off int64) (int, error) {
	r, err := s.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, off); err != nil {
		return 0, err
	}
	n := 0
	// io.ReadFull would hide which io.ErrUnexpectedEOF is the stream's
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// exactly turns a stream that is shorter or longer than promised into an error.
type exactly struct {
	r          io.ReadCloser
	size, left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.size < 0 {
		return e.next(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if e.left == 0 {
		var one [1]byte
		n, err := e.next(one[:])
		if n > 0 {
			return 0, fmt.Errorf("%w: a stream goes on after its %d bytes", ErrMalformed, e.size)
		}
		return 0, err
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.next(p)
	e.left -= int64(n)
	if err == io.EOF {
		if e.left > 0 {
			err = fmt.Errorf("%d bytes of %d: %w", e.size-e.left, e.size, io.ErrUnexpectedEOF)
		} else {
			err = nil // the next Read asks the stream again
		}
	}
	return n, err
}

// next reads at least a byte or fails: a stream that returns neither bytes nor an error
// for ever would keep its reader busy for ever.
func (e *exactly) next(p []byte) (int, error) {
	const maxEmptyReads = 100
	for range maxEmptyReads {
		n, err := e.r.Read(p)
		if n, err = counted(n, len(p), err); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

func (e *exactly) Close() error { return e.r.Close() }

// sectionStream reads a Source from its start.
type sectionStream struct {
	src Source
	off int64
}

func (s *sectionStream) Read(p []byte) (int, error) {
	if size := s.src.Size(); size >= 0 {
		if s.off >= size {
			return 0, io.EOF
		}
		p = p[:min(int64(len(p)), size-s.off)]
		n, err := s.readAt(p)
		if err == io.EOF && s.off < size {
			err = io.ErrUnexpectedEOF
		}
		if n > 0 && err == io.EOF {
			err = nil
		}
		return n, err
	}
	return s.readAt(p)
}

// readAt goes on, if the source does: one that returns neither bytes nor an error would
// be asked for ever.
func (s *sectionStream) readAt(p []byte) (int, error) {
	n, err := s.src.ReadAt(p, s.off)
	n, err = counted(n, len(p), err)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.ErrNoProgress
	}
	s.off += int64(n)
	return n, err
}

// counted refuses counts that no reader may return, before anything is sliced with them.
func counted(n, asked int, err error) (int, error) {
	if n < 0 || n > asked {
		return 0, fmt.Errorf("tensor: the source of a blob claims %d of %d bytes", n, asked)
	}
	return n, err
}
