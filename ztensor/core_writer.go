package ztensor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"unicode/utf8"

	fxcbor "github.com/fxamacker/cbor/v2"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// settings are the options of a writer: those of package ztensor.
type settings struct {
	Version    string
	Canonical  bool
	Digest     Digest
	Level      int
	Attributes map[string]any
	Generator  string
	Alignment  int64
	KeepOrder  bool
}

// A writer writes a file of any version.
type writer struct {
	w      io.Writer
	flush  func() error // of w
	file   target       // nil unless the writer has a file of its own
	old    io.Closer    // the file that is continued in its place; nil for none
	layout layout
	digest Digest
	level  int

	off        int64           // bytes written
	names      map[string]bool // taken
	kept       map[string]bool // those of tensors that are taken over from another file
	attributes []byte          // of the file, a CBOR map
	own        map[string][]byte

	buf   []byte
	zeros [4096]byte // for padding
	part  *part      // that Create returned and nobody closed yet
	err   error      // final
	done  bool
}

// A layout is what tells one generation of the container from the others when
// writing.
type layout interface {
	magic() string
	// check says what of a tensor the layout cannot hold; an error wraps
	// errors.ErrUnsupported.
	check(w *writer, t *tensor.Tensor) error
	// add writes a tensor, or keeps it; addAll writes all that ts yields.
	add(ctx context.Context, w *writer, t *tensor.Tensor) error
	addAll(ctx context.Context, w *writer, ts iter.Seq2[*tensor.Tensor, error]) error
	// create begins a dense tensor of size bytes that comes piece by piece.
	create(w *writer, t *tensor.Tensor, size int64) (io.WriteCloser, error)
	// appendAttributes encodes attributes whose values are that deep in the manifest.
	appendAttributes(attributes map[string]any, depth int) ([]byte, error)
	// checkAttributes reports why a tensor cannot have these attributes.
	checkAttributes(name string, encoded []byte) error
	// carry takes over what an edition keeps of its original, under new names.
	carry(ctx context.Context, w *writer, r *file, names map[string]string) error
	// link adds tensors that stay in another file.
	link(w *writer, shard shardID, tensors []object) error
	// finish pads and writes what comes after the data.
	finish(w *writer) error
}

// newWriter returns a writer on w, which must be started.
func newWriter(w io.Writer) *writer {
	b := bufio.NewWriterSize(w, 256<<10)
	return &writer{w: b, flush: b.Flush}
}

// newFileWriter returns a writer on a file of its own.
func newFileWriter(f target) *writer {
	return &writer{w: f, file: f, flush: func() error { return nil }}
}

// begin takes over the settings, and begins the file.
func (w *writer) begin(l layout, o settings) {
	if w.prepare(l, o); w.err == nil {
		w.write([]byte(l.magic()))
	}
}

// prepare takes over the settings.
func (w *writer) prepare(l layout, o settings) {
	w.layout, w.digest, w.level = l, o.Digest, o.Level
	w.names, w.kept, w.own = map[string]bool{}, map[string]bool{}, map[string][]byte{}
	if len(o.Attributes) > 0 {
		w.attributes, w.err = l.appendAttributes(o.Attributes, 2)
	}
}

// Add adds a tensor.
func (w *writer) Add(t *tensor.Tensor) error {
	return w.adding(func() error { return w.layout.add(context.Background(), w, t) })
}

// AddAll adds all tensors that ts yields.
func (w *writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	return w.adding(func() error { return w.layout.addAll(ctx, w, ts) })
}

// Link adds tensors of r that stay in its file.
func (w *writer) Link(shard shardID, r *file, names []string) error {
	if err := w.usable(); err != nil {
		return err
	}
	tensors, err := r.generation.linked(shard, names)
	if err != nil {
		return err
	}
	for _, o := range tensors {
		if w.names[o.name] {
			return fmt.Errorf("ztensor: tensor %s: %w: a second tensor of that name", quote.Name(o.name), tensor.ErrDuplicate)
		}
	}
	if err := w.layout.link(w, shard, tensors); err != nil {
		return err
	}
	for _, o := range tensors {
		w.names[o.name], w.kept[o.name] = true, true
	}
	return nil
}

const (
	// inFlight bounds the memory of what is prepared and not written yet.
	inFlight = 32 << 20
	// maxPrepared is the size of the largest component that is prepared in memory before it
	// is written; others are streamed.
	maxPrepared = 8 << 20
	// jobSize is how many bytes of small tensors make a job.
	jobSize = 256 << 10
)

// adding calls f, which adds tensors. A panic of theirs is final for w.
func (w *writer) adding(f func() error) error {
	if err := w.usable(); err != nil {
		return err
	}
	completed := false
	defer func() {
		if !completed {
			w.fail(errors.New("ztensor: a panic ended writing"))
		}
	}()
	err := f()
	completed = true
	return err
}

// copyFrom writes the bytes of r from one offset to another.
func (w *writer) copyFrom(ctx context.Context, r *file, from, to int64) error {
	if w.buf == nil {
		w.buf = make([]byte, pieceSize)
	}
	for from < to && w.err == nil {
		if err := ctx.Err(); err != nil {
			return w.fail(err)
		}
		p := w.buf[:min(int64(len(w.buf)), to-from)]
		if _, err := r.src.ReadAt(p, from); err != nil {
			return w.fail(r.placed(from, "", err))
		}
		w.write(p)
		from += int64(len(p))
	}
	return w.err
}

func (w *writer) broken(t *tensor.Tensor, role string, err error) error {
	if w.err != nil {
		return w.err // of writing, which says enough
	}
	return w.fail(fmt.Errorf("ztensor: tensor %s, %s: %w", quote.Name(t.Name), role, err))
}

// copyExtents writes pieces of r in the order in which they are there, those of
// several tensors once, and returns where they are now.
func (w *writer) copyExtents(ctx context.Context, r *file, order []extent, alignment int64) (map[extent]int64, error) {
	slices.SortFunc(order, extent.compare)
	places := map[extent]int64{}
	for _, e := range slices.Compact(order) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if e.length == 0 {
			at, ok := align.Up(w.off, alignment)
			if !ok {
				return nil, fmt.Errorf("ztensor: %w: a file beyond 2^63 bytes", tensor.ErrLimit)
			}
			places[e] = at
			continue
		}
		if err := w.pad(alignment); err != nil {
			return nil, err
		}
		places[e] = w.off
		if err := w.copyFrom(ctx, r, e.off, e.off+e.length); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// unnamed is what an error of package sparse says of a tensor, without its name.
func unnamed(err error) error {
	var named *sparse.Error
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

func sparseError(t *tensor.Tensor, err error) error {
	return fmt.Errorf("ztensor: tensor %s: %w", quote.Name(t.Name), unnamed(err))
}

// unlinkable is the error of a shard that cannot be referred to.
func unlinkable(shard shardID, format string, args ...any) error {
	return fmt.Errorf("ztensor: shard %s: %w: "+format, append([]any{quote.Name(shard.Name), errors.ErrUnsupported}, args...)...)
}

// A target is a file on its way: what was written is in it after Close, and gone
// after Abort.
type target interface {
	io.Writer
	Close() error
	Abort()
}

// Check reports why a tensor cannot be added.
func (w *writer) Check(t *tensor.Tensor) error {
	if err := w.usable(); err != nil {
		return err
	}
	return w.check(t)
}

var indexRoles = []string{"indices", "indptr", "coords"}

// check reports what prevents a tensor from being added, whatever its data.
func (w *writer) check(t *tensor.Tensor) error {
	if t == nil {
		return errNil
	}
	fail := func(err error) error { return fmt.Errorf("ztensor: tensor %s: %w", quote.Name(t.Name), err) }
	if err := t.Check(); err != nil {
		return err
	}
	if !utf8.ValidString(t.Name) {
		return fail(fmt.Errorf("%w: the name is not UTF-8", errors.ErrUnsupported))
	}
	if w.names[t.Name] {
		return fail(fmt.Errorf("%w: a second tensor of that name", tensor.ErrDuplicate))
	}
	if !t.Order.RowMajor() {
		return fail(fmt.Errorf("%w: its order is %v, and the format is row-major", errors.ErrUnsupported, []int(t.Order)))
	}
	if t.External {
		return fail(fmt.Errorf("%w: its data is in another file", errors.ErrUnsupported))
	}
	if !utf8.ValidString(t.Scheme) {
		return fail(fmt.Errorf("%w: the scheme is not UTF-8", errors.ErrUnsupported))
	}
	roles := map[string]bool{"data": t.Dense()}
	for i := range t.Parts {
		role := t.Parts[i].Role
		if roles[role] {
			return fail(fmt.Errorf("%w: two parts of role %s", tensor.ErrDuplicate, quote.Name(role)))
		}
		if !utf8.ValidString(role) {
			return fail(fmt.Errorf("%w: a role is not UTF-8", errors.ErrUnsupported))
		}
		roles[role] = true
	}
	if err := w.layout.check(w, t); err != nil {
		return fail(err)
	}
	return nil
}

func (w *writer) usable() error {
	switch {
	case w.err != nil:
		return w.err
	case w.done:
		return fmt.Errorf("ztensor: the writer is closed: %w", fs.ErrClosed)
	case w.part != nil:
		return fmt.Errorf("ztensor: tensor %s is not closed yet", quote.Name(w.part.t.Name))
	}
	return nil
}

// TensorAttributes describes the tensor of that name.
func (w *writer) TensorAttributes(name string, attributes map[string]any) error {
	if w.err != nil {
		return w.err
	}
	if w.kept[name] {
		return fmt.Errorf("ztensor: %w: other attributes of tensor %s, which was there before", errors.ErrUnsupported, quote.Name(name))
	}
	b, err := w.layout.appendAttributes(attributes, 4)
	if err != nil {
		return err
	}
	if len(attributes) == 0 {
		b = nil
	}
	if err := w.layout.checkAttributes(name, b); err != nil {
		return err
	}
	w.own[name] = b
	return nil
}

// encMode encodes values in the shortest form, floats and NaN included.
func encMode() (fxcbor.EncMode, error) { return fxcbor.CoreDetEncOptions().EncMode() }

// Close completes the file.
func (w *writer) Close() error {
	if w.done {
		return w.err
	}
	if err := w.usable(); err != nil {
		w.Abort()
		return err
	}
	w.done = true
	w.fail(w.layout.finish(w))
	if w.err == nil {
		w.fail(w.flush())
	}
	if w.file == nil {
		return w.err
	}
	if w.err != nil {
		w.file.Abort()
		w.closeOld()
		return w.err
	}
	w.fail(w.file.Close())
	w.closeOld()
	return w.err
}

// closeOld gives up the file that was continued.
func (w *writer) closeOld() {
	if w.old != nil {
		w.old.Close()
	}
}

// Abort drops the file. After Close it does nothing.
func (w *writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	if w.err == nil {
		w.err = fmt.Errorf("ztensor: the writer was aborted: %w", fs.ErrClosed)
	}
	if w.file != nil {
		w.file.Abort()
		w.closeOld()
	}
}

// fail makes an error final.
func (w *writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// write writes p.
func (w *writer) write(p []byte) error {
	if w.err != nil {
		return w.err
	}
	n, err := w.w.Write(p)
	w.off += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return w.fail(err)
}

// writePieces writes p in pieces that the system likes.
func (w *writer) writePieces(p []byte) {
	for len(p) > 0 && w.err == nil {
		n := min(len(p), pieceSize)
		w.write(p[:n])
		p = p[n:]
	}
}

// pad writes zeros up to a multiple of n.
func (w *writer) pad(n int64) error {
	for left := align.Padding(w.off, n); left > 0 && w.err == nil; {
		k := min(left, int64(len(w.zeros)))
		w.write(w.zeros[:k])
		left -= k
	}
	return w.err
}

// measured is t with parts whose size is known, which takes decoding the others.
func measured(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
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
		n, err := decodedSize(ctx, p.Data)
		if err != nil {
			return nil, err
		}
		p.Data = tensor.BlobFunc(n, p.Data.Open)
	}
	return &as, nil
}

// decodedSize reads all of b, and returns how much that is.
func decodedSize(ctx context.Context, b tensor.Blob) (int64, error) {
	f := feed{out: io.Discard}
	var buf []byte
	err := f.from(ctx, b, &buf)
	return f.n, err
}
