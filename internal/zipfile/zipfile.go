// Package zipfile reads the directory of a zip archive and its members. It trusts
// nothing in an archive: duplicate names, and members that share bytes of the
// file, are malformed.
package zipfile

import (
	"archive/zip"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// Options control how an archive is read.
type Options struct {
	Format string // of errors
	Limits tensor.Limits
	// Strict checks the CRC-32 of a member in every way of reading it.
	Strict bool
	// Deduce makes Open find the data of members that are aligned as PyTorch aligns them
	// without reading their local headers, which costs a request each: CheckHeader does.
	Deduce bool
	// Each, where set, is called for each member once its local header was read: what
	// it reads of the member's beginning then takes no request of its own.
	Each func(*Member) error
}

// Error returns an error of the format about the field, at an offset of the file or -1.
func (o Options) Error(off int64, field string, class error, format string, args ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{class}, args...)...)
	return &tensor.FormatError{Format: o.Format, Offset: off, Field: field, Err: err}
}

// Field is how errors name a member.
func Field(name string) string { return "members[" + naming.Quote(name) + "]" }

// An Archive is the directory of an archive.
type Archive struct {
	Members []Member // in the order of the directory
	Data    int64    // bytes of the source up to the end of the last member
	End     int64    // where the end record and its comment end
	start   int64    // where the archive begins in the source
}

// Open reads the directory of the archive that is the size bytes of src at off, and the
// local header of each member.
func Open(src *source.Source, off, size int64, o Options) (*Archive, error) {
	in := &directory{ReaderAt: io.NewSectionReader(src, off, size)}
	z, err := zip.NewReader(in, size)
	if err != nil {
		if _, ok := endRecord(in, size, maxComment); errors.Is(err, zip.ErrFormat) && !ok {
			return nil, o.Error(off+size, "end of central directory",
				io.ErrUnexpectedEOF, "the archive has no end record")
		}
		if errors.Is(err, zip.ErrFormat) || errors.Is(err, zip.ErrAlgorithm) ||
			errors.Is(err, zip.ErrChecksum) {
			return nil, o.Error(-1, "central directory", tensor.ErrMalformed, "%s",
				strings.TrimPrefix(err.Error(), "zip: "))
		}
		return nil, &tensor.FormatError{Format: o.Format, Offset: -1, Field: "central directory",
			Err: err}
	}
	if n := int64(len(z.File)); n > o.Limits.MaxTensors {
		return nil, o.Error(-1, "central directory", tensor.ErrLimit,
			"%d members, the limit is %d",
			n, o.Limits.MaxTensors)
	}
	_, dup := naming.Build(len(z.File), func(i int) string { return z.File[i].Name })
	if dup >= 0 {
		return nil, o.Error(-1, Field(z.File[dup].Name), tensor.ErrMalformed, "duplicate member")
	}
	end, ok := endRecord(in, size, len(z.Comment))
	if !ok { // bytes follow it
		end, _ = endRecord(in, size, maxComment)
	}
	a := &Archive{Members: make([]Member, len(z.File)), End: off + end, start: off}
	for i, f := range z.File {
		a.Members[i] = Member{File: f, src: src, Header: off + in.header(f), options: &o}
		if err := a.Members[i].check(); err != nil {
			return nil, err
		}
	}
	if o.Deduce {
		order := a.sorted()
		for i, m := range order[:max(0, len(order)-1)] {
			m.deduce(off, order[i+1].Header)
		}
	}
	for i := range a.Members {
		if err := a.Members[i].locate(); err != nil {
			return nil, err
		}
		if o.Each != nil {
			if err := o.Each(&a.Members[i]); err != nil {
				return nil, err
			}
		}
	}
	return a, a.disjoint(off, o)
}

const maxComment = 1<<16 - 1

// endRecord returns where the end record (APPNOTE 4.3.16) and its comment end, if no more
// than comment bytes follow the record. It is false where no record is.
func endRecord(in io.ReaderAt, size int64, comment int) (end int64, ok bool) {
	const record = 22
	tail := make([]byte, min(size, int64(record+comment)))
	n, _ := in.ReadAt(tail, size-int64(len(tail)))
	at := bytes.LastIndex(tail[:n], []byte("PK\x05\x06"))
	if at < 0 {
		return size, false
	}
	if n-at < record {
		return size, true
	}
	comment = int(tail[at+record-2]) | int(tail[at+record-1])<<8
	return size - int64(len(tail)) + int64(min(at+record+comment, n)), true
}

// sorted returns the members in the order of the file.
func (a *Archive) sorted() []*Member {
	order := make([]*Member, len(a.Members))
	for i := range a.Members {
		order[i] = &a.Members[i]
	}
	slices.SortFunc(order, func(a, b *Member) int { return cmp.Compare(a.Header, b.Header) })
	return order
}

// disjoint refuses members that share bytes of the file: with them, a small archive would
// decode to any size.
func (a *Archive) disjoint(off int64, o Options) error {
	order := a.sorted()
	a.Data = off
	for i, m := range order {
		if m.Header < a.Data && i > 0 {
			return o.Error(m.Header, Field(m.File.Name), tensor.ErrMalformed,
				"it overlaps the member %s", naming.Quote(order[i-1].File.Name))
		}
		a.Data = m.extent.Offset() + m.extent.Size()
	}
	return nil
}

// maxRatio is what deflate makes of a byte, at most.
const maxRatio = 1032

// check refuses what the directory says of a member that cannot be read.
func (m *Member) check() error {
	f, o := m.File, m.options
	field := Field(f.Name)
	if n := int64(len(f.Name)); n > o.Limits.MaxName {
		return o.Error(-1, field, tensor.ErrLimit, "a name of %d bytes, the limit is %d",
			n, o.Limits.MaxName)
	}
	const encrypted = 1
	stored, size := f.CompressedSize64, f.UncompressedSize64
	switch {
	case f.Flags&encrypted != 0:
		return o.Error(-1, field, errors.ErrUnsupported, "it is encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return o.Error(-1, field, errors.ErrUnsupported, "compression method %d", f.Method)
	case size > math.MaxInt64/2 || stored > math.MaxInt64/2:
		return o.Error(-1, field, tensor.ErrMalformed, "%d bytes", size)
	case f.Method == zip.Deflate && size/maxRatio > stored:
		return o.Error(-1, field, tensor.ErrMalformed,
			"%d bytes, of which %d compressed are too few",
			size, stored)
	case f.Method == zip.Store && size != stored:
		return o.Error(-1, field, tensor.ErrMalformed, "stored, but with two sizes: %d and %d",
			stored, size)
	}
	if o.Strict {
		m.strict = new(checkOnce)
	}
	return nil
}
