package npz

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"iter"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// DTypes returns the dtypes that an archive can hold.
func DTypes() []tensor.DType { return numpy.DTypes() }

// ReaderOptions control how a file is read. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses what Warnings lists, and checks the CRC-32 of a member in every way
	// of reading it: otherwise what is borrowed, or read at random, is not checked.
	Strict bool
	// Limits bound what a file may ask for; zero fields mean the defaults.
	Limits tensor.Limits
	// NoMap makes Open read the file instead of mapping it.
	NoMap bool
	// Companion is not used: an archive refers to no other file.
	Companion func(name string) (io.ReaderAt, int64, error)
}

// A Reader is an open archive. It is safe for concurrent use. See package tensor for how
// long what it returns is valid.
type Reader struct {
	src      *source.Source
	archive  *zipfile.Archive
	tensors  []tensor.Tensor
	blobs    []blob
	files    []file // of arrays and blobs, in the order of the archive
	warnings []error
	limits   tensor.Limits
	strict   bool

	once  sync.Once
	table *naming.Table
}

type blob struct {
	name string
	data tensor.Blob
}

// A file is an entry of the directory.
type file struct {
	zip   *zip.File
	name  string // of the array or blob
	index int    // of the array, or -1 less the index of the blob
}

// Detect reports whether a file begins like a zip archive whose first member is an array,
// or is an empty archive.
func Detect(r io.ReaderAt, size int64) bool {
	var b [30]byte
	n, _ := r.ReadAt(b[:min(size, int64(len(b)))], 0)
	switch {
	case bytes.HasPrefix(b[:n], []byte("PK\x05\x06")):
		return n == 22 && size == 22
	case n < len(b) || !bytes.HasPrefix(b[:], []byte("PK\x03\x04")):
		return false
	}
	length := int64(b[26]) | int64(b[27])<<8
	end := make([]byte, len(numpy.Suffix))
	if length < int64(len(end)) || length > size-int64(len(b)) {
		return false
	}
	n, _ = r.ReadAt(end, int64(len(b))+length-int64(len(end)))
	return n == len(end) && string(end) == numpy.Suffix
}

// Open maps the named file and reads its directory and the headers of its arrays.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	o := options(opts)
	return source.OpenAs(name, o.NoMap, o.newReader)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return options(opts).newReader(source.OfBytes(b))
}

// NewReader reads the first size bytes of r, which stays the caller's.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, err
	}
	return options(opts).newReader(src)
}

func options(opts *ReaderOptions) ReaderOptions {
	if opts == nil {
		return ReaderOptions{}
	}
	return *opts
}

func (o ReaderOptions) newReader(src *source.Source) (*Reader, error) {
	limits, err := format.CompleteLimits(o.Limits)
	if err != nil {
		return nil, err
	}
	r := &Reader{src: src, limits: limits, strict: o.Strict}
	if err := r.open(); err != nil {
		return nil, err
	}
	if o.Strict && len(r.warnings) > 0 {
		return nil, r.warnings[0]
	}
	return r, nil
}

// Close releases the file. It may be called twice.
func (r *Reader) Close() error { return r.src.Close() }

// Version returns "": archives have none.
func (r *Reader) Version() string { return "" }

// Size is the size of the file in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// Len is the number of arrays.
func (r *Reader) Len() int { return len(r.tensors) }

// Tensors yields the arrays in the order of the archive.
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for i := range r.tensors {
			if !yield(&r.tensors[i]) {
				return
			}
		}
	}
}

// Tensor returns the array of that name, or nil.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	if i := r.index(name); i >= 0 {
		return &r.tensors[i]
	}
	return nil
}

// index returns the index of the array of that name, or -1.
func (r *Reader) index(name string) int {
	r.once.Do(func() {
		r.table, _ = naming.Build(len(r.tensors), func(i int) string { return r.tensors[i].Name })
	})
	return r.table.Lookup(name)
}

// Blobs yields the members that are not arrays.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(yield func(string, tensor.Blob) bool) {
		for _, b := range r.blobs {
			if !yield(b.name, b.data) {
				return
			}
		}
	}
}

// Attributes yields nothing: archives have none.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(func(string, string) bool) {}
}

// Warnings lists departures that did not prevent reading.
func (r *Reader) Warnings() []error { return r.warnings }

// Verify decodes every member, checks its CRC-32, and that bools are 0 or 1. What all
// members decode to is bounded by Limits.DecodedTotal. opts may be nil.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	for _, w := range r.warnings {
		l.Warn(w)
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	var done, total int64
	limit := format.DecodedTotal(r.limits, r.src.Size())
	for name, m := range r.members() {
		if n := m.data.Size(); n > limit-total {
			return npzError(-1, zipfile.Field(name), tensor.ErrLimit,
				"all members decode to more than %d bytes", limit)
		} else {
			total += n
		}
	}
	buf := make([]byte, 1<<20)
	for name, m := range r.members() {
		_, err := format.ReadBlob(ctx, m.data, m.dtype, buf, func(n int64) {
			if done += n; l.Options.Progress != nil {
				l.Options.Progress(done, total)
			}
		})
		if e := ctx.Err(); e != nil {
			return e
		}
		if err != nil {
			st, _ := m.data.Stored()
			l.Error(&tensor.FormatError{Format: "npz",
				Offset: st.Offset, Field: zipfile.Field(name), Err: err})
		}
		if l.Full() {
			break
		}
	}
	return nil
}

type payload struct {
	data  tensor.Blob
	dtype tensor.DType
}

// members yields arrays and blobs.
func (r *Reader) members() iter.Seq2[string, payload] {
	return func(yield func(string, payload) bool) {
		for i := range r.tensors {
			t := &r.tensors[i]
			if !yield(t.Name, payload{t.Data, t.DType}) {
				return
			}
		}
		for _, b := range r.blobs {
			if !yield(b.name, payload{b.data, tensor.Unknown}) {
				return
			}
		}
	}
}
