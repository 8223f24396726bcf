package npy

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// check reports why t has no place in an array.
func check(t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	refuse := func(class error, why string) error {
		return fmt.Errorf("%w: npy: tensor %s: %s", class, tensor.Quote(t.Name), why)
	}
	switch {
	case !t.Dense() || t.External:
		return refuse(errors.ErrUnsupported, "only dense tensors have a place")
	case !t.Order.RowMajor() && !slices.Equal(t.Order, tensor.ColumnMajor(len(t.Shape))):
		return refuse(errors.ErrUnsupported, "its order is neither row-major nor column-major (tensor.Reordered)")
	case t.Data.Size() < 0:
		return refuse(errors.ErrUnsupported, "its size is only known after decoding")
	case !slices.Contains(DTypes(), t.DType):
		return refuse(tensor.ErrDType, t.DType.String()+" has no place")
	}
	return nil
}

// WriteArray writes t as a .npy file, equal to the byte to what numpy.save
// writes; its name is lost. Element types beyond [DTypes] are tensor.ErrDType,
// tensors that are not dense, or in another order than row-major and
// column-major, errors.ErrUnsupported.
func WriteArray(w io.Writer, t *tensor.Tensor) error {
	if err := check(t); err != nil {
		return err
	}
	head, err := appendHeader(nil, t)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	return writeData(w, t)
}

func writeData(w io.Writer, t *tensor.Tensor) error {
	n, err := t.Data.WriteTo(w)
	if err == nil && n != t.Data.Size() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("npy: tensor %s: writing its data: %w", tensor.Quote(t.Name), err)
	}
	return nil
}

// WriteArrayFile writes t as the .npy file called name, which appears whole or
// not at all.
func WriteArrayFile(name string, t *tensor.Tensor) error {
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := WriteArray(f, t); err != nil {
		return err
	}
	return f.Close()
}

// WriterOptions control how an archive is written. nil is the zero value.
type WriterOptions struct {
	// Compress deflates members, as numpy.savez_compressed does. Stored members
	// are laid out so that their elements begin at multiples of 64.
	Compress bool
}

// A Writer writes an archive, .npz, as its tensors come. It is not safe for
// concurrent use.
type Writer struct {
	z     *zip.Writer
	count *counter
	tail  int64            // bytes that still follow the last member: its sizes and CRC
	file  *atomicfile.File // of Create
	opts  WriterOptions
	names map[string]struct{}
	err   error
	done  bool
}

// counter knows how many bytes have been written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// NewWriter writes an archive to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	nw := &Writer{count: &counter{w: w}, names: map[string]struct{}{}}
	nw.z = zip.NewWriter(nw.count)
	if opts != nil {
		nw.opts = *opts
	}
	return nw
}

// Create writes the archive called name, which appears whole when Close
// succeeds, or not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := NewWriter(f, opts)
	w.file = f
	return w, nil
}

// Add writes a tensor. Beyond what [WriteArray] refuses, names must be UTF-8 and
// stand once. After an error of writing, the archive is lost.
func (w *Writer) Add(t *tensor.Tensor) error {
	if w.done {
		return fs.ErrClosed
	}
	if w.err != nil {
		return w.err
	}
	if err := check(t); err != nil {
		return err
	}
	if !utf8.ValidString(t.Name) {
		return fmt.Errorf("npz: tensor %s: its name is not UTF-8: %w", tensor.Quote(t.Name), errors.ErrUnsupported)
	}
	name := t.Name + suffix
	if len(name) > 1<<16-1 {
		return fmt.Errorf("npz: tensor %s: its name is longer than a zip file allows: %w", tensor.Quote(t.Name), errors.ErrUnsupported)
	}
	if _, twice := w.names[name]; twice {
		return fmt.Errorf("npz: tensor %s: the name stands twice: %w", tensor.Quote(t.Name), tensor.ErrDuplicate)
	}
	w.names[name] = struct{}{}
	w.err = w.add(name, t)
	return w.err
}

func (w *Writer) add(name string, t *tensor.Tensor) error {
	head, err := appendHeader(nil, t)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: name, Method: zip.Store}
	if w.opts.Compress {
		h.Method = zip.Deflate
	} else {
		// A zip file aligns nothing. An extra field of its own length, with the
		// tag that Android's zipalign uses for the purpose, moves the member.
		if err := w.z.Flush(); err != nil {
			return err
		}
		const local, field = 30, 6
		pad := align.Padding(w.count.n+w.tail+local+int64(len(name))+field, headerAlign)
		h.Extra = binary.LittleEndian.AppendUint16(nil, 0xd935)
		h.Extra = binary.LittleEndian.AppendUint16(h.Extra, uint16(2+pad))
		h.Extra = binary.LittleEndian.AppendUint16(h.Extra, headerAlign)
		h.Extra = append(h.Extra, make([]byte, pad)...)
	}
	m, err := w.z.CreateHeader(h)
	if err != nil {
		return err
	}
	if _, err := m.Write(head); err != nil {
		return err
	}
	if w.tail = 16; int64(len(head))+t.Data.Size() > math.MaxUint32-1 {
		w.tail = 24 // as archive/zip writes it for zip64
	}
	return writeData(m, t)
}

// AddAll adds tensors until one is refused or ctx ends.
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

// Close writes the directory of the archive. A second Close answers what the first
// did.
func (w *Writer) Close() error {
	if w.done {
		return w.err
	}
	w.done = true
	if w.err == nil {
		w.err = w.z.Close()
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

// Abort drops the archive: a file of Create does not appear. After Close it does
// nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done, w.err = true, cmp.Or(w.err, fs.ErrClosed)
	if w.file != nil {
		w.file.Abort()
	}
}

// WriteFile writes a whole archive at once: it appears with all tensors, or not
// at all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error], opts *WriterOptions) error {
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
