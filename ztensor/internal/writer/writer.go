// Package writer has what the writers of both generations of zTensor have in common: what
// a file has of a tensor, how its parts are prepared and put, tensors that come piece by
// piece, and revisions. The comment of package v2 says what calls what.
package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
)

// Settings are the options of a writer, as package ztensor has them.
type Settings struct {
	Err        error // what is wrong with them
	Canonical  bool
	Digest     digest.Algorithm
	Level      int
	Attributes map[string]any
	Generator  string
	Alignment  int64
	KeepOrder  bool
	Progress   func(done, total int64)
}

// A Writer writes parts as tensors are added, and a manifest at the end. The writer of a
// generation sets the fields of its choice before Init.
type Writer struct {
	format.Writer[Item]
	Out   *Out // nil before Begin
	Magic string
	// Limit is the size of the largest part that is read or compressed in memory before
	// it is written; others are streamed.
	Limit int64
	// Compress returns data in memory as it is stored; nil: as it is.
	Compress func(all []byte) []byte
	// Stream returns what writes data of size bytes, -1 if that is not known, to out as
	// it is stored; nil: as it is.
	Stream func(ctx context.Context, size int64, out io.Writer) io.WriteCloser
	// DigestsStored says that digests are of what is stored, not of the data.
	DigestsStored bool

	enc       *format.Encoding[Item]
	revision  *revision
	prepared  *Item           // that AddAll has prepared
	streaming *streamedTensor // a tensor whose bytes are coming
}

// An Item is a tensor that is to be written, or one that is in a file already.
type Item struct {
	Name   string
	T      *tensor.Tensor
	Parts  []Part           // in the order of the file
	Object []byte           // what the manifest says of one whose data stays where it is
	Memory format.Checksums // of the tensor, where it is written later

	examined bool
	carried  bool // T is of the original of a revision
}

// Init makes a Writer to out, which it completes if owned is set: a format.Target. Item
// of enc returns the parts of a tensor, in the order of the file.
func (w *Writer) Init(out io.Writer, owned bool, s Settings, enc format.Encoding[Item]) {
	parts, examine := enc.Item, enc.Examine
	enc.Format, enc.Err, enc.Progress = core.Errs, s.Err, s.Progress
	enc.Item = func(t *tensor.Tensor) (Item, error) { return w.item(t, parts) }
	enc.Examine = func(ctx context.Context, it *Item) error {
		if it.examined || it.T == nil {
			return nil
		}
		it.examined = true
		return examine(ctx, it)
	}
	w.enc = &enc
	if owned {
		w.Writer = format.OfFile(out.(format.Target), w.enc)
	} else {
		w.Writer = format.NewWriter(out, w.enc)
	}
}

// Begin begins the file, unless that was done.
func (w *Writer) Begin(out *format.Output) {
	if w.Out == nil {
		w.Out = NewOut(out, 0)
		w.Out.Write([]byte(w.Magic))
	}
}

// item returns what the file has of a tensor.
func (w *Writer) item(t *tensor.Tensor, parts func(t *tensor.Tensor) (Item, error)) (Item, error) {
	if r := w.prepared; r != nil && r.T == t {
		w.prepared = nil
		return *r, nil
	}
	err := checkContent(t)
	var it Item
	if err == nil {
		it, err = parts(t)
	}
	if err != nil {
		return it, TensorError(t.Name, err)
	}
	it.Name, it.T = t.Name, t
	return it, nil
}

// AddAll adds the tensors of ts, prepared on all cores.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	plan := func(t *tensor.Tensor) (*Item, error) {
		it, err := format.ItemOf(&w.Writer, t)
		if err == nil {
			err = w.enc.Examine(ctx, &it)
		}
		if err != nil {
			return nil, err
		}
		it.Memory.AddTensor(t)
		return &it, nil
	}
	return w.Writer.AddAll(ctx, func(yield func(*tensor.Tensor, error) bool) {
		for it, err := range w.PrepareAhead(ctx, func(yield func(*Item, error) bool) {
			for t, err := range ts {
				var it *Item
				if err = cmp.Or(err, context.Cause(ctx)); err == nil {
					it, err = plan(t)
				}
				if !yield(it, err) {
					return
				}
			}
		}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if w.prepared = it; !yield(it.T, nil) {
				return
			}
		}
	})
}

// Create begins a dense tensor whose bytes come piece by piece. Until it is closed, every
// other call fails.
func (w *Writer) Create(name string, dtype tensor.DType,
	shape tensor.Shape) (io.WriteCloser, error) {
	p, err := newStreamed(name, dtype, shape, w.Check, w.Add,
		func() { w.streaming, w.enc.Err = nil, nil })
	if err != nil {
		return nil, err
	}
	w.streaming = p
	w.enc.Err = core.Errs.New(fs.ErrInvalid, "tensor %s is not closed yet", naming.Quote(name))
	return p, nil
}

// Close completes the file.
func (w *Writer) Close() error {
	err := w.Writer.Close()
	w.stop()
	return err
}

// Abort drops the file. After Close it does nothing.
func (w *Writer) Abort() {
	w.Writer.Abort()
	w.stop()
}

func (w *Writer) stop() {
	if w.streaming != nil {
		w.streaming.abandon(fs.ErrClosed)
	}
}

// Usable returns why nothing can be added any more.
func (w *Writer) Usable() error { return format.Usable(&w.Writer) }

// checkContent reports what no version can hold.
func checkContent(t *tensor.Tensor) error {
	unfit := func(text string, args ...any) error {
		return fmt.Errorf("%w: "+text, append([]any{errors.ErrUnsupported}, args...)...)
	}
	switch {
	case !t.Order.RowMajor():
		return unfit("its order is %v, and the format is row-major", []int(t.Order))
	case t.External:
		return unfit("its data is in another file")
	case !utf8.ValidString(t.Scheme):
		return unfit("the scheme is not UTF-8")
	}
	product, overflow := uint64(1), uint64(0)
	for _, d := range t.Shape { // from the left, as readers do: a later 0 does not help
		if overflow, product = bits.Mul64(product, uint64(d)); overflow != 0 {
			return unfit("the product of %v from the left overflows", t.Shape)
		}
	}
	roles := map[string]bool{"data": t.Dense()}
	for i := range t.Parts {
		role := t.Parts[i].Role
		if roles[role] {
			return fmt.Errorf("%w: two parts of role %s", tensor.ErrDuplicate, naming.Quote(role))
		}
		if !utf8.ValidString(role) {
			return unfit("a role is not UTF-8")
		}
		roles[role] = true
	}
	return nil
}

// TensorError adds the name of its tensor to an error.
func TensorError(name string, err error) error {
	return core.Errs.Wrap(-1, format.Field(name), core.Unnamed(err))
}

// PutManifest writes a manifest, unless no reader takes it.
func (w *Writer) PutManifest(b []byte) error {
	if len(b) > 1<<30 {
		return core.Errs.New(tensor.ErrLimit, "a manifest of %d bytes, readers take 1 GiB",
			len(b))
	}
	_, err := w.Out.Write(b)
	return err
}

// Attributes encodes a map with its names in that order. check returns each value as it
// is to be written.
func Attributes(attributes map[string]any, order func(a, b string) int,
	check func(name string, value []byte) ([]byte, error)) ([]byte, error) {
	all := make([]cbor.Pair, 0, len(attributes))
	for _, name := range slices.SortedFunc(maps.Keys(attributes), order) {
		v, err := cbor.Marshal(attributes[name])
		if err == nil && !utf8.ValidString(name) {
			err = fmt.Errorf("%w: the name is not UTF-8", errors.ErrUnsupported)
		}
		if err == nil {
			v, err = check(name, v)
		}
		if err != nil {
			return nil, core.Errs.Wrap(-1, "attributes["+naming.Quote(name)+"]", err)
		}
		all = append(all, cbor.PairOf(name, v))
	}
	return cbor.AppendPairs(nil, all, false), nil
}

// Measure is t with parts whose size is known, which takes decoding the others.
func Measure(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil || t.Dense() || t.Size() >= 0 {
		return t, nil
	}
	as := *t
	as.Parts = slices.Clone(t.Parts)
	for i := range as.Parts {
		p := &as.Parts[i]
		if p.Data.Size() >= 0 {
			continue
		}
		n, err := p.Data.WriteTo(format.Until(ctx, io.Discard))
		if err != nil {
			return nil, err
		}
		p.Data = tensor.BlobFunc(n, p.Data.Open)
	}
	return &as, nil
}

// NewEncoder makes an encoder that works in the goroutine of its caller, so that its
// output depends on nothing but its input. Windows and tables are most of its memory,
// which is 2, 3, 9 and 40 MiB, by level.
func NewEncoder(level int, options ...zstd.EOption) (*zstd.Encoder, error) {
	speed, window := zstd.SpeedBestCompression, 4<<20
	switch {
	case level < 3:
		speed, window = zstd.SpeedFastest, 1<<20
	case level < 7:
		speed, window = zstd.SpeedDefault, 1<<20
	case level < 16:
		speed = zstd.SpeedBetterCompression
	}
	return zstd.NewWriter(nil, append([]zstd.EOption{
		zstd.WithEncoderLevel(speed),
		// Below "better" blocks without repetitions would be stored as they are; weights
		// have none, but bytes of uneven frequency.
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window),
		zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true),
	}, options...)...)
}
