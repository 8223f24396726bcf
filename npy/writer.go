package npy

import (
	"context"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how an array is written. nil is the zero value.
type WriterOptions struct {
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far, as done and as
	// total.
	Progress func(done, total int64)
}

// A Writer writes a file of one array, equal to the byte to what numpy.save writes, with
// the methods of every Writer: Check, Add, AddAll, Close and Abort. Add writes the array,
// whose name is lost, and fails with tensor.ErrDuplicate for a second one. The tensor
// must be dense, row-major or column-major, with a dtype of [DTypes] and at most 64
// dimensions; Add refuses others with errors.ErrUnsupported. Close fails with
// tensor.ErrNoTensor if there is no array.
type Writer struct {
	format.Writer[*tensor.Tensor]
}

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	return &Writer{format.NewWriter(w, opts.encoding())}
}

// Create returns a Writer of the named file, which appears whole when Close succeeds, or
// not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	w, err := format.Create(name, opts.encoding())
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// WriteFile writes the single tensor of ts to the named file, which appears whole or not
// at all. It has at most 1 MiB of data in memory.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return format.WriteFile(ctx, name, ts, opts.encoding())
}

func (o *WriterOptions) encoding() *format.Encoding[*tensor.Tensor] {
	if o == nil {
		o = new(WriterOptions)
	}
	added := false
	return &format.Encoding[*tensor.Tensor]{Format: errs, One: true, NoReplace: o.NoReplace,
		Progress: o.Progress,
		Item: func(t *tensor.Tensor) (*tensor.Tensor, error) {
			return t, numpy.Check(errs, t)
		},
		Append: func(out *format.Output, t **tensor.Tensor) error {
			added = true
			_, err := numpy.WriteArray(format.Begin(out, -1), *t)
			return errs.Wrap(-1, format.Field((*t).Name), err)
		},
		Encode: func(*format.Output, []*tensor.Tensor) error {
			if !added {
				return errs.New(tensor.ErrNoTensor, "there is no array to write")
			}
			return nil
		}}
}
