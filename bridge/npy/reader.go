package npy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// arrayName is what the one array of a .npy file is called.
const arrayName = "data"

// suffix is what members of an archive are called after.
const suffix = ".npy"

// ReaderOptions control how a file is read. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses what Warnings lists, and checks the CRC of a member in every way of
	// reading it.
	Strict bool
	// Limits bound what a file may ask for; zero fields mean the defaults.
	Limits tensor.Limits
	// NoMap makes Open read the file instead of mapping it.
	NoMap bool
	// Companion is not used: neither form refers to other files.
	Companion func(name string) (io.ReaderAt, int64, error)
}

// A Reader is an open array or archive. It is safe for concurrent use. See
// package tensor for how long what it hands out is valid.
type Reader struct {
	src      *source.Source
	tensors  []tensor.Tensor
	blobs    []blob
	version  string
	archive  bool
	warnings []error
	limits   tensor.Limits
	strict   bool

	once  sync.Once
	table *names.Table
}

type blob struct {
	name string
	data tensor.Blob
}

// Detect reports whether a file begins like a single array.
func Detect(r io.ReaderAt, size int64) bool {
	var b [len(magic)]byte
	n, _ := r.ReadAt(b[:], 0)
	return size >= int64(len(b)) && n == len(b) && string(b[:]) == magic
}

// DetectArchive reports whether a file begins like a zip archive whose first
// member is an array, or is an empty archive.
func DetectArchive(r io.ReaderAt, size int64) bool {
	var b [30]byte
	n, _ := r.ReadAt(b[:min(size, int64(len(b)))], 0)
	switch {
	case bytes.HasPrefix(b[:n], []byte("PK\x05\x06")):
		return n == 22 && size == 22
	case n < len(b) || !bytes.HasPrefix(b[:], []byte("PK\x03\x04")):
		return false
	}
	length := int64(b[26]) | int64(b[27])<<8
	end := make([]byte, len(suffix))
	if length < int64(len(end)) || length > size-int64(len(b)) {
		return false
	}
	n, _ = r.ReadAt(end, int64(len(b))+length-int64(len(end)))
	return n == len(end) && string(end) == suffix
}

// Open maps a file of either form and reads its headers.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	o := options(opts)
	src, err := source.Open(name, o.NoMap)
	if err != nil {
		return nil, err
	}
	r, err := newReader(src, o)
	if err != nil {
		src.Close()
		return nil, err
	}
	return r, nil
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return newReader(source.OfBytes(b), options(opts))
}

// NewReader reads the first size bytes of r, which stays the caller's.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, err
	}
	return newReader(src, options(opts))
}

func options(opts *ReaderOptions) ReaderOptions {
	if opts == nil {
		return ReaderOptions{}
	}
	return *opts
}

func newReader(src *source.Source, o ReaderOptions) (*Reader, error) {
	if err := o.Limits.Check(); err != nil {
		return nil, err
	}
	r := &Reader{src: src, limits: o.Limits.WithDefaults(), strict: o.Strict}
	var first [4]byte
	if src.Size() < int64(len(first)) {
		return nil, formatError(0, "magic", io.ErrUnexpectedEOF, "a file of %d bytes", src.Size())
	}
	if _, err := src.ReadAt(first[:], 0); err != nil {
		return nil, &tensor.FormatError{Format: "npy", Offset: 0, Field: "magic", Err: err}
	}
	var err error
	if string(first[:2]) == "PK" {
		r.archive = true
		err = r.openArchive()
	} else {
		err = r.openArray()
	}
	if err == nil && o.Strict && len(r.warnings) > 0 {
		err = r.warnings[0]
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Reader) openArray() error {
	h, err := readHeader(io.NewSectionReader(r.src, 0, r.src.Size()), r.src.Size(), 0, r.limits)
	if err != nil {
		return err
	}
	r.version = h.version
	if rest := r.src.Size() - h.size; h.bytes > rest {
		return formatError(h.size, "data", io.ErrUnexpectedEOF, "%d bytes where %v of %v takes %d", rest, h.shape, h.d, h.bytes)
	} else if h.bytes < rest {
		return formatError(h.size+h.bytes, "data", tensor.ErrMalformed, "%d bytes after the elements", rest-h.bytes)
	}
	x, err := r.src.Extent(h.size, h.bytes)
	if err != nil {
		return err
	}
	r.add(arrayName, h, tensor.NewBlob(&x))
	return nil
}

func (r *Reader) add(name string, h *header, data tensor.Blob) {
	if h.warning != nil {
		r.warnings = append(r.warnings, h.warning)
	}
	if h.big {
		data = tensor.NewBlob(&swapped{data, int64(h.d.Align())})
	}
	r.tensors = append(r.tensors, tensor.Tensor{Name: name, DType: h.d, Shape: h.shape, Order: h.order, Data: data})
}

// Close releases the file. It may be called twice.
func (r *Reader) Close() error { return r.src.Close() }

// Version is that of the header of a single array, such as "1.0"; an archive
// has none.
func (r *Reader) Version() string { return r.version }

// Archive reports whether the file is an archive.
func (r *Reader) Archive() bool { return r.archive }

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
	r.once.Do(func() {
		r.table, _ = names.Build(len(r.tensors), func(i int) string { return r.tensors[i].Name })
	})
	if i := r.table.Lookup(name); i >= 0 {
		return &r.tensors[i]
	}
	return nil
}

// Blobs yields the members of an archive that are not arrays.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(yield func(string, tensor.Blob) bool) {
		for _, b := range r.blobs {
			if !yield(b.name, b.data) {
				return
			}
		}
	}
}

// Attributes yields nothing: there is no place for them.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(func(string, string) bool) {}
}

// Warnings lists departures that did not prevent reading.
func (r *Reader) Warnings() []error { return r.warnings }

// Verify reads and decodes every byte and checks the CRC-32 of each member of
// an archive, and that bools are 0 or 1. opts may be nil.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) error {
	if opts == nil {
		opts = &tensor.VerifyOptions{}
	}
	l := tensor.NewFindingList(opts)
	for _, w := range r.warnings {
		l.Warn(w)
	}
	if opts.Depth == tensor.VerifyStructure {
		return l.Err()
	}
	v := verifier{ctx: ctx, l: l, opts: opts, buf: make([]byte, 1<<20)}
	for i := range r.tensors {
		v.total += r.tensors[i].Data.Size()
	}
	for _, b := range r.blobs {
		v.total += b.data.Size()
	}
	for i := range r.tensors {
		t := &r.tensors[i]
		field := arrayName
		if r.archive {
			field = member(t.Name)
		}
		v.read(t.Data, field, t.DType == tensor.Bool)
	}
	for _, b := range r.blobs {
		v.read(b.data, member(b.name), false)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.Err()
}

type verifier struct {
	ctx         context.Context
	l           *tensor.FindingList
	opts        *tensor.VerifyOptions
	buf         []byte
	done, total int64
}

func (v *verifier) read(b tensor.Blob, field string, bools bool) {
	if v.l.Full() || v.ctx.Err() != nil {
		return
	}
	st, _ := b.Stored()
	fail := func(err error) {
		v.l.Error(&tensor.FormatError{Format: "npy", Offset: st.Offset, Field: field, Err: err})
	}
	r, err := b.Open()
	if err != nil {
		fail(err)
		return
	}
	defer r.Close()
	at := int64(0)
	for v.ctx.Err() == nil {
		n, err := r.Read(v.buf)
		if bools {
			if k := le.NotBool(v.buf[:n]); k >= 0 {
				fail(fmt.Errorf("%w: element %d is the bool %#02x", tensor.ErrMalformed, at+int64(k), v.buf[k]))
				bools = false
			}
		}
		at += int64(n)
		v.done += int64(n)
		if v.opts.Progress != nil {
			v.opts.Progress(v.done, v.total)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
			return
		}
	}
}
