package npy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// arrayName is the name of the tensor: the file has none.
const arrayName = "data"

// DTypes returns the dtypes that an array can hold.
func DTypes() []tensor.DType { return numpy.DTypes() }

const errs = format.Errors("npy")

// ReaderOptions control how a file is read. nil is the zero value. Strict refuses what
// Warnings lists.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open array, with the methods of every Reader: Close, Size, Len, Tensors,
// Tensor, Blobs, Attributes and Warnings. Its one tensor is named "data"; there are no
// Blobs and no Attributes. It is safe for concurrent use. See package tensor for how long
// borrowed slices are valid.
type Reader struct {
	format.Base
	array   tensor.Tensor
	version string
}

// Detect reports whether a file begins like an array.
func Detect(r io.ReaderAt, size int64) bool {
	var b [len(numpy.Magic)]byte
	n, _ := r.ReadAt(b[:], 0)
	return size >= int64(len(b)) && n == len(b) && string(b[:]) == numpy.Magic
}

// Open maps the named file and reads its header.
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
	src, limits := in.Source, in.Options.Limits
	size := src.Size()
	h, err := numpy.ReadHeader(io.NewSectionReader(src, 0, size), size, 0, limits)
	if err != nil {
		return nil, err
	}
	var following error // the warning of more arrays
	switch rest := size - h.Size; {
	case !h.Listed():
		return nil, errs.At(h.DescrAt, "descr", errors.ErrUnsupported, "the dtype %s",
			h.TypeName())
	case h.Bytes < 0:
		h.Bytes = rest
	case h.Bytes > rest:
		return nil, errs.At(h.Size, "data", io.ErrUnexpectedEOF,
			"%d bytes where %v of %s takes %d", rest, h.Shape, h.TypeName(), h.Bytes)
	case h.Bytes < rest:
		if following, err = arraysAt(in, h.Size+h.Bytes); err != nil {
			return nil, err
		}
	}
	x, err := src.Extent(h.Size, h.Bytes)
	if err != nil {
		return nil, err
	}
	r := &Reader{version: h.Version}
	format.InitBase(&r.Base, errs, in)
	if h.Warning != nil {
		format.Warn(&r.Base, h.Warning)
	}
	if following != nil {
		format.Warn(&r.Base, following)
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
	format.SetTensors(&r.Base, 1, func(int) *tensor.Tensor { return &r.array }, nil)
	return r, nil
}

// maxListed bounds how many arrays after the first a warning describes.
const maxListed = 8

// arraysAt returns the warning of the arrays that begin at an offset, which NumPy writes
// where several are saved to one open file, and reads one by one. Anything else after the
// first array is an error.
func arraysAt(in *format.Input, off int64) (warning, err error) {
	size := in.Source.Size()
	var list []string
	for at := off; at < size; {
		if len(list) == maxListed {
			list = append(list, fmt.Sprintf("and %d bytes more", size-at))
			break
		}
		h, err := numpy.ReadHeader(io.NewSectionReader(in.Source, at, size-at), size-at, at,
			in.Options.Limits)
		if err != nil && tensor.ClassOf(err) == tensor.ClassIO {
			return nil, err
		}
		if err != nil || h.Bytes < 0 || h.Bytes > size-at-h.Size {
			if len(list) == 0 {
				return nil, errs.Malformed(off, "data", "%d bytes after the elements", size-off)
			}
			list = append(list, fmt.Sprintf("and %d bytes that are no array", size-at))
			break
		}
		list = append(list, h.TypeName()+fmt.Sprint(h.Shape))
		at += h.Size + h.Bytes
	}
	return &tensor.FormatError{Format: string(errs), Offset: off, Field: "arrays[1]",
		Code: tensor.CodeUnlistedData, Err: fmt.Errorf(
			"%w: only the first array of the file is read, not %s",
			tensor.ErrMalformed, strings.Join(list, ", "))}, nil
}

// unknown is the data of elements that are no plain numbers.
type unknown struct {
	source.Extent
	descr string
}

// Stored is for tensor.Blob.
func (u *unknown) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: u.Offset(), Size: u.Size(), Encoding: "raw", Type: u.descr}, true
}

// Version returns the version of the header, such as "1.0".
func (r *Reader) Version() string { return r.version }

// Array returns the array.
func (r *Reader) Array() *tensor.Tensor { return &r.array }

// Verify reads every byte and checks that bools are 0 or 1. opts may be nil.
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
		l.Error(errs.Wrap(st.Offset+at, "data", err))
	}
	return nil
}
