package safetensors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a file is written. nil is the zero value.
type WriterOptions struct {
	// Metadata becomes __metadata__, its keys sorted. Empty: there is none.
	Metadata map[string]string
	// KeepOrder stores tensors in the order of Add. The default is the
	// reference's: dtypes from the widest to the narrowest, so that
	// everything is aligned, then names.
	KeepOrder bool
}

// A Writer writes one file. The header comes first, so Add only registers
// tensors and Close writes everything. It is not safe for concurrent use.
type Writer struct {
	w       io.Writer
	file    *atomicfile.File // of Create
	opts    WriterOptions
	tensors []*tensor.Tensor
	names   map[string]struct{}
	kept    format.Checksums
	done    bool
	err     error // the result of Close
}

// NewWriter writes to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	nw := &Writer{w: w, names: map[string]struct{}{}}
	if opts != nil {
		nw.opts = *opts
	}
	return nw
}

// Create writes the file of that name, which appears whole when Close succeeds,
// or not at all. A process that is killed leaves a hidden file,
// .NAME.tensorfile-tmp-…, which 'tensorfile clean' removes.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	return fileWriter(f, opts), nil
}

func fileWriter(f *atomicfile.File, opts *WriterOptions) *Writer {
	w := NewWriter(f, opts)
	w.file = f
	return w
}

// Add registers a tensor, which must stay readable until Close and unchanged: what is in
// memory is hashed, and a change of it is tensor.ErrChecksum in Close. What Check refuses
// is refused.
func (w *Writer) Add(t *tensor.Tensor) error {
	if err := w.Check(t); err != nil {
		return err
	}
	w.names[t.Name] = struct{}{}
	w.kept.Add(t.Name, t.Data)
	w.tensors = append(w.tensors, t)
	return nil
}

// Check reports whether Add would take the tensor; it reads no data. Refused
// are duplicate names, names that are not UTF-8 or are __metadata__, tensors that
// are not dense and row-major, and dtypes that the format does not have
// (see [DTypes]); the latter are errors.ErrUnsupported and tensor.ErrDType.
func (w *Writer) Check(t *tensor.Tensor) error {
	if w.done {
		return fs.ErrClosed
	}
	if err := check(t); err != nil {
		return err
	}
	if _, dup := w.names[t.Name]; dup {
		return refuse(t, tensor.ErrDuplicate, "a second tensor of that name")
	}
	return nil
}

// check refuses what no file can hold.
func check(t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	n, _ := t.Shape.Elements()
	bits := int64(t.DType.Bits())
	switch {
	case !utf8.ValidString(t.Name):
		return refuse(t, errors.ErrUnsupported, "its name is not UTF-8")
	case t.Name == jsonheader.MetadataKey:
		return refuse(t, errors.ErrUnsupported, "the name is reserved")
	case !t.Dense() || t.External || len(t.Parts) > 0:
		return refuse(t, errors.ErrUnsupported, "only dense tensors are supported")
	case jsonheader.RankOf(t.DType) < 0:
		return refuse(t, tensor.ErrDType, "the format does not have %v", t.DType)
	case !t.Order.RowMajor():
		return refuse(t, errors.ErrUnsupported,
			"the order %v is not row-major (tensor.Reordered)", []int(t.Order))
	case bits%8 != 0 && n%8*bits%8 != 0:
		return refuse(t, errors.ErrUnsupported, "%v of %v is not a whole number of bytes",
			t.Shape, t.DType)
	case t.Data.Size() < 0:
		return refuse(t, errors.ErrUnsupported, "its size is only known after decoding")
	}
	if err := format.CheckWritten(t.Name, len(t.Shape)); err != nil {
		return &tensor.FormatError{Format: formatName, Offset: -1, Field: jsonheader.Field(t.Name),
			Err: err}
	}
	return nil
}

func refuse(t *tensor.Tensor, class error, format string, args ...any) error {
	return &tensor.FormatError{Format: formatName, Offset: -1,
		Field: jsonheader.Field(t.Name),
		Err:   fmt.Errorf("%w: "+format, append([]any{class}, args...)...)}
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

// Close writes the header and all data. A second Close returns what the first did.
func (w *Writer) Close() error { return w.close(context.Background()) }

func (w *Writer) close(ctx context.Context) error {
	if w.done {
		return w.err
	}
	w.done, w.err = true, w.write(ctx)
	switch {
	case w.file == nil:
	case w.err != nil:
		w.file.Abort()
	default:
		w.err = w.file.Close()
	}
	return w.err
}

// Abort drops what was added; a file of Create does not appear. After Close it
// does nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done, w.err = true, fs.ErrClosed
	if w.file != nil {
		w.file.Abort()
	}
}

// layout sorts the tensors, and returns the header and the size of the whole file.
func (w *Writer) layout() ([]byte, int64, error) {
	if !w.opts.KeepOrder {
		slices.SortStableFunc(w.tensors, func(a, b *tensor.Tensor) int {
			return cmp.Or(cmp.Compare(jsonheader.RankOf(b.DType), jsonheader.RankOf(a.DType)),
				cmp.Compare(a.Name, b.Name))
		})
	}
	return w.header()
}

func (w *Writer) write(ctx context.Context) error {
	if err := w.kept.Check(); err != nil {
		return fmt.Errorf("%s: %w", formatName, err)
	}
	head, total, err := w.layout()
	if err != nil {
		return err
	}
	if w.file != nil {
		w.file.Reserve(total)
	}
	out := format.Until(ctx, w.w)
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("%s: %w", formatName, err)
	}
	for _, t := range w.tensors {
		if _, err := format.CopyBlob(out, t.Data, t.Data.Size()); err != nil {
			return refuse(t, err, "writing its data")
		}
	}
	return nil
}

// header returns the bytes before the data, and the size of the whole file.
func (w *Writer) header() ([]byte, int64, error) {
	var metadata [][2]string
	for _, key := range slices.Sorted(maps.Keys(w.opts.Metadata)) {
		value := w.opts.Metadata[key]
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, 0, fmt.Errorf("safetensors: metadata %s is not UTF-8: %w",
				naming.Quote(key), errors.ErrUnsupported)
		}
		metadata = append(metadata, [2]string{key, value})
	}
	return jsonheader.Make(formatName, metadata, w.tensors)
}

// WriteFile writes a whole file: it appears with all tensors, or not at all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	return w.writeAll(ctx, ts)
}

func (w *Writer) writeAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.close(ctx)
}
