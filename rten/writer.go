package rten

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"math/bits"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a model is written. nil means the zero value, with which
// files are as from RTen's converter.
type WriterOptions struct {
	// Version is "2", or "1" for a bare flatbuffer of less than 2 GiB that contains all
	// weights, which RTen before 0.11 needs. "" means "2", or in an [Edit] the version of
	// the original.
	Version string
	// Alignment is the alignment in bytes of tensors in the tensor data of version 2: a
	// power of two from 4 to 2^30; 0 means 64.
	Alignment int64
	// InlineElements is the largest number of elements of a constant that version 2
	// stores in the model, not in the tensor data; 0 means 16, a negative number none.
	InlineElements int
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)
}

// withDefaults checks the options, and returns them with defaults for zeros.
func (o *WriterOptions) withDefaults() (WriterOptions, error) {
	var out WriterOptions
	if o != nil {
		out = *o
	}
	switch {
	case out.Version != "" && out.Version != "1" && out.Version != "2":
		return out, errs.New(errors.ErrUnsupported, "version %q; there are 1 and 2", out.Version)
	case out.Alignment != 0 && (out.Alignment < 4 || out.Alignment > 1<<30 ||
		bits.OnesCount64(uint64(out.Alignment)) != 1):
		return out, errs.New(fs.ErrInvalid, "alignment %d is not a power of two from 4 to 2^30",
			out.Alignment)
	}
	out.Version = cmp.Or(out.Version, "2")
	out.Alignment = cmp.Or(out.Alignment, 64)
	out.InlineElements = cmp.Or(out.InlineElements, 16)
	return out, nil
}

// A Writer writes a model of constants, without operators, with the methods of every
// Writer: Check, Add, AddAll, Close and Abort. Add fails with errors.ErrUnsupported
// unless a tensor is dense and row-major, of float32, int32, int8 or uint8, with
// dimensions below 2^32. Several tensors may have the empty name. It is not safe for
// concurrent use.
type Writer struct {
	format.Writer[*tensor.Tensor]
}

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	return &Writer{format.NewWriter(w, opts.encoding(constants))}
}

// Create returns a Writer of the file of that name, which appears whole when Close
// succeeds, or not at all. A process that is killed leaves a hidden file,
// .NAME.tensorfile-tmp-…, which 'tensorfile clean' removes.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	w, err := format.Create(name, opts.encoding(constants))
	if err != nil {
		return nil, err
	}
	return &Writer{w}, nil
}

// WriteFile writes a file, which appears whole or not at all. It reads the data of
// tensors after the last tensor of ts, so sources must stay open until it returns. It
// holds the descriptions of all constants and at most 1 MiB of data in memory.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return format.WriteFile(ctx, name, ts, opts.encoding(constants))
}

// encoding returns how a file is written. assemble returns its sections.
func (o *WriterOptions) encoding(assemble func(o WriterOptions,
	ts []*tensor.Tensor) (*sections, error)) *format.Encoding[*tensor.Tensor] {
	given, err := o.withDefaults()
	return &format.Encoding[*tensor.Tensor]{Format: errs, Err: err, NoReplace: given.NoReplace,
		Progress: given.Progress, Unnamed: true,
		Item: func(t *tensor.Tensor) (*tensor.Tensor, error) { return t, checkConstant(t) },
		Encode: func(out *format.Output, ts []*tensor.Tensor) error {
			l, err := assemble(given, ts)
			if err == nil {
				err = errs.Wrap(-1, "", format.WriteSections(out, nil, l.list, l.size))
			}
			return err
		}}
}

// constants returns the sections of a model of constants.
func constants(o WriterOptions, ts []*tensor.Tensor) (*sections, error) {
	g := NewGraphBuilder()
	for _, t := range ts {
		g.Constant(t)
	}
	return g.sections(context.Background(), o)
}

// checkConstant returns the reason why t cannot be a constant.
func checkConstant(t *tensor.Tensor) error {
	refuse := func(text string, args ...any) error {
		return errs.Tensor(t.Name, errors.ErrUnsupported, text, args...)
	}
	switch _, ok := dataTypeNumber(t.DType); {
	case !ok:
		return refuse("the format does not have %v", t.DType)
	case t.External || !t.Dense() || len(t.Parts) > 0:
		return refuse("only dense tensors are supported")
	case !t.Order.RowMajor():
		return refuse("the order %v is not row-major (tensor.Reordered)", []int(t.Order))
	case t.Data.Size() < 0:
		return refuse("its size is only known after decoding")
	case !utf8.ValidString(t.Name):
		return refuse("the name is not UTF-8")
	}
	for _, d := range t.Shape {
		if d > math.MaxUint32 {
			return refuse("a dimension of %d, more than 32 bits hold", d)
		}
	}
	return nil
}

// WriteFile writes as Write does, into a file, which appears whole or not at all.
func (g *GraphBuilder) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	return format.EncodeFile(ctx, name, g.encoding(ctx, opts))
}

// Write writes the model to w, without seeking. It fails with the errors of Err, with
// tensor.ErrChecksum if memory of a constant has changed, and if Verify would find an
// error or a warning in the model. The same model and options give the same bytes.
func (g *GraphBuilder) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return format.Encode(ctx, w, g.encoding(ctx, opts))
}

func (g *GraphBuilder) encoding(ctx context.Context,
	opts *WriterOptions) *format.Encoding[*tensor.Tensor] {
	return opts.encoding(func(o WriterOptions, _ []*tensor.Tensor) (*sections, error) {
		return g.sections(ctx, o)
	})
}

func (g *GraphBuilder) sections(ctx context.Context, o WriterOptions) (*sections, error) {
	if g.up != nil {
		return nil, errs.New(fs.ErrInvalid, "a model is written from its top graph")
	}
	g.finish()
	err := g.Err()
	if err == nil {
		err = errs.Wrap(-1, "", g.checksums.Check())
	}
	if err == nil {
		err = g.verify(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return g.encode(o)
}

func (g *GraphBuilder) encode(o WriterOptions) (*sections, error) {
	e := &encoder{opts: o, placed: make(map[any]int64)}
	e.placeGraph(g)
	metadata := e.metadata(g.metadata)
	return e.finish(e.model(e.graph(g), metadata))
}

// A sections is a file as parts in ascending order, with zeros between them.
type sections struct {
	list []format.Section
	size int64
}

// verify returns the errors and warnings that Verify would report. It verifies a version
// 2 file with no inline constants, which has the same graph and is small.
func (g *GraphBuilder) verify(ctx context.Context, o WriterOptions) error {
	o.Version, o.InlineElements = "2", -1
	l, err := g.encode(o)
	if err != nil {
		return err
	}
	r, err := NewReader(l, l.size, &ReaderOptions{Limits: tensor.Limits{MaxMetadata: maxModel}})
	if err != nil {
		return err
	}
	found := format.NewFindings(&tensor.VerifyOptions{Strict: true})
	for err := range r.model.deviations() {
		found.Warn(err)
	}
	if err := r.model.verifyGraphs(ctx, found); err != nil {
		return err
	}
	return found.Err()
}

// ReadAt reads the file, with zeros in place of data that is not in memory.
func (l *sections) ReadAt(p []byte, off int64) (n int, err error) {
	if int64(len(p)) > l.size-off {
		p, err = p[:max(l.size-off, 0)], io.EOF
	}
	clear(p)
	for _, x := range l.list {
		b, ok := x.Data.Memory()
		if from := off - x.Off; ok && from < int64(len(b)) && from > -int64(len(p)) {
			copy(p[max(-from, 0):], b[max(from, 0):])
		}
	}
	return len(p), err
}
