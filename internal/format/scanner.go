package format

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Scanner reads ranges of a file piece by piece, into one buffer.
type Scanner struct {
	Format      string // of the file, for findings
	Found       *Findings
	Done, Total int64 // bytes, for Options.Progress; without a Total there is none

	ctx context.Context
	src *source.Source
	buf []byte
}

// NewScanner returns a Scanner that reports to found.
func NewScanner(ctx context.Context, format string, src *source.Source, found *Findings) *Scanner {
	return &Scanner{Format: format, Found: found, ctx: ctx, src: src}
}

// Read reads the bytes from off to end until look, if it is not nil, returns false. A
// file that has become shorter is a finding about field; other errors end the Verify.
func (s *Scanner) Read(off, end int64, field string, look func(off int64, b []byte) bool) error {
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
		if look != nil && !look(off, p) {
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

// Zero reads the bytes from off to end and returns where the first is that is not zero,
// -1 for none.
func (s *Scanner) Zero(off, end int64, field string) (at int64, err error) {
	at = -1
	err = s.Read(off, end, field, func(off int64, b []byte) bool {
		if i := slices.IndexFunc(b, func(c byte) bool { return c != 0 }); i >= 0 {
			at = off + int64(i)
		}
		return at < 0
	})
	return at, err
}
