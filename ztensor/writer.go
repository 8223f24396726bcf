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
	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// The versions that are written.
const (
	Version10 = "1.0" // of the published specification 1.0.0
	Version11 = "1.1"
	Version12 = "1.2"
	Version2  = "2"
)

// WriterOptions control what is written. nil is the zero value.
type WriterOptions struct {
	// Version is [Version2] or "", [Version10], [Version11] or [Version12]. The
	// packages of upstream read the layouts of their own generation alone: today's
	// reads version 2.
	Version string
	// Canonical writes version 2 in canonical form, in which equal content makes
	// equal files. Add then checks a tensor and keeps it: its data is written,
	// sorted by name, by AddAll, by Create as far as it has to come first, and by
	// Close, which fails if memory of the caller has changed by then. It excludes
	// Level, Alignment and KeepOrder. WriteFile and WriteShards set it where
	// these allow it.
	Canonical bool
	// Digest is computed for each component, of the bytes as stored: CRC32C or
	// SHA256. Version 2 always has XXH3, of the bytes before compression.
	Digest Digest
	// Level compresses with zstd: 1 to 22 as the zstd program counts, of which
	// four are told apart here; from 7 on it gets slow, and weights gain
	// nothing. 0 stores the bytes as they are, so that they can be mapped.
	Level int
	// Attributes describe the file. Values are text in 1.0 and 1.1, and from
	// 1.2 on whatever github.com/fxamacker/cbor/v2 encodes, or a [Value].
	Attributes map[string]any
	// Generator names the program in 1.0 files; "" is "tensorfile".
	Generator string
	// Alignment is where the payloads of version 2 begin: at multiples of it, a
	// power of two from 4096. 0 is 65536, that of canonical form.
	Alignment int64
	// KeepOrder makes WriteFile and WriteShards write the tensors of version 2 in
	// the order given, as a Writer does anyway unless it is Canonical.
	KeepOrder bool
}

// A Writer writes a .zt file in one pass: data goes out as it is added, the
// manifest comes last. It never seeks. It is for one goroutine at a time.
//
// An error of writing, or of a tensor whose data turns out not to be what it
// promised, is final: everything afterwards fails with it. A tensor that is
// refused before a byte of it was written does no harm.
type Writer struct {
	w      io.Writer
	flush  func() error // of w
	file   target       // nil unless the Writer has a file of its own
	old    *Reader      // of the file that is continued in its place; nil for none
	layout layout
	digest Digest
	level  int

	off        int64 // bytes written
	entries    []entry
	names      map[string]bool // taken
	manifest   []byte          // of the entries, encoded
	attributes []byte          // of the file, a CBOR map
	own        map[string][]byte
	others     []byte // keys of the old edition's manifest that this library does not know, with values
	otherCount uint64

	encoder *encoder      // of streams
	frames  *zstd.Encoder // of what is in memory
	buf     []byte
	zeros   [4096]byte // for padding
	part    *part      // that Create returned and nobody closed yet
	err     error      // final
	done    bool
}

// A target is a file on its way: what was written is in it after Close, and gone
// after Abort.
type target interface {
	io.Writer
	Close() error
	Abort()
}

// layout is what tells one generation of the container from the others when
// writing.
type layout interface {
	magic() string
	// alignment is where components begin: at multiples of it.
	alignment() int64
	// check says what of a tensor the layout cannot hold; an error wraps
	// errors.ErrUnsupported.
	check(t *tensor.Tensor) error
	// add writes a tensor, or keeps it; addAll writes all that ts yields.
	add(ctx context.Context, w *Writer, t *tensor.Tensor) error
	addAll(ctx context.Context, w *Writer, ts iter.Seq2[*tensor.Tensor, error]) error
	// create begins a dense tensor of size bytes that comes piece by piece.
	create(w *Writer, t *tensor.Tensor, size int64) (io.WriteCloser, error)
	// appendAttributes encodes attributes whose values are that deep in the manifest.
	appendAttributes(attributes map[string]any, depth int) ([]byte, error)
	// checkAttributes reports why a tensor cannot have these attributes.
	checkAttributes(name string, encoded []byte) error
	// carry takes over what an edition keeps of its original, under new names.
	carry(ctx context.Context, w *Writer, e *Edit, names map[string]string) error
	// link adds tensors of r that stay in its file.
	link(w *Writer, shard Shard, r *Reader, names []string) error
	// appendEntry appends what the manifest says of a tensor whose components
	// have been written, without its attributes, and returns where in it those
	// belong.
	appendEntry(b []byte, t *tensor.Tensor, components []written) (out []byte, split int)
	// finish pads and writes what comes behind the data.
	finish(w *Writer) error
}

// An entry is a tensor's place in the manifest that is being collected.
type entry struct {
	name            string
	from, split, to int // in Writer.manifest; split is -1 for one that is taken over as it stands
}

// A written component is what the manifest says of it.
type written struct {
	role   string
	dtype  tensor.DType
	offset int64
	length int64 // stored
	size   int64 // decoded
	zstd   bool
	digest string
}

// NewWriter begins a file on w, which it never closes. Wrong options are the
// error of whatever is called first.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer {
	z := newWriter(w)
	z.begin(opts)
	return z
}

func newWriter(w io.Writer) *Writer {
	b := bufio.NewWriterSize(w, 256<<10)
	return &Writer{w: b, flush: b.Flush}
}

// Create begins a file that appears under that name when Close succeeds, and
// not at all before that or otherwise. An existing file is replaced.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	z := fileWriter(f, opts)
	if z.err != nil {
		f.Abort()
		return nil, z.err
	}
	return z, nil
}

// fileWriter begins a file on f, which the Writer closes or aborts.
func fileWriter(f *atomicfile.File, opts *WriterOptions) *Writer {
	z := &Writer{w: f, file: f, flush: func() error { return nil }}
	z.begin(opts)
	return z
}

// WriteFile writes a file of these tensors, which appears whole or not at all.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error], opts *WriterOptions) error {
	w, err := Create(name, opts.WholeFile())
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.Close()
}

// Check reports options that are wrong, or do not fit the version.
func (o *WriterOptions) Check() error {
	_, err := newLayout(o.orZero(), nil)
	return err
}

// WholeFile returns the options of a Writer that is given all tensors of a file:
// o, and Canonical where the version has that form and o allows it. o may be nil.
func (o *WriterOptions) WholeFile() *WriterOptions {
	as := o.orZero()
	if as.Version == Version2 && as.Level == 0 && !as.KeepOrder && (as.Alignment == 0 || as.Alignment == canonical2) {
		as.Canonical = true
	}
	return &as
}

func (o *WriterOptions) orZero() WriterOptions {
	var as WriterOptions
	if o != nil {
		as = *o
	}
	if as.Version == "" {
		as.Version = Version2
	}
	return as
}

// newLayout checks the options and chooses the generation. own are the attributes
// of tensors, which come later.
func newLayout(o WriterOptions, own map[string][]byte) (layout, error) {
	switch {
	case o.Level < 0 || o.Level > 22:
		return nil, fmt.Errorf("ztensor: WriterOptions.Level is %d, not 0 to 22", o.Level)
	case o.Digest > XXH3:
		return nil, fmt.Errorf("ztensor: WriterOptions.Digest is %v", o.Digest)
	case o.Digest == XXH3 && o.Version != Version2:
		return nil, fmt.Errorf("ztensor: %w: WriterOptions.Digest xxh3 is for version 2; 1.0 to 1.2 have crc32c and sha256", errors.ErrUnsupported)
	case o.Canonical && o.Version != Version2:
		return nil, fmt.Errorf("ztensor: %w: WriterOptions.Canonical is for version 2", errors.ErrUnsupported)
	case !utf8.ValidString(o.Generator):
		return nil, errors.New("ztensor: WriterOptions.Generator is not UTF-8")
	}
	switch o.Version {
	case Version10, Version11, Version12:
		return newLayout1(o)
	case Version2:
		return newLayout2(o, own)
	}
	return nil, fmt.Errorf("ztensor: %w: writing version %s", errors.ErrUnsupported, quote.Name(o.Version))
}

func (w *Writer) begin(opts *WriterOptions) {
	if w.prepare(opts); w.err == nil {
		w.write([]byte(w.layout.magic()))
	}
}

// prepare takes over the options.
func (w *Writer) prepare(opts *WriterOptions) {
	o := opts.orZero()
	w.digest, w.level = o.Digest, o.Level
	w.names, w.own = map[string]bool{}, map[string][]byte{}
	if w.layout, w.err = newLayout(o, w.own); w.err != nil {
		return
	}
	if len(o.Attributes) > 0 {
		if w.attributes, w.err = w.layout.appendAttributes(o.Attributes, 2); w.err != nil {
			return
		}
	}
}

// Check reports why a tensor cannot be added, as far as that shows without
// reading its data; nil if nothing speaks against it.
func (w *Writer) Check(t *tensor.Tensor) error {
	if err := w.usable(); err != nil {
		return err
	}
	return w.check(t)
}

// Add writes a tensor. See the package comment for what each version can hold.
// A sparse tensor is checked as [sparse.Check] does, and its indices are widened
// to uint64; so its parts are read twice.
func (w *Writer) Add(t *tensor.Tensor) error {
	return w.adding(func() error {
		return w.layout.add(context.Background(), w, t)
	})
}

// A payload is a component that is to be written.
type payload struct {
	written
	data tensor.Blob

	prepared bool   // by a worker of AddAll, with the following result
	stored   []byte // what is to be written
	err      error
}

// plan checks a tensor, before anything of it is written, lists its components
// in file order, and takes its name.
func (w *Writer) plan(ctx context.Context, t *tensor.Tensor) ([]payload, error) {
	if err := w.check(t); err != nil {
		return nil, err
	}
	if t.Dense() {
		all := []payload{{written: written{role: "data", dtype: t.DType}, data: t.Data}}
		for _, p := range t.Parts {
			all = append(all, payload{written: written{role: p.Role, dtype: p.DType}, data: p.Data})
		}
		w.names[t.Name] = true
		return all, nil
	}
	all := make([]payload, 0, len(t.Parts))
	indexed := t.Scheme == sparse.CSR || t.Scheme == sparse.COO
	if indexed {
		if err := sparse.Check(ctx, t, nil); err != nil {
			return nil, sparseError(t, err)
		}
	}
	for _, p := range t.Parts {
		c := payload{written: written{role: p.Role, dtype: p.DType}, data: p.Data}
		if indexed && slices.Contains(indexRoles, p.Role) {
			wide := sparse.Widen(ctx, p)
			c.dtype, c.data = wide.DType, wide.Data
		}
		all = append(all, c)
	}
	if indexed { // in the order in which upstream writes them
		slices.SortStableFunc(all, func(a, b payload) int { return roleOrder(a.role) - roleOrder(b.role) })
	}
	w.names[t.Name] = true
	return all, nil
}

var indexRoles = []string{"indices", "indptr", "coords"}

func roleOrder(role string) int {
	if role == "values" {
		return -1
	}
	if i := slices.Index(indexRoles, role); i >= 0 {
		return i
	}
	return len(indexRoles)
}

// check reports what prevents a tensor from being added, whatever its data.
func (w *Writer) check(t *tensor.Tensor) error {
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
	if err := w.layout.check(t); err != nil {
		return fail(err)
	}
	return nil
}

func (w *Writer) usable() error {
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

// enter notes a tensor whose components have been written.
func (w *Writer) enter(t *tensor.Tensor, components []payload) {
	all := make([]written, len(components))
	for i := range components {
		all[i] = components[i].written
	}
	from := len(w.manifest)
	var split int
	w.manifest, split = w.layout.appendEntry(w.manifest, t, all)
	w.entries = append(w.entries, entry{t.Name, from, split, len(w.manifest)})
}

// TensorAttributes describes the tensor of that name, before or after it is
// added; before it, where it is of a layout of version 2 that has rules for them,
// zt.mx/1, zt.quant_group/1 or one of gguf. 1.0 has no such attributes.
func (w *Writer) TensorAttributes(name string, attributes map[string]any) error {
	if w.err != nil {
		return w.err
	}
	if i := slices.IndexFunc(w.entries, func(e entry) bool { return e.split < 0 && e.name == name }); i >= 0 {
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

// appendAttributes appends a map, sorted by the bytes of its keys as upstream
// does.
func appendAttributes(b []byte, attributes map[string]any) ([]byte, error) {
	mode, err := encMode()
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("ztensor: %w: attribute %s is not UTF-8", errors.ErrUnsupported, quote.Name(name))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	b = cbor.AppendHead(b, cbor.Map, uint64(len(names)))
	for _, name := range names {
		v, err := mode.Marshal(attributes[name])
		if err != nil {
			return nil, fmt.Errorf("ztensor: attribute %s: %w", quote.Name(name), err)
		}
		c := cbor.Cursor{B: v, Deep: 64 - 3}
		if c.Skip(); c.Err != nil { // too deep, or text that is not UTF-8: nobody could read it
			return nil, fmt.Errorf("ztensor: attribute %s: %w", quote.Name(name), c.Err)
		}
		b = append(cbor.AppendText(b, name), v...)
	}
	return b, nil
}

// encMode encodes values in the shortest form, floats and NaN included.
func encMode() (fxcbor.EncMode, error) { return fxcbor.CoreDetEncOptions().EncMode() }

// Close completes the file. Of a Writer that Create made, the file then appears
// under its name; the io.Writer of any other stays open.
func (w *Writer) Close() error {
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
func (w *Writer) closeOld() {
	if w.old != nil {
		w.old.Close()
	}
}

// Abort drops the file. After Close it does nothing.
func (w *Writer) Abort() {
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
func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// write writes p.
func (w *Writer) write(p []byte) error {
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
func (w *Writer) writePieces(p []byte) {
	for len(p) > 0 && w.err == nil {
		n := min(len(p), pieceSize)
		w.write(p[:n])
		p = p[n:]
	}
}

// pad writes zeros up to a multiple of n.
func (w *Writer) pad(n int64) error {
	for left := align.Padding(w.off, n); left > 0 && w.err == nil; {
		k := min(left, int64(len(w.zeros)))
		w.write(w.zeros[:k])
		left -= k
	}
	return w.err
}
