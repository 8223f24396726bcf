package ptd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a file is written. nil is the zero value.
type WriterOptions struct {
	// SegmentAlignment aligns the segments, in bytes; a power of two, 0 for
	// ExecuTorch's 128.
	SegmentAlignment int64
	// Alignment is the alignment of every tensor, and of every blob that has none of its
	// own; a power of two, 0 for none beyond SegmentAlignment.
	Alignment int64
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)
}

// A Writer writes one file, with the methods of every Writer: Check, Add, AddAll, Close
// and Abort. The index comes first, so that Add only registers a tensor, and Close writes
// everything. Entries whose Data is the same memory or the same source share a segment,
// such as entries of a file that share one there. Tensors must be dense; names must be
// UTF-8 without NUL, and not empty. Add refuses others with errors.ErrUnsupported.
type Writer struct {
	format.Writer[item]
}

// An item is an entry of a file that is written.
type item struct {
	Entry
	anyName bool // the name may be empty
}

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	return &Writer{format.NewWriter(w, opts.encoding())}
}

// Create returns a Writer of the file of that name, which appears whole when Close
// succeeds, or not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	w, err := format.Create(name, opts.encoding())
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// WriteFile writes a whole file: it appears with all tensors, or not at all. It has the
// descriptions of all tensors and a few MiB of data in memory, and reads the data after
// the last tensor of ts: sources must stay open until then.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return format.WriteFile(ctx, name, ts, opts.encoding())
}

func (o *WriterOptions) encoding() *format.Encoding[item] {
	var given WriterOptions
	if o != nil {
		given = *o
	}
	given.SegmentAlignment = cmp.Or(given.SegmentAlignment, 128)
	return &format.Encoding[item]{Format: errs, NoReplace: given.NoReplace,
		Progress: given.Progress,
		Err: cmp.Or(checkAlignment("segments", given.SegmentAlignment),
			checkAlignment("tensors", given.Alignment)),
		Item: itemOf, Check: checkItem, Encode: given.encode}
}

// checkAlignment checks an alignment that was asked for. The least common multiple of
// powers of two is the largest of them; of other numbers it could be beyond any file.
func checkAlignment(what string, a int64) error {
	const limit = 1 << 30
	if a < 0 || a > limit || a&(a-1) != 0 {
		return errs.At(-1, what, fs.ErrInvalid, "alignment %d is not a power of two up to %d", a,
			limit)
	}
	return nil
}

// itemOf refuses what no file can hold, whatever its name.
func itemOf(t *tensor.Tensor) (item, error) {
	l, err := LayoutOf(t)
	switch {
	case err != nil:
		return item{}, err
	case t.External:
		return item{}, errs.Tensor(t.Name, errors.ErrUnsupported, "its data is external")
	}
	return item{Entry: Entry{Name: t.Name, Layout: l, Data: t.Data}}, nil
}

func checkItem(name string, it *item) error {
	refuse := func(text string, args ...any) error {
		return errs.Tensor(name, errors.ErrUnsupported, text, args...)
	}
	switch {
	case name == "" && !it.anyName:
		return refuse("an empty name, which no program can ask for")
	case strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name):
		return refuse("a name has no NUL and is UTF-8")
	case it.Data.Size() < 0:
		return refuse("the size of the data is not known beforehand, and the index comes first")
	}
	if err := checkAlignment(format.Field(name), it.Alignment); err != nil {
		return err
	}
	l := it.Layout
	if l == nil {
		return nil
	}
	if err := format.CheckWritten("", len(l.Sizes)); err != nil {
		return errs.Wrap(-1, format.Field(name), err)
	}
	_, _, field, err := checkLayout(l.ScalarType, l.Sizes, l.DimOrder, it.Data.Size(), nil)
	return errs.Wrap(-1, format.Field(name)+"."+field, err)
}

// AddBlob adds an entry without a layout. Its data is read by Close, as the data of
// tensors.
func (w *Writer) AddBlob(name string, data tensor.Blob) error {
	return format.Register(&w.Writer, name, item{Entry: Entry{Name: name, Data: data}}, data)
}

// AddEntry adds an entry as it is: from a Reader, with an Alignment, or with more data
// than its layout needs. Its name may be empty, which Add and AddBlob refuse.
func (w *Writer) AddEntry(e Entry) error {
	return format.Register(&w.Writer, e.Name, item{e, true}, e.Data)
}

// CheckEntry reports why AddEntry would refuse an entry. It reads no data.
func (w *Writer) CheckEntry(e Entry) error {
	return format.CheckItem(&w.Writer, e.Name, item{e, true})
}
