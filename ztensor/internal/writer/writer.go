// Package writer has the code that the writers of both generations of zTensor share: it
// prepares and writes parts, adds tensors whose bytes come piece by piece, and carries
// over tensors of a file. The comment of package v2 has the order of calls.
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
	Err        error // why they are invalid
	Canonical  bool
	Digest     digest.Algorithm
	Level      int
	Attributes map[string]any
	Generator  string
	Alignment  int64
	KeepOrder  bool
	Progress   func(done, total int64)
}

// A Writer writes parts as tensors are added, and the manifest at the end. Packages v1
// and v2 embed it, and set the exported fields but Out before Init.
type Writer struct {
	format.Writer[Item]
	Out   *Out // nil before Begin
	Magic string
	// Limit is the size of the largest part that is read or compressed in memory before
	// it is written; others are streamed.
	Limit int64
	// Compress returns the stored bytes of data; nil if nothing is compressed.
	Compress func(all []byte) []byte
	// Stream returns a writer of data of size bytes, -1 if that is not known, that writes
	// the stored bytes to out; nil if nothing is compressed.
	Stream func(ctx context.Context, size int64, out io.Writer) io.WriteCloser
	// DigestsStored says that digests are of the stored bytes, not of the data.
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
	Object []byte           // its entry in the manifest, if that is complete
	Memory format.Checksums // of the caller's memory, if the tensor is written later

	examined bool
	carried  bool // T is of the file that an Edit or Append revises
}

// Init makes w a Writer to out. If owned is set, out is a format.Target, which Close and
// Abort end. enc.Item returns an Item that has only the parts of a tensor.
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

// Begin writes the magic number, the first time.
func (w *Writer) Begin(out *format.Output) {
	if w.Out == nil {
		w.Out = NewOut(out, 0)
		w.Out.Write([]byte(w.Magic))
	}
}

// item returns the Item of a tensor: the one that AddAll has prepared, or a new one.
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

// AddAll adds the tensors of ts, after preparing their parts on all cores.
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

// checkContent fails for a tensor that no version can represent.
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

// TensorError adds the name of the tensor to an error.
func TensorError(name string, err error) error {
	return core.Errs.Wrap(-1, format.Field(name), core.Unnamed(err))
}

// PutManifest writes a manifest. It fails with tensor.ErrLimit above 1 GiB, which readers
// refuse.
func (w *Writer) PutManifest(b []byte) error {
	if len(b) > 1<<30 {
		return core.Errs.New(tensor.ErrLimit, "a manifest of %d bytes, readers take 1 GiB",
			len(b))
	}
	_, err := w.Out.Write(b)
	return err
}

// Attributes encodes a map, sorted by order. check returns the encoding to write for each
// encoded value.
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

// Measure returns t with parts of known size. It decodes parts whose size is not known.
func Measure(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t == nil || t.Dense() || t.Size() >= 0 {
		return t, nil
	}
	out := *t
	out.Parts = slices.Clone(t.Parts)
	for i := range out.Parts {
		p := &out.Parts[i]
		if p.Data.Size() >= 0 {
			continue
		}
		n, err := p.Data.WriteTo(format.Until(ctx, io.Discard))
		if err != nil {
			return nil, err
		}
		p.Data = tensor.BlobFunc(n, p.Data.Open)
	}
	return &out, nil
}

// NewEncoder returns an encoder that works in the goroutine of its caller, so that its
// output depends on its input and level only. It takes 2, 3, 9 or 40 MiB of memory, by
// level.
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
		// Below "better", blocks without repetitions would not be compressed. Weights
		// have no repetitions, but some bytes are more frequent than others.
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window),
		zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true),
	}, options...)...)
}
