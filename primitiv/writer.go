package primitiv

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control what a Writer writes. nil is the zero value: a model, with the
// bytes that the reference would write.
type WriterOptions struct {
	// Kind of the file; zero is KindModel.
	Kind Kind
	// Batch, above 1, says that the last dimension of the tensor of a tensor file is the
	// batch. Tensors that come from a Reader of this package, and statistics given as a
	// Parameter, know theirs.
	Batch uint32
	// Reorder makes column-major copies of tensors in another order, one at a time.
	// Without it they are refused.
	Reorder bool
	// NoStats leaves statistics out.
	NoStats bool

	// Count is the number of parameters of a model that is streamed: AddParameter,
	// which alone adds to it, writes each at once, instead of Close all of them,
	// sorted. Readers accept any order. Zero is for a model that is not streamed.
	Count uint32
}

// A Writer writes a file. It is for one goroutine.
type Writer struct {
	encoder
	opts WriterOptions
	file *atomicfile.File // of Create
	buf  *bufio.Writer    // of NewWriter

	ended bool

	shape     *Shape
	tensor    *tensor.Tensor
	optimizer *Optimizer
	pending   []pending
	params    []*Parameter // as given
	kept      format.Checksums
	paths     [][]string          // of parameters that were streamed
	places    map[string]struct{} // that are taken, by Origin.key
}

// NewWriter returns a Writer that writes to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	buf := bufio.NewWriterSize(format.Until(context.Background(), w), 64<<10)
	return newWriter(&Writer{encoder: encoder{out: buf}, buf: buf}, opts)
}

// Create returns a Writer of the named file, which appears whole when it is closed,
// or not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w := newWriter(&Writer{encoder: encoder{out: f}, file: f}, opts)
	if w.err != nil {
		f.Abort()
		return nil, w.err
	}
	return w, nil
}

func newWriter(w *Writer, opts *WriterOptions) *Writer {
	w.places = make(map[string]struct{})
	if opts != nil {
		w.opts = *opts
	}
	o := &w.opts
	if o.Kind == 0 {
		o.Kind = KindModel
	}
	switch {
	case !o.Kind.valid():
		w.err = fmt.Errorf("%s: there is no %v: %w", formatName, o.Kind, fs.ErrInvalid)
	case o.Count > 0 && o.Kind != KindModel:
		w.err = fmt.Errorf("%s: only models are streamed, not a %v: %w",
			formatName, o.Kind, fs.ErrInvalid)
	case o.Batch > 1 && o.Kind != KindTensor:
		w.err = fmt.Errorf("%s: Batch is for a tensor, not a %v: %w", formatName, o.Kind,
			fs.ErrInvalid)
	}
	if w.err == nil && o.Count > 0 {
		w.begin(KindModel)
		w.uint32(o.Count)
	}
	return w
}

// usable returns the error that every further call returns.
func (w *Writer) usable() error {
	if w.err == nil && w.ended {
		return fs.ErrClosed
	}
	return w.err
}

func (w *Writer) wrongKind(what string) error {
	return fmt.Errorf("%s: %s does not belong into a file of kind %v: %w",
		formatName, what, w.opts.Kind, fs.ErrInvalid)
}

// Add adds a tensor: that of a tensor file, or a value or statistic of a parameter. It
// must be dense, of float32, and column-major (see Reorder). A tensor of a Reader of this
// package goes to where it came from, as long as its name was not changed, and, for a
// statistic, its value is added too. Any other gets the path that its name makes when it
// is cut at dots, but one named PATH:STATISTIC, where PATH is a value that is added too,
// is a statistic of that.
//
// The tensor may be kept until Close: what is in memory is hashed, and a change of it is
// tensor.ErrChecksum in Close. An error leaves the Writer as it was.
func (w *Writer) Add(t *tensor.Tensor) error {
	p, err := w.place(t)
	if err != nil {
		return err
	}
	w.kept.Add(t.Name, t.Data)
	if w.opts.Kind == KindTensor {
		w.tensor, w.opts.Batch = t, p.Batch
		return nil
	}
	w.places[p.key()] = struct{}{}
	w.pending = append(w.pending, p)
	return nil
}

// Check reports whether Add would accept a tensor. What all tensors together do not make,
// such as one that is below another, Close reports. It reads no data.
func (w *Writer) Check(t *tensor.Tensor) error {
	_, err := w.place(t)
	return err
}

// place returns where a tensor goes, or why it cannot be added.
func (w *Writer) place(t *tensor.Tensor) (p pending, err error) {
	if err := w.usable(); err != nil {
		return p, err
	}
	switch {
	case w.opts.Kind == KindShape || w.opts.Kind == KindOptimizer:
		return p, w.wrongKind("a tensor")
	case w.opts.Count > 0:
		return p, fmt.Errorf("%s: a model that is streamed takes parameters, not tensors: %w",
			formatName, fs.ErrInvalid)
	}
	p = place(t)
	if w.opts.Kind == KindTensor && w.opts.Batch > 0 {
		p.Batch = w.opts.Batch
	}
	if err := w.opts.accepts(t, p.Batch); err != nil {
		return p, err
	}
	switch _, taken := w.places[p.key()]; {
	case w.tensor != nil:
		return p, fmt.Errorf("%s: a tensor file has one tensor: %w", formatName,
			tensor.ErrDuplicate)
	case taken:
		return p, fmt.Errorf("%s: tensor %s: %w", formatName, naming.Quote(t.Name),
			tensor.ErrDuplicate)
	}
	return p, nil
}

// AddAll adds all tensors. An error of ts, or the end of ctx, ends it.
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

// AddParameter adds a parameter with its statistics, under exactly its path. It may be
// kept until Close. An error leaves the Writer as it was, unless it comes from writing.
func (w *Writer) AddParameter(p *Parameter) error {
	if err := w.usable(); err != nil {
		return err
	}
	switch {
	case w.opts.Kind != KindModel && w.opts.Kind != KindParameter:
		return w.wrongKind("a parameter")
	case w.opts.Kind == KindModel && len(p.Path) == 0:
		return fmt.Errorf("%s: a parameter without a path: %w", formatName, fs.ErrInvalid)
	}
	if err := p.check(&w.opts); err != nil {
		return err
	}
	if w.opts.Count > 0 && uint32(len(w.paths)) == w.opts.Count {
		return fmt.Errorf("%s: more parameters than the %d announced: %w",
			formatName, w.opts.Count, fs.ErrInvalid)
	}
	key := Origin{Path: p.Path}.key()
	if _, taken := w.places[key]; taken {
		return clash(p.Path, p.Path)
	}
	w.places[key] = struct{}{}
	if w.opts.Count > 0 {
		w.paths = append(w.paths, p.Path)
		w.parameter(p)
		return w.err
	}
	c := *p
	c.Stats = slices.Clone(p.Stats)
	w.kept.Add(c.Value.Name, c.Value.Data)
	for _, s := range c.Stats {
		w.kept.Add(s.Tensor.Name, s.Tensor.Data)
	}
	w.params = append(w.params, &c)
	return nil
}

// SetShape gives the content of a shape file, which may have up to 2^32-1 elements: a
// shape alone is more than a tensor can have.
func (w *Writer) SetShape(s Shape) error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.opts.Kind != KindShape {
		return w.wrongKind("a shape")
	}
	if err := s.below(1 << 32); err != nil {
		return err
	}
	w.shape = &s
	return nil
}

// SetOptimizer gives the content of an optimizer file. Close writes the settings in the
// order in which they are.
func (w *Writer) SetOptimizer(o *Optimizer) error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.opts.Kind != KindOptimizer {
		return w.wrongKind("an optimizer")
	}
	if err := cmp.Or(uniqueNames(o.Uints), uniqueNames(o.Floats)); err != nil {
		return err
	}
	w.optimizer = o
	return nil
}

// Close writes what was not written yet and completes the file. After an error a file of
// Create is as it was before.
func (w *Writer) Close() error {
	if w.ended {
		return w.err
	}
	if w.err == nil {
		w.finish()
	}
	w.ended = true
	if w.file != nil {
		if w.err != nil {
			w.file.Abort()
		} else {
			w.fail(w.file.Close())
		}
	}
	return w.err
}

// Abort drops the file. After Close it does nothing.
func (w *Writer) Abort() {
	if w.ended {
		return
	}
	if w.file != nil {
		w.file.Abort()
	}
	w.ended, w.err = true, cmp.Or(w.err, fs.ErrClosed)
}

// WriteFile writes the tensors to the named file, which appears whole or not at
// all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	w.out = format.Until(ctx, w.out)
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.Close()
}
