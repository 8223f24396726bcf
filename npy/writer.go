package npy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how an array is written. nil is the zero value; there are none
// yet.
type WriterOptions struct{}

// A Writer writes a file of one array, equal to the byte to what numpy.save writes. It is
// not safe for concurrent use.
type Writer struct {
	w     io.Writer
	file  *atomicfile.File // of Create
	err   error            // of writing
	added bool
	done  bool
}

// NewWriter writes an array to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	return &Writer{w: format.Until(context.Background(), w)}
}

// Create writes the named file, which appears whole when Close succeeds, or not at
// all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	return &Writer{w: f, file: f}, nil
}

// Check reports why Add would refuse t: dtypes other than [DTypes] are tensor.ErrDType,
// tensors that are not dense, or neither row-major nor column-major,
// errors.ErrUnsupported, and any second tensor tensor.ErrDuplicate. It reads no data.
func (w *Writer) Check(t *tensor.Tensor) error {
	switch {
	case w.err != nil:
		return w.err
	case w.done:
		return fs.ErrClosed
	}
	if err := numpy.Check(t); err != nil || !w.added {
		return err
	}
	return fmt.Errorf("npy: tensor %s: a file has one array: %w", naming.Quote(t.Name),
		tensor.ErrDuplicate)
}

// Add writes the array. Its name is lost.
func (w *Writer) Add(t *tensor.Tensor) error {
	if err := w.Check(t); err != nil {
		return err
	}
	w.added = true
	_, w.err = numpy.WriteArray(w.w, t)
	return w.err
}

// AddAll adds the one tensor of ts. An error of ts, or the end of ctx, ends it.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if err := w.Add(t); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Close completes the file. Without a tensor there is nothing to write, which is an
// error. A second Close returns what the first did.
func (w *Writer) Close() error {
	if w.done {
		return w.err
	}
	w.done = true
	if w.err == nil && !w.added {
		w.err = fmt.Errorf("npy: there is no array to write: %w", tensor.ErrNoTensor)
	}
	switch {
	case w.file == nil:
	case w.err != nil:
		w.file.Abort()
	default:
		w.err = w.file.Close()
	}
	return w.err
}

// Abort drops the file: that of Create does not appear. After Close it does nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done, w.err = true, cmp.Or(w.err, fs.ErrClosed)
	if w.file != nil {
		w.file.Abort()
	}
}

// WriteFile writes the one tensor of ts to the named file, which appears whole or
// not at all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.Close()
}
