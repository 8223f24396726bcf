// Package source makes one bounds-checked thing of a mapped file, a file that cannot be
// mapped, a byte slice and an io.ReaderAt. Parsers ask it for metadata, which they own;
// payloads are Extents, which touch nothing until asked.
//
// It is the only user of x/exp/mmap. A mapping brings three dangers that this package
// keeps from everybody else: a read after the mapping is gone ends the process, so does
// a read of a page that someone cut off the file meanwhile, and the mapping goes away
// when the collector finds its handle dead although slices of it live on. Copying reads
// therefore hold a lock against Close and turn faults into errors, and the finalizer is
// cancelled. Slices from Bytes have no such net: they are valid until Close, read-only,
// and the file must not shrink.
package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/memory"
)

// A Source is a file, bytes, or an io.ReaderAt of a known size. It is safe for
// concurrent use.
type Source struct {
	size   int64
	r      io.ReaderAt // where bytes come from; nil when they are in data
	closer io.Closer   // what Close must close; nil when nothing is owned
	under  *Source     // whose data is read, and whose lock counts; nil: its own

	data []byte // the mapping or the caller's bytes; not to be touched once closed
	// held for reading while data is touched, so that Close does not unmap under a copy
	mu     sync.RWMutex
	closed atomic.Bool // set under mu
}

// OfBytes makes a Source of b, which it keeps: b must not change while the Source is in
// use.
func OfBytes(b []byte) *Source {
	if b == nil {
		b = []byte{}
	}
	return &Source{size: int64(len(b)), data: b}
}

// OfReaderAt makes a Source of the first size bytes of r, which the caller closes.
// Results of r that break the contract of io.ReaderAt become errors.
//
// For a mapped Source it makes one that shares the mapping, as long as that is open.
func OfReaderAt(r io.ReaderAt, size int64) (*Source, error) {
	if in := Mapping(r); in != nil && 0 <= size && size <= in.size {
		return &Source{size: size, data: in.data[:size:size], under: in}, nil
	}
	if r == nil {
		return nil, errors.New("source: no reader")
	}
	if size < 0 {
		return nil, fmt.Errorf("source: negative size %d", size)
	}
	return &Source{size: size, r: r}, nil
}

// OfOpen makes a Source of the first size bytes of r, which is open: Close closes c.
func OfOpen(r io.ReaderAt, c io.Closer, size int64) *Source {
	return &Source{size: size, r: r, closer: c}
}

// Mapping returns the mapped Source that r is, or that its method Mapping returns, or
// nil.
func Mapping(r io.ReaderAt) *Source {
	in, _ := r.(*Source)
	if of, ok := r.(interface{ Mapping() *Source }); ok {
		in = of.Mapping()
	}
	if in == nil || !in.Mapped() {
		return nil
	}
	return in
}

// Size is the length in bytes, as it was when the Source was made.
func (s *Source) Size() int64 { return s.size }

// Mapped reports whether the bytes are in memory, so that Bytes can hand them out.
func (s *Source) Mapped() bool { return s.r == nil }

// Close releases what Open acquired, after waiting for the copying reads that run.
// Slices from Bytes are invalid afterwards, and reads fail with fs.ErrClosed. A second
// Close does nothing.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Swap(true) || s.closer == nil {
		return nil
	}
	return s.closer.Close()
}

// ReadAt fills p from offset off: all of it, or an error. A range that is not in the
// source, and a file that has become shorter than it was, even under its mapping, is an
// error that wraps io.ErrUnexpectedEOF; n then counts nothing that should be used.
func (s *Source) ReadAt(p []byte, off int64) (n int, err error) {
	if !s.contains(off, int64(len(p))) {
		return 0, s.outside(off, int64(len(p)))
	}
	if s.r == nil {
		if err := s.copyOut(p, off); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	if s.closed.Load() {
		return 0, fs.ErrClosed
	}
	// No lock from here on: a foreign reader may block for as long as it likes, and
	// Close must not wait for it.
	return readFull(s.r, p, off)
}

// Bytes returns n bytes at off without a copy, or false when they are not in memory,
// not in the source, or not addressable on this machine. See the package comment for
// how long they may be used.
func (s *Source) Bytes(off, n int64) ([]byte, bool) {
	if s.r != nil || !s.contains(off, n) || s.isClosed() {
		return nil, false
	}
	return s.data[off : off+n : off+n], true
}

// firstRead bounds what Metadata allocates before a reader has shown that it has the
// bytes.
const firstRead = 16 << 20

// Metadata returns n bytes at off as a copy that the caller owns, so that what was
// checked cannot change afterwards. A range outside the source is an error before
// anything is allocated; from a reader the copy grows as bytes arrive, 16 MiB at first,
// then by a factor of eight. Files may be sparse: callers compare n with their limit
// first.
func (s *Source) Metadata(off, n int64) ([]byte, error) { return s.grow(nil, off, n) }

// grow returns n bytes at off, of which p has the first.
func (s *Source) grow(p []byte, off, n int64) ([]byte, error) {
	if !s.contains(off, n) {
		return nil, s.outside(off, n)
	}
	if n > math.MaxInt {
		return nil, fmt.Errorf("source: %d bytes at %d do not fit into memory: %w", n, off,
			errors.ErrUnsupported)
	}
	if s.r == nil {
		return s.appendTo(p[:len(p):len(p)], off+int64(len(p)), n-int64(len(p)))
	}
	next := n
	for next > firstRead && next/8 > int64(len(p)) {
		next = (next + 7) / 8
	}
	for {
		grown := make([]byte, next)
		have := int64(copy(grown, p))
		if _, err := s.ReadAt(grown[have:], off+have); err != nil {
			return nil, err
		}
		if p = grown; next == n {
			return p, nil
		}
		next = min(n, 8*next)
	}
}

// Extend returns the first n bytes as Metadata does, of which the caller has head
// already: those are not read again.
func (s *Source) Extend(head []byte, n int64) ([]byte, error) {
	return s.grow(head, 0, n)
}

func (s *Source) contains(off, n int64) bool {
	return off >= 0 && n >= 0 && off <= s.size && n <= s.size-off
}

func (s *Source) outside(off, n int64) error {
	return fmt.Errorf("source: %d bytes at %d are outside of %d: %w", n, off, s.size,
		io.ErrUnexpectedEOF)
}

// appendTo is copyOut into new memory after p, which append does not clear before.
func (s *Source) appendTo(p []byte, off, n int64) (grown []byte, err error) {
	err = s.guarded(func() error {
		grown = append(p, s.data[off:off+n]...)
		return nil
	})
	return grown, err
}

// copyOut copies from memory under the lock, so that a page that has gone becomes an
// error.
func (s *Source) copyOut(p []byte, off int64) error {
	return s.guarded(func() error {
		copy(p, s.data[off:]) // one call: Go's copy is at its best on large pieces
		return nil
	})
}

// Scan calls f with all bytes, without a copy, and returns false without calling it
// when they are not in memory. While f runs, Close waits and a page that has gone is an
// error of Scan, as in ReadAt. Slices that f keeps, and goroutines that f starts,
// have no such protection.
func (s *Source) Scan(f func(all []byte) error) (ok bool, err error) {
	if s.r != nil {
		return false, nil
	}
	return true, s.guarded(func() error { return f(s.data[:len(s.data):len(s.data)]) })
}

// guarded calls f, which touches data, while Close waits and with faults as errors.
func (s *Source) guarded(f func() error) error {
	owner := s
	for owner.under != nil {
		owner = owner.under
	}
	owner.mu.RLock()
	defer owner.mu.RUnlock()
	if s.isClosed() {
		return fs.ErrClosed
	}
	return memory.Guard(s.data, f)
}

// isClosed reports whether s, or a Source whose memory it shares, was closed.
func (s *Source) isClosed() bool {
	return s.closed.Load() || s.under != nil && s.under.isClosed()
}

// inFile reports whether the bytes are mapped: memory that can fault.
func (s *Source) inFile() bool {
	return s.closer != nil || s.under != nil && s.under.inFile()
}

// readFull fills p from r at off, whatever r does short of blocking: short returns
// without an error are continued.
func readFull(r io.ReaderAt, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		m, err := r.ReadAt(p[n:], off+int64(n))
		switch {
		case m < 0 || m > len(p)-n:
			return 0, fmt.Errorf("source: the reader claims %d of %d bytes at %d", m, len(p)-n,
				off+int64(n))
		case n+m == len(p): // whatever err says: io.ReaderAt may return io.EOF with the last byte
		case err == io.EOF:
			return n + m, fmt.Errorf("source: the reader ended at %d: %w", off+int64(n+m),
				io.ErrUnexpectedEOF)
		case err != nil:
			return n + m, fmt.Errorf("source: at %d: %w", off+int64(n+m), err)
		case m == 0:
			return n, fmt.Errorf("source: at %d: %w", off+int64(n), io.ErrNoProgress)
		}
		n += m
	}
	return n, nil
}
