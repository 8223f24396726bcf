package torch

import (
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	formatName = "torch"
	errs       = format.Errors(formatName)
)

// ReaderOptions control how a file is read. nil is the zero value.
type ReaderOptions struct {
	// Strict refuses what Warnings lists.
	Strict bool
	// Limits bound what a file may ask for; zero fields mean the defaults.
	Limits tensor.Limits
	// NoMap makes Open read the file instead of mapping it.
	NoMap bool
	// Companion opens the .distcp files of a distributed checkpoint, and the members of
	// an unpacked archive. Open sets it to the directory of the file, NewReader to that
	// of a source that is a tensor.Companion; where it stays nil, these are refused.
	Companion func(name string) (io.ReaderAt, int64, error)
	// NoLinks makes Open refuse such files that are links out of the directory, as they
	// are in Hugging Face's cache.
	NoLinks bool
}

// A Reader is an open checkpoint. It is safe for concurrent use. See package tensor for
// how long what it returns is valid.
type Reader struct {
	src        *source.Source
	version    string
	limits     tensor.Limits
	tensors    []tensor.Tensor
	paths      [][]string // of tensors, see rows
	modules    []string
	attributes [][2]string
	notes      format.Warnings // but for globals
	warnings   format.Warnings
	globals    []Global
	spans      []tensor.Span
	shards     []shardSpans  // of a distributed checkpoint
	parts      []*checkpoint // one, or the entries of a distributed checkpoint
	closers    []io.Closer

	once  sync.Once
	table *naming.Table
}

// The names of the files by which a distributed checkpoint and an unpacked archive are
// opened.
const (
	metadataFile = ".metadata"
	pickleFile   = "data.pkl"
)

// Metadata returns the file in a directory by which Open reads it: the .metadata of a
// distributed checkpoint, or the data.pkl of an unpacked archive. Any other name is
// returned as it is.
func Metadata(name string) string {
	inside := filepath.Join(name, metadataFile)
	if isFile(inside) {
		return inside
	}
	if inside = filepath.Join(name, pickleFile); Unpacked(inside) {
		return inside
	}
	return name
}

// Unpacked reports whether the named file is the data.pkl of an unpacked archive, whose
// version is next to it.
func Unpacked(name string) bool {
	return filepath.Base(name) == pickleFile && isFile(name) &&
		isFile(filepath.Join(filepath.Dir(name), "version"))
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// Open maps the named file and reads its pickle. The directory of a distributed
// checkpoint opens like the .metadata in it, and one of an unpacked archive like its
// data.pkl.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	o := options(opts)
	name = Metadata(name)
	if o.Companion == nil {
		o.Companion = source.Companions(name, o.NoMap, o.NoLinks)
	}
	return source.OpenAs(name, o.NoMap, o.newReader)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return options(opts).newReader(source.OfBytes(b))
}

// NewReader reads the first size bytes of r, which stays the caller's.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	src, err := source.OfReaderAt(r, size)
	if err != nil {
		return nil, err
	}
	o := options(opts)
	if c, ok := r.(tensor.Companion); ok && o.Companion == nil {
		o.Companion = c.Companion
	}
	return o.newReader(src)
}

func options(opts *ReaderOptions) ReaderOptions {
	if opts == nil {
		return ReaderOptions{}
	}
	return *opts
}

func (o ReaderOptions) newReader(src *source.Source) (*Reader, error) {
	limits, err := format.CompleteLimits(o.Limits)
	if err != nil {
		return nil, err
	}
	r := &Reader{src: src, limits: limits}
	r.notes.Format, r.warnings.Format = formatName, formatName
	if err := r.open(o); err != nil {
		r.closeParts()
		return nil, err
	}
	r.warn()
	if o.Strict {
		if err := r.strict(); err != nil {
			r.closeParts()
			return nil, err
		}
	}
	return r, nil
}

func (r *Reader) open(o ReaderOptions) error {
	head := make([]byte, min(r.src.Size(), 512))
	if _, err := r.src.ReadAt(head, 0); err != nil {
		return errs.Wrap(0, "", err)
	}
	c := &checkpoint{limits: r.limits, memory: &memory{memoryBase}, src: r.src,
		size: r.src.Size()}
	var err error
	switch {
	case len(head) >= 4 && string(head[:4]) == zipMagic:
		err = c.openArchive()
	case isLegacy(string(head)):
		err = c.openLegacy()
	case isMetadata(string(head)):
		return r.openDistributed(c, o.Companion)
	case isPickle(string(head)) && o.Companion != nil && exists(o.Companion, "version"):
		return r.openUnpacked(c, o.Companion)
	default:
		err = unknown(string(head))
	}
	if err != nil {
		return err
	}
	w, err := r.list(c)
	if err != nil {
		return err
	}
	r.spans = c.spans(w)
	for _, part := range append([]*checkpoint{c}, c.archives...) {
		r.addPart(part)
	}
	return nil
}

// list makes the rows of a checkpoint.
func (r *Reader) list(c *checkpoint) (*rows, error) {
	w := &rows{limits: r.limits, memory: c.memory, visits: minVisits + c.steps, notes: &r.notes}
	if err := w.add("", c.root); err != nil {
		return nil, err
	}
	r.take(c, w)
	return w, nil
}

// take takes over what was read.
func (r *Reader) take(c *checkpoint, w *rows) {
	r.version, r.tensors, r.attributes = c.version, w.tensors, w.attributes
	r.paths, r.modules = w.paths, w.modules
}

// addPart takes over a checkpoint whose tensors are in the list.
func (r *Reader) addPart(c *checkpoint) {
	r.parts = append(r.parts, c)
	if r.globals == nil {
		r.globals = c.globals
	} else {
		r.globals = append(r.globals, c.globals...)
	}
	c.root, c.globals = nil, nil
	for _, w := range c.notes.All() {
		r.notes.Add(w)
	}
	for err := range c.unlisted() {
		r.notes.Add(err)
	}
}

// warn makes the list of warnings: first what runs code, so that nothing displaces it.
func (r *Reader) warn() {
	for _, code := range []string{tensor.CodeRunsCode, tensor.CodeUnknownClass} {
		for _, g := range r.globals {
			if g.Code == code {
				r.warnings.Add(g.err())
			}
		}
	}
	for _, err := range r.notes.All() {
		r.warnings.Add(err)
	}
}

// strict returns the first departure.
func (r *Reader) strict() error {
	if all := r.Warnings(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Close releases the file, and those of a distributed checkpoint. It may be called twice.
func (r *Reader) Close() error { return errors.Join(r.src.Close(), r.closeParts()) }

func (r *Reader) closeParts() (err error) {
	for _, c := range r.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Version is the kind of the file: zip, also of an unpacked one, torchscript, legacy, pt2
// or dcp.
func (r *Reader) Version() string { return r.version }

// Size returns the size of the file in bytes, of a distributed checkpoint that of
// .metadata.
func (r *Reader) Size() int64 { return r.src.Size() }

// Len is the number of tensors.
func (r *Reader) Len() int { return len(r.tensors) }

// Tensors yields the tensors in the order of the pickle.
func (r *Reader) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for i := range r.tensors {
			if !yield(&r.tensors[i]) {
				return
			}
		}
	}
}

// Path returns the keys to tensor i of Tensors in the pickle. Its name is the keys joined
// with dots, but for those of the dicts of an nn.Module: _parameters, _buffers, _modules.
func (r *Reader) Path(i int) []string {
	if i < len(r.paths) && r.paths[i] != nil {
		return slices.Clone(r.paths[i])
	}
	return strings.Split(r.tensors[i].Name, ".")
}

// Modules yields the names of the values that are an nn.Module and in no other: "" where
// the file is one. The names of its tensors and attributes begin with it.
func (r *Reader) Modules() iter.Seq[string] { return slices.Values(r.modules) }

// Tensor returns the first tensor of that name, or nil.
func (r *Reader) Tensor(name string) *tensor.Tensor {
	r.once.Do(func() {
		r.table, _ = naming.Build(len(r.tensors), func(i int) string { return r.tensors[i].Name })
	})
	if i := r.table.Lookup(name); i >= 0 {
		return &r.tensors[i]
	}
	return nil
}

// Blobs yields nothing: all data belongs to tensors.
func (r *Reader) Blobs() iter.Seq2[string, tensor.Blob] {
	return func(func(string, tensor.Blob) bool) {}
}

// Attributes yields the values that are not tensors in the order of the pickle: strings
// as they are, everything else in JSON. What JSON has no form for is an object of one
// key: $float, $complex, $bytes.
func (r *Reader) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, a := range r.attributes {
			if !yield(a[0], a[1]) {
				return
			}
		}
	}
}

// Warnings lists departures that did not prevent reading, at most 1,000. Those with a
// code are of the type *[tensor.FormatError]: runs-code for each function that the file
// would call in Python, unknown-class for each class that is not one of a library of
// tensors, and unlisted-data for each storage that no tensor in the list refers to.
func (r *Reader) Warnings() []error { return r.warnings.All() }

// Globals yields every place where a pickle of the file names a class or function.
func (r *Reader) Globals() iter.Seq[Global] {
	return func(yield func(Global) bool) {
		for _, g := range r.globals {
			if !yield(g) {
				return
			}
		}
	}
}
