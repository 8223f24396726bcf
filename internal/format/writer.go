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
	// Err is the error of invalid options; every call of the Writer returns it.
	Err error
	// NoReplace makes Create fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far and the size of the
	// file.
	Progress func(done, total int64)

	// Item returns the item of a tensor, whose description was checked. It fails if no
	// file can have such a tensor. It reads no data.
	Item func(t *tensor.Tensor) (I, error)
	// One says that a file has a single item, without a name.
	One bool
	// AnyName says that a name may be longer than the names that readers accept, because
	// the file does not have it, or in another form.
	AnyName bool
	// Unnamed says that several tensors may have the empty name.
	Unnamed bool
	// Check refuses an item that a file cannot hold under that name. nil refuses none.
	Check func(name string, item *I) error
	// Key returns what must differ between the items of a file; nil for their names.
	Key func(name string, item *I) string
	// Equivalents returns other keys that readers take for the same; nil if there are
	// none.
	Equivalents func(key string) []string
	// Examine reads the data that decides whether an item is refused, before it is
	// written; nil if no data does.
	Examine func(ctx context.Context, item *I) error
	// Append writes an item when it is added. If it is nil, Encode writes all items.
	Append func(out *Output, item *I) error
	// Encode completes the file, and without Append writes the items.
	Encode func(out *Output, items []I) error
}

// A Writer writes a file of tensors by an Encoding. It is for one goroutine at a time.
// The zero value is not usable.
type Writer[I any] struct {
	Output
	enc      *Encoding[I]
	items    []I
	keys     map[string]bool // that are taken
	original map[string]bool // keys of the file that an Edit changes
	sums     Checksums
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

// OfFile returns a Writer to f, which it closes or aborts.
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

// Encode writes a file to w by enc.Encode without items, for an Edit or a builder.
func Encode[I any](ctx context.Context, w io.Writer, enc *Encoding[I]) error {
	out := NewWriter(w, enc)
	return Finish(ctx, &out)
}

// EncodeFile is Encode for the file of that name, which appears whole or not at all.
func EncodeFile[I any](ctx context.Context, name string, enc *Encoding[I]) error {
	w, err := Create(name, enc)
	if err != nil {
		return err
	}
	return Finish(ctx, &w)
}

// WriteAll adds the tensors of ts, and completes the file. After an error it drops the
// file.
func WriteAll[I any](ctx context.Context, w *Writer[I],
	ts iter.Seq2[*tensor.Tensor, error]) error {
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return Finish(ctx, w)
}

// Usable returns the error of an Add that fails for every tensor, as after Close.
func Usable[I any](w *Writer[I]) error { return w.usable() }

// Free fails with tensor.ErrDuplicate if the name is taken.
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

// ItemOf returns the item of a tensor without adding it. It fails as Add does.
func ItemOf[I any](w *Writer[I], t *tensor.Tensor) (I, error) { return w.item(t) }

func (w *Writer[I]) item(t *tensor.Tensor) (item I, err error) {
	if err := cmp.Or(w.usable(), w.enc.Format.Wrap(-1, "", t.Check())); err != nil {
		return item, err
	}
	if limit := DefaultLimits().MaxRank; int64(len(t.Shape)) > limit {
		return item, w.enc.Format.Tensor(t.Name, errors.ErrUnsupported,
			"%d dimensions, readers take %d", len(t.Shape), limit)
	}
	item, err = w.enc.Item(t)
	if err == nil {
		err = w.check(t.Name, &item)
	}
	return item, err
}

// check refuses an item that cannot be added under that name. Readers with the default
// Limits refuse longer names than it allows.
func (w *Writer[I]) check(name string, item *I) error {
	limit := DefaultLimits().MaxName
	if int64(len(name)) > limit && !w.enc.One && !w.enc.AnyName {
		return w.enc.Format.Tensor(name, errors.ErrUnsupported,
			"a name of %d bytes, readers take %d", len(name), limit)
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

// checkTaken fails with tensor.ErrDuplicate if an item has the key, or one of its
// Equivalents. Two equivalent keys are allowed if the original of an Edit has both. The
// name is for the error.
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
	if w.enc.Equivalents != nil {
		for _, other := range w.enc.Equivalents(key) {
			if w.keys[other] && !(w.original[key] && w.original[other]) {
				return w.enc.Format.Tensor(name, tensor.ErrDuplicate,
					"readers take it and %s for one", naming.Quote(other))
			}
		}
	}
	return nil
}

// Add adds a tensor. It fails as Check does. Unless the format writes each tensor at
// once, Close reads the data, which must stay readable and unchanged until then. Close
// compares samples of memory, and fails with tensor.ErrChecksum if they have changed.
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

// register adds an item that was checked.
func (w *Writer[I]) register(key string, item I) error {
	w.keys[key] = true
	if w.enc.Append != nil {
		w.err = fs.ErrClosed // stays if a source panics
		w.err = w.enc.Append(&w.Output, &item)
		return w.err
	}
	w.items = append(w.items, item)
	return nil
}

// CheckItem fails as Register does, without adding the item.
func CheckItem[I any](w *Writer[I], name string, item I) error {
	if err := w.usable(); err != nil {
		return err
	}
	return w.check(name, &item)
}

// Register adds an item that does not come from a tensor, such as a blob. data is its
// memory of the caller, which Close checks. It fails as Add does.
func Register[I any](w *Writer[I], name string, item I, data ...tensor.Blob) error {
	if err := CheckItem(w, name, item); err != nil {
		return err
	}
	for _, b := range data {
		w.sums.Add(name, b)
	}
	return w.register(w.key(name, &item), item)
}

// AddAll adds the tensors of ts. It stops and fails if Add refuses a tensor, if ts fails,
// or when ctx ends.
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

// Close writes what is not written yet, and completes the file. A second Close returns
// the same error.
func (w *Writer[I]) Close() error { return Finish(context.Background(), w) }

// Finish is Close with a context: it fails when ctx ends.
func Finish[I any](ctx context.Context, w *Writer[I]) error {
	if w.done {
		return w.err
	}
	w.out.ctx = ctx
	err := w.usable()
	w.done, w.err = true, fs.ErrClosed // stays if a source panics
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
