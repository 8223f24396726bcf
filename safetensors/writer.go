package safetensors

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a file is written. nil is the zero value.
type WriterOptions struct {
	// Attributes are written as __metadata__, sorted by key. If empty, there is no
	// __metadata__.
	Attributes map[string]string
	// KeepOrder stores tensors in the order of Add. The default is the order of the
	// reference: dtypes from the widest to the narrowest, so that all data is aligned,
	// then names.
	KeepOrder bool
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)
}

// A Writer writes one file, with the methods of every Writer: Check, Add, AddAll, Close
// and Abort. The header comes first, so that Add only registers a tensor, and Close
// writes everything. Tensors must be dense and row-major, with a dtype of [DTypes]; names
// must be UTF-8 and not __metadata__. Add refuses others with errors.ErrUnsupported.
type Writer struct {
	format.Writer[*tensor.Tensor]
}

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	return &Writer{format.NewWriter(w, opts.encoding())}
}

// Create returns a Writer of the file of that name, which appears whole when Close
// succeeds, or not at all. A process that is killed leaves a hidden file,
// .NAME.tensorfile-tmp-…, which 'tensorfile clean' removes.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	w, err := format.Create(name, opts.encoding())
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// WriteFile writes a whole file, which appears with all tensors or not at all. It has the
// descriptions of all tensors and at most 1 MiB of data in memory. It reads the data
// after the last tensor of ts, so that sources must stay open until WriteFile returns. It
// fails as Add and Close of a [Writer] do.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return format.WriteFile(ctx, name, ts, opts.encoding())
}

// encoding returns how the shared writer writes this format. o may be nil.
func (o *WriterOptions) encoding() *format.Encoding[*tensor.Tensor] {
	if o == nil {
		o = new(WriterOptions)
	}
	opts := *o
	return &format.Encoding[*tensor.Tensor]{Format: errs, NoReplace: o.NoReplace,
		Progress: o.Progress,
		Item:     func(t *tensor.Tensor) (*tensor.Tensor, error) { return t, checkTensor(t) },
		Check:    checkName, Encode: opts.encode}
}

// checkTensor refuses a tensor that no file can hold, under any name.
func checkTensor(t *tensor.Tensor) error {
	n, _ := t.Shape.Elements()
	bits := int64(t.DType.Bits())
	refuse := func(text string, args ...any) error {
		return errs.Tensor(t.Name, errors.ErrUnsupported, text, args...)
	}
	switch {
	case !t.Dense() || t.External || len(t.Parts) > 0:
		return refuse("only dense tensors are supported")
	case jsonheader.RankOf(t.DType) < 0:
		return refuse("the format does not have %v", t.DType)
	case !t.Order.RowMajor():
		return refuse("the order %v is not row-major (tensor.Reordered)", []int(t.Order))
	case bits%8 != 0 && n%8*bits%8 != 0:
		return refuse("%v of %v is not a whole number of bytes", t.Shape, t.DType)
	case t.Data.Size() < 0:
		return refuse("its size is only known after decoding")
	}
	return nil
}

// checkName refuses a name that no file can hold.
func checkName(name string, _ **tensor.Tensor) error {
	switch {
	case !utf8.ValidString(name):
		return errs.Tensor(name, errors.ErrUnsupported, "the name is not UTF-8")
	case name == jsonheader.MetadataKey:
		return errs.Tensor(name, errors.ErrUnsupported, "the name is reserved")
	}
	return nil
}

// encode writes the header and all data.
func (o *WriterOptions) encode(out *format.Output, ts []*tensor.Tensor) error {
	head, size, err := o.header(ts)
	if err != nil {
		return err
	}
	sections, off := make([]format.Section, len(ts)), int64(len(head))
	for i, t := range ts {
		sections[i] = format.Section{Name: t.Name, Off: off, Size: t.Data.Size(), Data: t.Data}
		off += t.Data.Size()
	}
	return format.WriteSections(out, head, sections, size)
}

// header sorts ts in the order of the file. It returns the bytes before the data, and the
// size of the whole file.
func (o *WriterOptions) header(ts []*tensor.Tensor) ([]byte, int64, error) {
	if !o.KeepOrder {
		slices.SortStableFunc(ts, func(a, b *tensor.Tensor) int {
			return cmp.Or(cmp.Compare(jsonheader.RankOf(b.DType), jsonheader.RankOf(a.DType)),
				cmp.Compare(a.Name, b.Name))
		})
	}
	var metadata [][2]string
	for _, key := range slices.Sorted(maps.Keys(o.Attributes)) {
		value := o.Attributes[key]
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, 0, errs.At(-1, "__metadata__["+naming.Quote(key)+"]",
				errors.ErrUnsupported, "it is not UTF-8")
		}
		metadata = append(metadata, [2]string{key, value})
	}
	return jsonheader.Make(string(errs), metadata, ts)
}
