package source

import (
	"io"

	"github.com/tensorfile/tensorfile/tensor"
)

// An Extent is a range of a Source that was found to be inside it. It is a small value,
// to be kept in slices; its methods have pointer receivers, so that a Blob can refer to
// an element of such a slice without an allocation. It is a tensor.Source.
type Extent struct {
	s      *Source
	off, n int64
}

// Extent returns the n bytes at off, or an error when they do not are inside the source.
func (s *Source) Extent(off, n int64) (Extent, error) {
	if !s.contains(off, n) {
		return Extent{}, s.outside(off, n)
	}
	return Extent{s: s, off: off, n: n}, nil
}

// Size is the number of bytes.
func (e *Extent) Size() int64 { return e.n }

// Offset is where the bytes begin in the source.
func (e *Extent) Offset() int64 { return e.off }

// Bytes returns the bytes as Source.Bytes does.
func (e *Extent) Bytes() ([]byte, bool) {
	if e.s == nil {
		return []byte{}, true
	}
	return e.s.Bytes(e.off, e.n)
}

// ReadInto fills p, which has the size.
func (e *Extent) ReadInto(p []byte) error { return tensor.ReadFull(e, p) }

// Open streams the bytes.
func (e *Extent) Open() (io.ReadCloser, error) { return tensor.Stream(e), nil }

// Stored says where the bytes are.
func (e *Extent) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: e.off, Size: e.n, Encoding: "raw"}, true
}

// Seekable returns true.
func (e *Extent) Seekable() bool { return true }

// Memory returns the bytes where they are the caller's own memory, never the memory of a
// mapped file.
func (e *Extent) Memory() ([]byte, bool) {
	if e.s != nil && e.s.inFile() {
		return nil, false
	}
	return e.Bytes()
}

// ReadAt fills p from offset off of the extent, as Source.ReadAt does: all of it, or an
// error that wraps io.ErrUnexpectedEOF when the extent has fewer bytes there.
func (e *Extent) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > e.n || int64(len(p)) > e.n-off {
		return 0, (&Source{size: e.n}).outside(off, int64(len(p)))
	}
	if len(p) == 0 {
		return 0, nil
	}
	return e.s.ReadAt(p, e.off+off)
}

// Identity is equal for Extents of the same bytes of the same Source, whether in memory
// or not; nil where there are none.
func (e *Extent) Identity() any {
	if e.n == 0 {
		return nil
	}
	return *e
}
