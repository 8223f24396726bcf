package npz

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/zipfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// DTypes returns the dtypes that an archive can hold.
func DTypes() []tensor.DType { return numpy.DTypes() }

const errs = format.Errors("npz")

// ReaderOptions control how an archive is read. nil is the zero value. With Strict, each
// of Warnings is an error, and the CRC-32 of a member is checked in every way of reading
// it; otherwise views, and reads at an offset, are not checked.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open archive, with the methods of every Reader: Close, Size, Len,
// Tensors, Tensor, Blobs, Attributes and Warnings. Tensors are the arrays in the order of
// the archive, Blobs the members that are not arrays; there are no Attributes. It is safe
// for concurrent use. See package tensor for how long borrowed slices are valid.
type Reader struct {
	format.Base
	archive *zipfile.Archive
	tensors []tensor.Tensor
	files   []file // of arrays and blobs, in the order of the archive
	limits  tensor.Limits
	strict  bool
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
	return format.Open(name, opts, read)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads the first size bytes of r, which the caller closes.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (*Reader, error) {
	r := &Reader{limits: in.Options.Limits, strict: in.Options.Strict}
	format.InitBase(&r.Base, errs, in)
	if err := r.open(in.Source); err != nil {
		return nil, err
	}
	format.SetList(&r.Base, r.tensors)
	return r, nil
}

// Version returns "": archives have none.
func (r *Reader) Version() string { return "" }

// Verify decodes every member, checks its CRC-32, and that bools are 0 or 1. The bytes
// that all members decode to are bounded by Limits.DecodedTotal. opts may be nil.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, l *format.Findings) error {
	for _, w := range r.Warnings() {
		l.Warn(w)
	}
	if l.Options.Depth <= tensor.VerifyStructure {
		return nil
	}
	var done, total int64
	limit := format.DecodedTotal(r.limits, r.Size())
	for name, m := range r.members() {
		if n := m.data.Size(); n > limit-total {
			return errs.At(-1, zipfile.Field(name), tensor.ErrLimit,
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
			l.Error(errs.Wrap(st.Offset, zipfile.Field(name), err))
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
		for name, data := range r.Blobs() {
			if !yield(name, payload{data, tensor.Unknown}) {
				return
			}
		}
	}
}
