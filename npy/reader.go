package npy

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// arrayName is the name of the tensor: the file has none.
const arrayName = "data"

// DTypes returns the dtypes that an array can hold.
func DTypes() []tensor.DType { return numpy.DTypes() }

// ReaderOptions control how a file is read. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses what Warnings lists.
	Strict bool
	// Limits bound what a file may ask for; zero fields mean the defaults.
	Limits tensor.Limits
	// NoMap makes Open read the file instead of mapping it.
	NoMap bool
	// Companion is not used: an array refers to no other file.
	Companion func(name string) (io.ReaderAt, int64, error)
}

// A Reader is an open array. It is safe for concurrent use. See package tensor for how
// long what it returns is valid.
type Reader struct {
	src      *source.Source
	array    tensor.Tensor
	version  string
	warnings []error
}

// Detect reports whether a file begins like an array.
func Detect(r io.ReaderAt, size int64) bool {
	var b [len(numpy.Magic)]byte
	n, _ := r.ReadAt(b[:], 0)
	return size >= int64(len(b)) && n == len(b) && string(b[:]) == numpy.Magic
}

// Open maps the named file and reads its header.
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
	size := src.Size()
	h, err := numpy.ReadHeader(io.NewSectionReader(src, 0, size), size, 0, limits)
	if err != nil {
		return nil, err
	}
	switch rest := size - h.Size; {
	case !h.Listed():
		return nil, numpy.Error(h.DescrAt, "descr", errors.ErrUnsupported, "the dtype %s",
			h.Word())
	case h.Bytes < 0:
		h.Bytes = rest
	case h.Bytes > rest:
		return nil, numpy.Error(h.Size, "data", io.ErrUnexpectedEOF,
			"%d bytes where %v of %s takes %d", rest, h.Shape, h.Word(), h.Bytes)
	case h.Bytes < rest:
		return nil, numpy.Error(h.Size+h.Bytes, "data", tensor.ErrMalformed,
			"%d bytes after the elements", rest-h.Bytes)
	}
	x, err := src.Extent(h.Size, h.Bytes)
	if err != nil {
		return nil, err
	}
	r := &Reader{src: src, version: h.Version}
	if h.Warning != nil {
		r.warnings = []error{h.Warning}
		if o.Strict {
			return nil, h.Warning
		}
	}
	data := tensor.NewBlob(&x)
	if h.DType == tensor.Unknown {
		data = tensor.NewBlob(&unknown{x, h.Descr})
	}
	if h.BigEndian {
		data = numpy.LittleEndian(data, h.DType.Align())
	}
	r.array = tensor.Tensor{Name: arrayName, DType: h.DType, Shape: h.Shape, Order: h.Order,
		Data: data}
	return r, nil
}

// unknown is the data of elements that are no plain numbers.
type unknown struct {
	source.Extent
	descr string
}

// Stored is for tensor.Blob.
func (u *unknown) Stored() tensor.Stored {
	return tensor.Stored{Offset: u.Offset(), Size: u.Size(), Encoding: "raw", Type: u.descr}
}

// Close releases the file. It may be called twice.
func (r *Reader) Close() error { return r.src.Close() }

// Version returns the version of the header, such as "1.0".
func (r *Reader) Version() string { return r.version }

// Array returns the array.
func (r *Reader) Array() *tensor.Tensor { return &r.array }

// Size is the size of the file in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// Len is 1.
func (r *Reader) Len() int { return 1 }

// Tensors yields the array.
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) { yield(&r.array) }
}

// Tensor returns the array for the name "data", otherwise nil.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	if name != arrayName {
		return nil
	}
	return &r.array
}

// Blobs yields nothing.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

// Attributes yields nothing.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(func(string, string) bool) {}
}

// Warnings lists departures that did not prevent reading.
func (r *Reader) Warnings() []error { return r.warnings }

// Verify reads every byte and checks that bools are 0 or 1. opts may be nil.
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
	st, _ := r.array.Data.Stored()
	done := int64(0)
	at, err := format.ReadBlob(ctx, r.array.Data, r.array.DType, make([]byte, min(st.Size+1,
		1<<20)),
		func(n int64) {
			if done += n; l.Options.Progress != nil {
				l.Options.Progress(done, st.Size)
			}
		})
	if e := ctx.Err(); e != nil {
		return e
	}
	if err != nil {
		l.Error(&tensor.FormatError{Format: "npy", Offset: st.Offset + at, Field: "data",
			Err: err})
	}
	return nil
}
