package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// Settings are the options of a writer: those of package ztensor.
type Settings struct {
	Version    string
	Canonical  bool
	Digest     Digest
	Level      int
	Attributes map[string]any
	Generator  string
	Alignment  int64
	KeepOrder  bool
}

// A Writer writes a file of any version.
type Writer struct {
	W      io.Writer
	buf    *bufio.Writer // W, unless the writer has a file
	File   target        // nil unless the writer has a file of its own
	Old    io.Closer     // the file that is continued in its place; nil for none
	Layout Layout
	Digest Digest
	Level  int

	Off        int64           // bytes written
	Names      map[string]bool // taken
	Kept       map[string]bool // those of tensors that are taken over from another file
	Attributes []byte          // of the file, a CBOR map
	Own        map[string][]byte

	zeros [4096]byte // for padding
	part  *part      // that Create returned and nobody closed yet
	Err   error      // final
	done  bool
}

// A Layout is what differs between the generations of the container when writing.
type Layout interface {
	Magic() string
	// CheckName reports why a tensor cannot have a name, which is UTF-8, and Check why a
	// tensor of a good name cannot be represented. An error wraps errors.ErrUnsupported.
	CheckName(name string) error
	Check(w *Writer, t *tensor.Tensor) error
	// Add writes what ts yields, or keeps it: one tensor, or all of a call of AddAll,
	// whose memory may change as soon as ts goes on.
	Add(ctx context.Context, w *Writer, ts iter.Seq2[*tensor.Tensor, error], all bool) error
	// Plan checks a tensor and lists its pieces in file order; Create does so for a dense
	// one that comes piece by piece. Prepare makes a piece ready in memory.
	Plan(ctx context.Context, w *Writer, t *tensor.Tensor) (*tensor.Tensor, []Piece, error)
	Create(ctx context.Context, w *Writer, t *tensor.Tensor) ([]Piece, error)
	Prepare(ctx context.Context, w *Writer, p *Piece) error
	// Place sets the offset of a piece, and reports whether its bytes are there already.
	// Else Sink stores what is not prepared, and Written follows.
	Place(ctx context.Context, w *Writer, p *Piece) (there bool, err error)
	Sink(ctx context.Context, w *Writer, p *Piece) (io.WriteCloser, error)
	Written(ctx context.Context, w *Writer, p *Piece) error
	// Enter enters a tensor whose pieces are in the file.
	Enter(t *tensor.Tensor, pieces []Piece) error
	// appendAttributes encodes attributes whose values are that deep in the manifest.
	AppendAttributes(attributes map[string]any, depth int) ([]byte, error)
	// checkAttributes reports why a tensor cannot have these attributes.
	CheckAttributes(name string, encoded []byte) error
	// carry takes over what an edition keeps of its original, under new names.
	Carry(ctx context.Context, w *Writer, r *File, names map[string]string) error
	// link adds tensors that stay in another file.
	Link(w *Writer, shard ShardID, tensors []Object) error
	// finish pads and writes what comes after the data.
	Finish(w *Writer) error
}

// NewWriter returns a writer on w, which must be started.
func NewWriter(w io.Writer) *Writer {
	b := bufio.NewWriterSize(format.Until(context.Background(), w), 256<<10)
	return &Writer{W: b, buf: b}
}

// NewFileWriter returns a writer on a file of its own.
func NewFileWriter(f target) *Writer { return &Writer{W: f, File: f} }

// Begin takes over the settings, and begins the file.
func (w *Writer) Begin(l Layout, o Settings) {
	if w.Prepare(l, o); w.Err == nil {
		w.Write([]byte(l.Magic()))
	}
}

// Prepare takes over the settings.
func (w *Writer) Prepare(l Layout, o Settings) {
	w.Layout, w.Digest, w.Level = l, o.Digest, o.Level
	w.Names, w.Kept, w.Own = map[string]bool{}, map[string]bool{}, map[string][]byte{}
	if len(o.Attributes) > 0 {
		w.Attributes, w.Err = l.AppendAttributes(o.Attributes, 2)
	}
}

// Add adds a tensor.
func (w *Writer) Add(t *tensor.Tensor) error {
	return w.adding(context.Background(), tensor.Of(t), false)
}

// AddAll adds all tensors that ts yields.
func (w *Writer) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	return w.adding(ctx, ts, true)
}

// Link adds tensors of r that stay in its file.
func (w *Writer) Link(shard ShardID, r *File, names []string) error {
	if err := w.Usable(); err != nil {
		return err
	}
	tensors, err := r.Generation.Linked(shard, names)
	if err != nil {
		return err
	}
	for _, o := range tensors {
		if w.Names[o.Name] {
			return Duplicate(o.Name)
		}
	}
	if err := w.Layout.Link(w, shard, tensors); err != nil {
		return err
	}
	for _, o := range tensors {
		w.Names[o.Name], w.Kept[o.Name] = true, true
	}
	return nil
}

// adding adds tensors. A panic of theirs is final for w.
func (w *Writer) adding(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error], all bool) error {
	if err := w.Usable(); err != nil {
		return err
	}
	completed := false
	defer func() {
		if !completed {
			w.Fail(errors.New("ztensor: a panic ended writing"))
		}
	}()
	err := w.Layout.Add(ctx, w, ts, all)
	completed = true
	return err
}

func (w *Writer) Broken(t *tensor.Tensor, role string, err error) error {
	if w.Err != nil {
		return w.Err // of writing, which says enough
	}
	return w.Fail(fmt.Errorf("ztensor: tensor %s, %s: %w", naming.Quote(t.Name), role, err))
}

// Unnamed returns an error of package sparse without the name of its tensor.
func Unnamed(err error) error {
	var named *sparse.Error
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// OfTensor adds the name of its tensor to an error.
func OfTensor(name string, err error) error {
	return fmt.Errorf("ztensor: tensor %s: %w", naming.Quote(name), Unnamed(err))
}

// Unlinkable is the error of a shard that cannot be referred to.
func Unlinkable(shard ShardID, format string, args ...any) error {
	return fmt.Errorf("ztensor: shard %s: %w", naming.Quote(shard.Name),
		Unsupported(format, args...))
}

// A target is a file on its way: what was written is in it after Close, and gone
// after Abort.
type target interface {
	io.Writer
	Close() error
	Abort()
}

// A Rewinder is a target of which what was written can be read, and taken back.
type Rewinder interface {
	io.ReaderAt
	Truncate(size int64) error
}

// Check reports why a tensor cannot be added.
func (w *Writer) Check(t *tensor.Tensor) error {
	if err := w.Usable(); err != nil {
		return err
	}
	return w.CheckTensor(t)
}

var IndexRoles = []string{"indices", "indptr", "coords"}

// check reports what prevents a tensor from being added, whatever its data.
func (w *Writer) CheckTensor(t *tensor.Tensor) error {
	if t == nil {
		return ErrNil
	}
	if err := t.Check(); err != nil {
		return err
	}
	if err := w.CheckName(t.Name); err != nil {
		return err
	}
	err := checkContent(t)
	if err == nil {
		err = w.Layout.Check(w, t)
	}
	if err != nil {
		return OfTensor(t.Name, err)
	}
	return nil
}

// CheckName reports why no tensor of that name can be added.
func (w *Writer) CheckName(name string) error {
	if w.Names[name] {
		return Duplicate(name)
	}
	err := Unsupported("the name is not UTF-8")
	if utf8.ValidString(name) {
		err = w.Layout.CheckName(name)
	}
	if err != nil {
		return OfTensor(name, err)
	}
	return nil
}

// Duplicate is the error of a second tensor of that name.
func Duplicate(name string) error {
	return OfTensor(name, fmt.Errorf("%w: a second tensor of that name", tensor.ErrDuplicate))
}

// checkContent reports what no version can hold.
func checkContent(t *tensor.Tensor) error {
	switch {
	case !t.Order.RowMajor():
		return Unsupported("its order is %v, and the format is row-major", []int(t.Order))
	case t.External:
		return Unsupported("its data is in another file")
	case !utf8.ValidString(t.Scheme):
		return Unsupported("the scheme is not UTF-8")
	}
	product, overflow := uint64(1), uint64(0)
	for _, d := range t.Shape { // from the left, as readers do: a later 0 does not help
		if overflow, product = bits.Mul64(product, uint64(d)); overflow != 0 {
			return Unsupported("the product of %v from the left overflows", t.Shape)
		}
	}
	roles := map[string]bool{"data": t.Dense()}
	for i := range t.Parts {
		role := t.Parts[i].Role
		if roles[role] {
			return fmt.Errorf("%w: two parts of role %s", tensor.ErrDuplicate, naming.Quote(role))
		}
		if !utf8.ValidString(role) {
			return Unsupported("a role is not UTF-8")
		}
		roles[role] = true
	}
	return nil
}

func (w *Writer) Usable() error {
	switch {
	case w.Err != nil:
		return w.Err
	case w.done:
		return fmt.Errorf("ztensor: the writer is closed: %w", fs.ErrClosed)
	case w.part != nil:
		return fmt.Errorf("ztensor: tensor %s is not closed yet", naming.Quote(w.part.t.Name))
	}
	return nil
}

// TensorAttributes describes the tensor of that name.
func (w *Writer) TensorAttributes(name string, attributes map[string]any) error {
	if w.Err != nil {
		return w.Err
	}
	if w.Kept[name] {
		return fmt.Errorf("ztensor: %w: other attributes of tensor %s, which was there before",
			errors.ErrUnsupported, naming.Quote(name))
	}
	b, err := w.Layout.AppendAttributes(attributes, 4)
	if err != nil {
		return err
	}
	if len(attributes) == 0 {
		b = nil
	}
	if err := w.Layout.CheckAttributes(name, b); err != nil {
		return err
	}
	w.Own[name] = b
	return nil
}

// Close completes the file.
func (w *Writer) Close() error {
	if w.done {
		return w.Err
	}
	if err := w.Usable(); err != nil {
		w.Abort()
		return err
	}
	w.done = true
	w.Fail(w.Layout.Finish(w))
	if w.Err == nil && w.buf != nil {
		w.Fail(w.buf.Flush())
	}
	switch {
	case w.File == nil:
		return w.Err
	case w.Err != nil:
		w.File.Abort()
	default:
		w.Fail(w.File.Close())
	}
	if w.Old != nil {
		w.Old.Close()
	}
	return w.Err
}

// Abort drops the file. After Close it does nothing.
func (w *Writer) Abort() {
	if w.done {
		return
	}
	w.done = true
	if w.Err == nil {
		w.Err = fmt.Errorf("ztensor: the writer was aborted: %w", fs.ErrClosed)
	}
	if w.File != nil {
		w.File.Abort()
	}
	if w.Old != nil {
		w.Old.Close()
	}
}

// Fail makes an error final.
func (w *Writer) Fail(err error) error {
	if w.Err == nil {
		w.Err = err
	}
	return w.Err
}

// Write writes p.
func (w *Writer) Write(p []byte) error {
	if w.Err != nil {
		return w.Err
	}
	n, err := w.W.Write(p)
	w.Off += int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return w.Fail(err)
}

// Pad writes zeros up to a multiple of n.
func (w *Writer) Pad(n int64) error {
	for left := align.Padding(w.Off, n); left > 0 && w.Err == nil; {
		k := min(left, int64(len(w.zeros)))
		w.Write(w.zeros[:k])
		left -= k
	}
	return w.Err
}

// Measured is t with parts whose size is known, which takes decoding the others.
func Measured(ctx context.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
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
