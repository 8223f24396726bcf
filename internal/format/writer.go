package format

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Encoding is how a format writes tensors. An item is a tensor as the format sees it.
type Encoding[I any] struct {
	Format Errors
	// Err is what is wrong with the options of the Writer; every call then returns it.
	Err error
	// NoReplace makes Create fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called now and then with the bytes written and in all.
	Progress func(done, total int64)

	// Item returns what a file has of a tensor, whose description was checked. It fails
	// if no file can have such a tensor. It reads no data.
	Item func(t *tensor.Tensor) (I, error)
	// One says that a file has one item, whose name is lost.
	One bool
	// AnyName says that a file has no names of tensors, or not as they are: they may be
	// longer than the names that readers take.
	AnyName bool
	// Unnamed says that tensors may have the empty name, which then is none.
	Unnamed bool
	// Check reports why a file cannot hold an item under that name; nil: it always can.
	Check func(name string, item *I) error
	// Key returns what must differ between the items of a file; nil for their names.
	Key func(name string, item *I) string
	// Others returns further keys that readers take for this one. nil: there are none.
	Others func(key string) []string
	// Examine reads what decides whether an item is refused, before it is written; nil:
	// nothing does.
	Examine func(ctx context.Context, item *I) error
	// Append writes an item at once. nil: Encode writes all items.
	Append func(out *Output, item *I) error
	// Encode completes the file of these items.
	Encode func(out *Output, items []I) error
}

// A Writer writes a file of tensors by an Encoding. It is for one goroutine at a time.
// The zero value is not usable.
type Writer[I any] struct {
	Output
	enc   *Encoding[I]
	items []I
	keys  map[string]bool // that are taken
	was   map[string]bool // keys of the file that an Edit changes
	sums  Checksums
}

// NewWriter returns a Writer to w, which it neither seeks nor closes.
func NewWriter[I any](w io.Writer, enc *Encoding[I]) Writer[I] {
	out := contextWriter{ctx: context.Background(), w: w, progress: enc.Progress}
	return Writer[I]{Output: Output{out: out}, enc: enc, keys: map[string]bool{}}
}

// Create returns a Writer of the file of that name, which appears whole when Close
// succeeds, or not at all.
func Create[I any](name string, enc *Encoding[I]) (Writer[I], error) {
	if enc.Err != nil {
		return Writer[I]{}, enc.Err
	}
	create := atomicfile.Create
	if enc.NoReplace {
		create = atomicfile.CreateNew
	}
	f, err := create(name)
	if err != nil {
		return Writer[I]{}, err
	}
	return OfFile(f, enc), nil
}

// OfFile returns a Writer of a file that was begun, which it takes over.
func OfFile[I any](f Target, enc *Encoding[I]) Writer[I] {
	w := NewWriter(f, enc)
	w.file = f
	return w
}

// WriteFile writes a whole file of the tensors of ts: it appears with all of them, or not
// at all.
func WriteFile[I any](ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	enc *Encoding[I]) error {
	w, err := Create(name, enc)
	if err != nil {
		return err
	}
	return WriteAll(ctx, &w, ts)
}

// Encode writes what enc makes of no tensors to w: the file of an Edit or a builder.
func Encode[I any](ctx context.Context, w io.Writer, enc *Encoding[I]) error {
	out := NewWriter(w, enc)
	return Finish(ctx, &out)
}

// EncodeFile is Encode to the file of that name, which appears whole or not at all.
func EncodeFile[I any](ctx context.Context, name string, enc *Encoding[I]) error {
	w, err := Create(name, enc)
	if err != nil {
		return err
	}
	return Finish(ctx, &w)
}

// WriteAll adds the tensors of ts, and completes the file. After an error it is dropped.
func WriteAll[I any](ctx context.Context, w *Writer[I],
	ts iter.Seq2[*tensor.Tensor, error]) error {
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return Finish(ctx, w)
}

// Usable returns why nothing can be added any more.
func Usable[I any](w *Writer[I]) error { return w.usable() }

// Free returns why a name that a file can have is taken.
func Free[I any](w *Writer[I], name string) error { return w.checkTaken(name, name) }

func (w *Writer[I]) usable() error {
	switch {
	case w.enc.Err != nil:
		return w.enc.Err
	case w.done:
		return w.enc.Format.New(fs.ErrClosed, "the writer")
	}
	return w.err
}

// Check reports why Add would refuse the tensor. It reads no data.
func (w *Writer[I]) Check(t *tensor.Tensor) error {
	_, err := w.item(t)
	return err
}

// ItemOf returns the item of a tensor that Add would take, without adding it.
func ItemOf[I any](w *Writer[I], t *tensor.Tensor) (I, error) { return w.item(t) }

func (w *Writer[I]) item(t *tensor.Tensor) (item I, err error) {
	if err := cmp.Or(w.usable(), w.enc.Format.Wrap(-1, "", t.Check())); err != nil {
		return item, err
	}
	if most := DefaultLimits().MaxRank; int64(len(t.Shape)) > most {
		return item, w.enc.Format.Tensor(t.Name, errors.ErrUnsupported,
			"%d dimensions, readers take %d", len(t.Shape), most)
	}
	item, err = w.enc.Item(t)
	if err == nil {
		err = w.check(t.Name, &item)
	}
	return item, err
}

// check reports why an item cannot be added under that name. No Reader opens a name of
// more than 1 MiB unless its Limits are raised.
func (w *Writer[I]) check(name string, item *I) error {
	if most := DefaultLimits().MaxName; int64(len(name)) > most && !w.enc.One && !w.enc.AnyName {
		return w.enc.Format.Tensor(name, errors.ErrUnsupported,
			"a name of %d bytes, readers take %d", len(name), most)
	}
	if w.enc.Check != nil {
		if err := w.enc.Check(name, item); err != nil {
			return err
		}
	}
	return w.checkTaken(name, w.key(name, item))
}

func (w *Writer[I]) key(name string, item *I) string {
	if w.enc.Key != nil {
		return w.enc.Key(name, item)
	}
	return name
}

// checkTaken reports whether a key is the key of another item, or one that readers take
// for it, unless the original of an Edit has both. Errors have the name.
func (w *Writer[I]) checkTaken(name, key string) error {
	switch {
	case w.enc.One && len(w.keys) > 0:
		return w.enc.Format.Tensor(name, tensor.ErrDuplicate,
			"a file of this kind has one, and this one has it")
	case key == "" && w.enc.Unnamed:
		return nil
	case w.keys[key]:
		return w.enc.Format.Tensor(name, tensor.ErrDuplicate, "a second tensor of that name")
	}
	if w.enc.Others != nil {
		for _, other := range w.enc.Others(key) {
			if w.keys[other] && !(w.was[key] && w.was[other]) {
				return w.enc.Format.Tensor(name, tensor.ErrDuplicate,
					"readers take it and %s for one",
					naming.Quote(other))
			}
		}
	}
	return nil
}

// Add adds a tensor. Unless the format streams, its data is read by Close: it must stay
// readable until then and unchanged. Memory that has changed is tensor.ErrChecksum of
// Close, where samples of it show that. A tensor that Check refuses is refused.
func (w *Writer[I]) Add(t *tensor.Tensor) error {
	item, err := w.item(t)
	if err != nil {
		return err
	}
	if w.enc.Examine != nil {
		if err := w.enc.Examine(w.out.ctx, &item); err != nil {
			return err
		}
	}
	if w.enc.Append == nil {
		w.sums.AddTensor(t)
	}
	return w.register(w.key(t.Name, &item), item)
}

func (w *Writer[I]) register(key string, item I) error {
	w.keys[key] = true
	if w.enc.Append != nil {
		w.err = fs.ErrClosed // if a source panics
		w.err = w.enc.Append(&w.Output, &item)
		return w.err
	}
	w.items = append(w.items, item)
	return nil
}

// CheckItem reports why Register would refuse an item.
func CheckItem[I any](w *Writer[I], name string, item I) error {
	if err := w.usable(); err != nil {
		return err
	}
	return w.check(name, &item)
}

// Register adds an item that need not come from a tensor, with the data that it has in
// memory of the caller. It makes the checks of Add.
func Register[I any](w *Writer[I], name string, item I, data ...tensor.Blob) error {
	if err := CheckItem(w, name, item); err != nil {
		return err
	}
	for _, b := range data {
		w.sums.Add(name, b)
	}
	return w.register(w.key(name, &item), item)
}

// AddAll adds the tensors of ts until one is refused, ts fails, or ctx ends.
func (w *Writer[I]) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	w.out.ctx = ctx
	ended := false
	defer func() {
		w.out.ctx = context.Background()
		if !ended {
			w.err = fs.ErrClosed // a source has panicked
		}
	}()
	err := w.addAll(ctx, ts)
	ended = true
	return err
}

func (w *Writer[I]) addAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	for t, err := range ts {
		if err = cmp.Or(err, context.Cause(ctx)); err == nil {
			err = w.Add(t)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Close writes what was not written yet, and completes the file. A second Close returns
// what the first did.
func (w *Writer[I]) Close() error { return Finish(context.Background(), w) }

// Finish is Close that ends with its context.
func Finish[I any](ctx context.Context, w *Writer[I]) error {
	if w.done {
		return w.err
	}
	w.out.ctx = ctx
	err := w.usable()
	w.done, w.err = true, fs.ErrClosed // if a source panics
	if w.file != nil {
		defer w.file.Abort() // which does nothing after its Close
	}
	if err == nil {
		err = w.enc.Format.Wrap(-1, "", w.sums.Check())
	}
	if err == nil {
		err = w.enc.Encode(&w.Output, w.items)
	}
	w.items, w.keys, w.sums = nil, nil, Checksums{}
	return w.end(err)
}
