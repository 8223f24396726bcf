package primitiv

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how a file is written. nil is the zero value: a model, with the
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
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)
}

// A Writer writes one file, with the methods of every Writer: Check, Add, AddAll, Close
// and Abort. Counts come before what they count, so that Add only registers a tensor, and
// Close writes everything. Tensors must be dense, of float32, and column-major (see
// Reorder). Add refuses others with errors.ErrUnsupported.
//
// Add takes the tensor of a tensor file, and values and statistics of parameters. A
// tensor of a Reader of this package goes to where it came from, as long as its name was
// not changed, and, for a statistic, its value is added too. Any other gets the path that
// its name makes when it is cut at dots, but one named PATH:STATISTIC, where PATH is a
// value that is added too, is a statistic of that. If a path is below another one, Close
// fails with tensor.ErrDuplicate.
type Writer struct {
	format.Writer[item]
	opts *WriterOptions
}

// An item is what a Writer was given.
type item struct {
	kind      Kind      // KindTensor for what Add was given
	placed              // KindTensor
	parameter Parameter // KindParameter
	shape     Shape
	optimizer *Optimizer
}

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	o := opts.complete()
	return &Writer{format.NewWriter(w, o.encoding()), o}
}

// Create returns a Writer of the file of that name, which appears whole when Close
// succeeds, or not at all.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	o := opts.complete()
	w, err := format.Create(name, o.encoding())
	if err != nil {
		return nil, err
	}
	return &Writer{w, o}, nil
}

// WriteFile writes a whole file: it appears with all tensors, or not at all. It has the
// descriptions of all tensors and at most 1 MiB of data in memory, and reads the data
// after the last tensor of ts: sources must stay open until then.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	return format.WriteFile(ctx, name, ts, opts.complete().encoding())
}

// complete returns a copy with a Kind.
func (o *WriterOptions) complete() *WriterOptions {
	var given WriterOptions
	if o != nil {
		given = *o
	}
	given.Kind = cmp.Or(given.Kind, KindModel)
	return &given
}

func (o *WriterOptions) encoding() *format.Encoding[item] {
	enc := &format.Encoding[item]{Format: errs, NoReplace: o.NoReplace, Progress: o.Progress,
		One: o.Kind != KindParameter && o.Kind != KindModel, AnyName: o.Kind == KindParameter,
		Item: func(t *tensor.Tensor) (item, error) {
			it := item{kind: KindTensor, placed: place(t)}
			if o.Kind == KindTensor && o.Batch > 0 {
				it.Batch = o.Batch
			}
			return it, o.checkTensor(t, t.Name, it.Batch)
		},
		Check: o.checkKind, Key: key, Encode: o.encode}
	switch {
	case !o.Kind.valid():
		enc.Err = errs.New(fs.ErrInvalid, "there is no %v", o.Kind)
	case o.Batch > 1 && o.Kind != KindTensor:
		enc.Err = errs.New(fs.ErrInvalid, "Batch is for a tensor, not a %v", o.Kind)
	}
	return enc
}

// key returns a string that no other place in a file has.
func key(_ string, it *item) string {
	if it.kind == KindParameter {
		return Origin{Path: it.parameter.Path}.key()
	}
	return it.key()
}

// checkKind refuses what does not belong into a file of the Kind.
func (o *WriterOptions) checkKind(_ string, it *item) error {
	switch {
	case it.kind == o.Kind, it.kind == KindTensor && o.Kind == KindParameter,
		(it.kind == KindTensor || it.kind == KindParameter) && o.Kind == KindModel:
		return nil
	}
	return errs.New(fs.ErrInvalid, "a %v does not belong into a file of kind %v", it.kind, o.Kind)
}

// checkTensor refuses a tensor that no file of the Kind can hold under that name.
func (o *WriterOptions) checkTensor(t *tensor.Tensor, name string, batch uint32) error {
	if err := t.Check(); err != nil {
		return errs.Wrap(-1, format.Field(name), err)
	}
	refuse := func(text string, args ...any) error {
		return errs.Tensor(name, errors.ErrUnsupported, text, args...)
	}
	switch size := t.Data.Size(); {
	case t.External:
		return refuse("its data is external")
	case !t.Dense() || len(t.Parts) > 0:
		return refuse("the format has only dense tensors")
	case t.DType != tensor.F32:
		return refuse("it is %v, the format has only float32", t.DType)
	case size < 0:
		return refuse("its size is only known after decoding")
	case int64(int(size)) != size:
		return refuse("%d bytes are beyond an int of this machine", size)
	case !o.Reorder && !columnMajor(t):
		return refuse("it is not column-major: see WriterOptions.Reorder")
	}
	_, err := shapeOf(t.Shape, batch)
	return errs.Wrap(-1, format.Field(name), err)
}

// checkParameter refuses a parameter that no file of the Kind can hold.
func (o *WriterOptions) checkParameter(p *Parameter) error {
	if o.Kind == KindModel && len(p.Path) == 0 {
		return errs.New(fs.ErrInvalid, "a parameter without a path")
	}
	if err := o.checkTensor(p.Value, p.Name(), 1); err != nil {
		return err
	}
	for i := range p.Stats {
		s := &p.Stats[i]
		name := p.Name() + ":" + s.Name
		if err := format.CheckWritten(s.Name, 0); err != nil {
			return errs.Wrap(-1, format.Field(name), err)
		}
		if err := o.checkTensor(s.Tensor, name, s.Batch); err != nil {
			return err
		}
	}
	_, dup := naming.Build(len(p.Stats), func(i int) string { return p.Stats[i].Name })
	if dup >= 0 {
		return errs.New(tensor.ErrDuplicate, "two statistics %s of %s",
			naming.Quote(p.Stats[dup].Name), quotePath(p.Path))
	}
	return nil
}

// AddParameter adds a parameter with its statistics, under exactly its path. Its data is
// read by Close, as the data of tensors.
func (w *Writer) AddParameter(p *Parameter) error {
	if err := w.opts.checkParameter(p); err != nil {
		return err
	}
	given := *p
	given.Stats = slices.Clone(p.Stats)
	data := []tensor.Blob{p.Value.Data}
	for _, s := range p.Stats {
		data = append(data, s.Tensor.Data)
	}
	return format.Register(&w.Writer, p.Name(), item{kind: KindParameter, parameter: given},
		data...)
}

// SetShape gives the content of a shape file, which may have up to 2^32-1 elements: a
// shape alone is more than a tensor can have.
func (w *Writer) SetShape(s Shape) error {
	if err := s.below(1 << 32); err != nil {
		return errs.Wrap(-1, "shape", err)
	}
	return format.Register(&w.Writer, "shape", item{kind: KindShape, shape: s})
}

// SetOptimizer gives the content of an optimizer file. Close writes the settings in the
// order in which they are.
func (w *Writer) SetOptimizer(o *Optimizer) error {
	if err := cmp.Or(uniqueNames(o.Uints), uniqueNames(o.Floats)); err != nil {
		return err
	}
	return format.Register(&w.Writer, "optimizer", item{kind: KindOptimizer, optimizer: o})
}
