package ztensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// format is the name of this format in errors.
const format = "ztensor"

// The first eight bytes of the generations. 1.0, 1.1 and 1.2 share theirs; the
// last two also end with it.
const (
	magic01 = "ZTEN0001"
	magic1  = "ZTEN1000"
	magic2  = "\x89ZT2\r\n\x1a\n"
)

// ReaderOptions control how a file is read. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses every departure from the format's document, and checks the
	// digest of what is read, views included.
	Strict bool
	// Limits bound what the file may ask for. Zero fields are defaults that
	// read every genuine file.
	Limits tensor.Limits
	// NoMap makes Open read the file instead of mapping it into memory.
	NoMap bool
	// Companion opens a file that this one refers to by name: a shard of version
	// 2. nil means for Open the files of the same directory, for NewReader those
	// of a source that is a tensor.Companion, else that there are none.
	Companion func(name string) (io.ReaderAt, int64, error)
}

// A Reader is an open .zt file of any version. It is safe for concurrent use.
type Reader struct {
	src    *source.Source
	opts   ReaderOptions
	limits tensor.Limits
	index

	decoderOnce sync.Once
	stream      spareStream
	zstd        *zstd.Decoder
	zstdErr     error

	checked sync.Map // strict: the components whose digest was found right
	frames  frameCache

	generation generation
	two        *container2   // nil: version 1
	name       string        // of the file, where Open opened it
	base       string        // its last element, or what a tensor.Companion is named; "" if not known
	file       source.Source // which is src then
}

// Detect reports whether the file begins like one of the versions of zTensor. It
// reads eight bytes.
func Detect(r io.ReaderAt, size int64) bool {
	var head [len(magic1)]byte
	if size < int64(len(head)) {
		return false
	}
	if n, _ := r.ReadAt(head[:], 0); n != len(head) {
		return false
	}
	return isMagic(head[:])
}

func isMagic(head []byte) bool {
	s := string(head)
	return s == magic1 || s == magic2 || s == magic01
}

// Open opens the file of that name, and maps it where the system can. Only
// regular files can be opened.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	o := opts.orZero()
	r := &Reader{name: name, base: filepath.Base(name)}
	r.src = &r.file
	err := r.file.Open(name, o.NoMap)
	if err == nil {
		if err = r.init(o); err != nil {
			r.file.Close()
		}
	}
	if err == nil && r.generation.elsewhere() == 0 {
		return r, nil
	}
	pending := atomicfile.Unfinished(name)
	switch {
	case err != nil && pending != nil:
		return nil, fmt.Errorf("ztensor: %w: %w", pending, err)
	case err != nil:
		return nil, err
	case pending != nil && o.Strict:
		r.Close()
		return nil, r.bad(-1, "shards", pending)
	case pending != nil:
		r.warnings.add(-1, "shards", pending)
	}
	return r, nil
}

// OpenBytes opens a file that is in memory, and keeps b, which must not change
// while the Reader is in use.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return newReader(source.OfBytes(b), opts)
}

// NewReader opens the size bytes that r has, with at most three reads of the
// manifest and 64 KiB. The Reader does not own r: closing the Reader does not
// close it.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, err
	}
	o := opts.orZero()
	z := &Reader{src: src}
	if c, ok := r.(tensor.Companion); ok && o.Companion == nil {
		o.Companion, z.base = c.Companion, c.Name()
	}
	if err := z.init(o); err != nil {
		return nil, err
	}
	return z, nil
}

func newReader(src *source.Source, opts *ReaderOptions) (*Reader, error) {
	r := &Reader{src: src}
	if err := r.init(opts.orZero()); err != nil {
		return nil, err
	}
	return r, nil
}

func (o *ReaderOptions) orZero() ReaderOptions {
	if o == nil {
		return ReaderOptions{}
	}
	return *o
}

// init sets the options of a Reader that has its source, and reads the index.
func (r *Reader) init(o ReaderOptions) error {
	limits, err := limit.Complete(o.Limits)
	if err != nil {
		return err
	}
	r.opts, r.limits = o, limits
	return r.open()
}

// open reads the index. This is where the generations part: each reads its own
// container and leaves an index, which is all that the rest of the Reader looks
// at.
func (r *Reader) open() error {
	src := r.src
	size := src.Size()
	if size < 16 { // no generation has shorter files
		return r.bad(size, "", rule.New(rule.FileTooSmall, fmt.Errorf("%w: a file of %d bytes", io.ErrUnexpectedEOF, size)))
	}
	head := make([]byte, len(magic1))
	if _, err := src.ReadAt(head, 0); err != nil {
		return r.bad(0, "magic", err)
	}
	r.generation = &container1{r}
	switch string(head) {
	case magic1:
		return r.open1()
	case magic01:
		return r.open01()
	case magic2:
		return r.open2()
	}
	err := fmt.Errorf("%w: not a zTensor file", tensor.ErrMalformed)
	if size < least2 {
		return r.bad(0, "magic", rule.New(rule.FileTooSmall, err))
	}
	var end [len(magic2)]byte
	if _, e := src.ReadAt(end[:], size-int64(len(end))); e == nil && string(end[:]) == magic2 {
		err = rule.New(rule.HeaderMagic, err)
	}
	return r.bad(0, "magic", err)
}

// A tail is the end of the file, read in one piece where pieces are dear.
type tail struct {
	b   []byte
	off int64
}

// tailWindow and the eight bytes at the start are less than 64 KiB together.
const tailWindow = 64<<10 - 64

// readTail reads the last n bytes, or more of them where a second read would
// cost more than they do.
func (r *Reader) readTail(n int64) (t tail, err error) {
	size := r.src.Size()
	if r.src.Mapped() {
		t = tail{make([]byte, n), size - n}
		_, err = r.src.ReadAt(t.b, t.off)
	} else {
		t.off = max(0, size-tailWindow)
		t.b, err = r.src.Metadata(t.off, size-t.off)
	}
	if err != nil {
		return t, r.bad(t.off, "footer", err)
	}
	return t, nil
}

// last returns the last n bytes of the file, of which the tail has at least so
// many.
func (t tail) last(n int) []byte { return t.b[len(t.b)-n:] }

// readManifest reads the index of version 1 from the n bytes at off. They are scanned where they lie, if that is memory; what is to
// last is then copied by index.keep, since a mapping can change, and goes with
// Close.
func (r *Reader) readManifest(t tail, off, n int64) error {
	s := scan{r: r, x: &r.index, minor: -1}
	return r.manifest(t, off, n, func(b []byte) error {
		s.Cursor = cbor.New(b, r.limits)
		if r.version == "0.1" {
			s.entries()
		} else {
			s.root()
		}
		s.finish()
		return s.done()
	})
}

// manifest calls run for the n bytes at off, where they lie or copied.
func (r *Reader) manifest(t tail, off, n int64, run func(b []byte) error) error {
	if limit := min(r.limits.MaxMetadata, 1<<30); n > limit {
		return r.bad(off, "manifest", fmt.Errorf("%w: %d bytes of at most %d", tensor.ErrLimit, n, limit))
	}
	r.manifestAt, r.manifestSize = off, n
	if r.owned = off >= t.off && n <= t.off+int64(len(t.b))-off; r.owned {
		from := off - t.off
		return run(t.b[from : from+n : from+n])
	}
	inMemory, err := r.src.Scan(func(all []byte) error { return run(all[off : off+n : off+n]) })
	if !inMemory {
		r.owned = true
		var b []byte
		if b, err = r.src.Metadata(off, n); err == nil {
			return run(b)
		}
	}
	return r.placed(off, "manifest", err)
}

// placed gives an error its place, unless it has one.
func (r *Reader) placed(off int64, field string, err error) error {
	if err == nil {
		return nil
	}
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		return err
	}
	return r.bad(off, field, err)
}

func (t tail) size() uint64 { return binary.LittleEndian.Uint64(t.last(8)) }

// Close gives up the file. It may be called more than once, and does nothing
// where the Reader does not own what it reads. Afterwards reading is
// fs.ErrClosed, and borrowed slices must not be touched; names, shapes and
// attributes stay valid.
func (r *Reader) Close() error {
	err := r.generation.close()
	if e := r.src.Close(); e != nil {
		err = e
	}
	return err
}

// Version is the layout of the file: "0.1", "1.0", "1.1", "1.2" or "2". It is
// what the content shows, not only what the file says of itself.
func (r *Reader) Version() string { return r.version }

// Size is the size of the file in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// Generator is the program that wrote the file, as 1.0 files say; "" where there
// is no word of it.
func (r *Reader) Generator() string { return r.generator }

// Len is the number of tensors.
func (r *Reader) Len() int { return r.tensors.used }

// Tensors yields all tensors in the order of the manifest, which is that of the
// names as a rule.
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] { return r.tensors.all() }

// Tensor returns the first tensor of that name, or nil. It allocates nothing.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	i := r.find(name)
	if i < 0 {
		return nil
	}
	return r.tensors.at(i)
}

// Blobs yields nothing: zTensor has only tensors.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

// Warnings returns what departs from the format's document and did not prevent
// reading, as *tensor.FormatError. Looking for components that overlap costs a
// sort, the first time.
func (r *Reader) Warnings() []error {
	r.warned.Do(func() {
		r.overlaps(func(a, b *component) bool {
			r.warnings.add(b.offset, r.path(b), fmt.Errorf("%w: overlaps %s", tensor.ErrMalformed, r.path(a)))
			return r.warnings.more == 0
		})
	})
	return r.warnings.list
}

// A generation is what differs between the versions of an open file, beyond its
// index.
type generation interface {
	// stored returns the bytes of all payloads, elsewhere those of other files.
	stored() int64
	elsewhere() int64
	// window is the largest that a zstd frame may have.
	window() uint64
	// verifyFile verifies what is in no tensor, verifyTensor a tensor, and verifyForm the
	// canonical form, where there is one and it is asked for.
	verifyFile(v *verifier) error
	verifyTensor(w *worker, t *tensor.Tensor)
	verifyForm(v *verifier) error
	close() error
}

// container1 is the generation of 0.1, 1.0, 1.1 and 1.2.
type container1 struct{ r *Reader }

func (c *container1) stored() (n int64) {
	for x := range c.r.components.all() {
		n += x.length
	}
	return n
}

func (c *container1) elsewhere() int64                         { return 0 }
func (c *container1) window() uint64                           { return maxWindow }
func (c *container1) verifyFile(v *verifier) error             { return v.gaps() }
func (c *container1) verifyTensor(w *worker, t *tensor.Tensor) { w.tensor(t) }
func (c *container1) verifyForm(v *verifier) error             { return nil }
func (c *container1) close() error                             { return nil }

// ManifestRange returns where the manifest is in the file; 0 and 0 for a shard
// without one.
func (r *Reader) ManifestRange() (offset, size int64) { return r.manifestAt, r.manifestSize }

// decoder returns the zstd decoder that all reads share, made on first use.
func (r *Reader) decoder() (*zstd.Decoder, error) {
	r.decoderOnce.Do(func() {
		r.zstd, r.zstdErr = newZstdDecoder(r.generation.window())
	})
	return r.zstd, r.zstdErr
}

// bad makes a FormatError.
func (r *Reader) bad(off int64, field string, err error) error {
	return &tensor.FormatError{Format: format, Offset: off, Field: field, Err: err}
}

// An index is what the manifest of any generation comes down to.
type index struct {
	version    string
	generator  string
	list       string // what the manifest calls the list of tensors, for errors
	tensors    slab[tensor.Tensor]
	components slab[component]
	unusual    slab[unusual]
	dims       slab[int64]
	parts      slab[tensor.Part]
	byName     *names.Table    // nil: the names ascend
	attributes []byte          // a CBOR map; nil where the file has none
	ownAttrs   []ownAttributes // of tensors, ascending
	warnings   warnings
	warned     sync.Once // the overlaps are among them
	jumbled    bool      // components do not ascend in the file

	manifestAt, manifestSize int64

	owned bool       // the manifest is memory of ours, which lasts as long as anything points into it
	kept  slab[byte] // copies of what lasts, where it is not
}

// keep returns bytes of the manifest as a string that lasts.
func (x *index) keep(b []byte) string { return le.String(x.keepBytes(b)) }

func (x *index) keepString(s string) string {
	if x.owned || len(s) == 0 {
		return s
	}
	return le.String(append(x.room(len(s))[:0], s...))
}

func (x *index) keepBytes(b []byte) []byte {
	if x.owned || len(b) == 0 {
		return b
	}
	return append(x.room(len(b))[:0], b...)
}

// room takes n bytes for what is kept.
func (x *index) room(n int) []byte {
	if cap(x.kept.last) == 0 {
		x.kept.reserve(max(n, int(x.manifestSize/3))) // names are a third of most manifests
	}
	return x.kept.take(n)
}

// shape returns a copy of dims that lasts: a part of first, if that has room.
func (x *index) shape(first *component, dims []int64) tensor.Shape {
	var s tensor.Shape
	switch n := len(dims); {
	case n == 0:
		return tensor.Shape{}
	case first != nil && n <= len(first.dims):
		s = first.dims[:n:n]
	default:
		if x.dims.used == 0 {
			x.dims.reserve(n * min(cap(x.tensors.last), 1<<14))
		}
		s = x.dims.take(n)
	}
	copy(s, dims)
	return s
}

// path returns the path of c in the manifest, for errors.
func (x *index) path(c *component) string { return x.field(c.t.Name, roleOf(c.t, c)) }

// roleOf returns the role in which a tensor has a payload.
func roleOf(t *tensor.Tensor, payload tensor.Source) string {
	for i := range t.Parts {
		if t.Parts[i].Data.Source() == payload {
			return t.Parts[i].Role
		}
	}
	return "data"
}

// field is the path of a component in the manifest's own words.
func (x *index) field(name, role string) string {
	if x.version == "0.1" {
		return fmt.Sprintf("%s[%s]", x.list, quote.Name(name))
	}
	return fmt.Sprintf("%s[%s].components[%s]", x.list, quote.Name(name), quote.Name(role))
}

// sortNames makes look-up by name possible where names do not ascend, and
// returns the index of the first tensor whose name was there before, or -1.
func (x *index) sortNames() (dup int) {
	x.byName, dup = names.Build(x.tensors.used, func(i int) string { return x.tensors.at(i).Name })
	return dup
}

// find returns the index of the first tensor of that name, or -1.
func (x *index) find(name string) int {
	if x.byName != nil {
		return x.byName.Lookup(name)
	}
	byLength := x.version == "2" // CBOR's order: shorter names first
	i, ok := sort.Find(x.tensors.used, func(i int) int {
		have := x.tensors.at(i).Name
		if byLength && len(name) != len(have) {
			return len(name) - len(have)
		}
		return strings.Compare(name, have)
	})
	if !ok {
		return -1
	}
	return i
}

var errNil = fmt.Errorf("ztensor: %w: no such tensor", tensor.ErrNoTensor)

// maxWarnings bounds the memory that a hostile file can make its warnings take.
const maxWarnings = 1000

type warnings struct {
	list []error
	more int
}

func (w *warnings) add(off int64, field string, err error) {
	if len(w.list) < maxWarnings {
		w.list = append(w.list, &tensor.FormatError{Format: format, Offset: off, Field: field, Err: err})
		return
	}
	w.more++
	w.list[maxWarnings-1] = &tensor.FormatError{Format: format, Offset: -1, Err: fmt.Errorf("%d more warnings", w.more+1)}
}

// A slab hands out pieces of few large allocations, whose elements never move.
type slab[T any] struct {
	full [][]T  // what was handed out of earlier chunks
	few  [1][]T // what full begins with
	last []T    // what was handed out of the last chunk
	used int
}

// reserve makes the next chunk large enough for n elements.
func (s *slab[T]) reserve(n int) {
	s.retire()
	s.last = make([]T, 0, n)
}

// retire gives up the room that is left in the last chunk.
func (s *slab[T]) retire() {
	if s.full == nil {
		s.full = s.few[:0]
	}
	if len(s.last) > 0 {
		s.full = append(s.full, s.last)
	}
}

func (s *slab[T]) take(n int) []T {
	if cap(s.last)-len(s.last) < n {
		s.reserve(max(n, s.used, 8)) // doubles what there is: at most half stays unused
	}
	from := len(s.last)
	s.last = s.last[:from+n]
	s.used += n
	return s.last[from : from+n : from+n]
}

// at returns element i in the order in which they were taken.
func (s *slab[T]) at(i int) *T {
	for _, c := range s.full {
		if i < len(c) {
			return &c[i]
		}
		i -= len(c)
	}
	return &s.last[i]
}

// all yields all elements in the order in which they were taken.
func (s *slab[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := 0; n <= len(s.full); n++ {
			chunk := s.last
			if n < len(s.full) {
				chunk = s.full[n]
			}
			for i := range chunk {
				if !yield(&chunk[i]) {
					return
				}
			}
		}
	}
}
