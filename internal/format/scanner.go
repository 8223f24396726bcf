package format

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Scanner reads ranges of a file in pieces of at most 1 MiB, for Verify.
type Scanner struct {
	Format      string // of the file, for findings
	Found       *Findings
	Done, Total int64 // bytes, for Options.Progress; if Total is 0, it is not called

	ctx context.Context
	src *source.Source
	buf []byte
}

// NewScanner returns a Scanner that reports to found.
func NewScanner(ctx context.Context, format string, src *source.Source, found *Findings) *Scanner {
	return &Scanner{Format: format, Found: found, ctx: ctx, src: src}
}

// Read reads the bytes from off to end, and calls visit, if it is not nil, with each
// piece until it returns false. If the file has become shorter, Read adds a finding about
// field; it returns other errors.
func (s *Scanner) Read(off, end int64, field string, visit func(off int64, b []byte) bool) error {
	for off < end {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		n := int(min(1<<20, end-off))
		s.buf = slices.Grow(s.buf[:0], n)
		p := s.buf[:n]
		if _, err := s.src.ReadAt(p, off); errors.Is(err, io.ErrUnexpectedEOF) {
			s.Found.Error(&tensor.FormatError{Format: s.Format, Offset: off,
				Field: field, Err: err})
			return nil
		} else if err != nil {
			return err
		}
		if visit != nil && !visit(off, p) {
			return nil
		}
		if off += int64(len(p)); s.Total == 0 {
			continue
		}
		s.Done += int64(len(p))
		if s.Found.Options.Progress != nil {
			s.Found.Options.Progress(s.Done, s.Total)
		}
	}
	return nil
}

// NonZero returns the offset of the first byte from off to end that is not zero, -1 if
// there is none.
func (s *Scanner) NonZero(off, end int64, field string) (at int64, err error) {
	at = -1
	err = s.Read(off, end, field, func(off int64, b []byte) bool {
		if i := slices.IndexFunc(b, func(c byte) bool { return c != 0 }); i >= 0 {
			at = off + int64(i)
		}
		return at < 0
	})
	return at, err
}
