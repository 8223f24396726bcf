package torch

import (
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	formatName = "torch"
	errs       = format.Errors(formatName)
)

// ReaderOptions control how a file is read. nil is the zero value. With Strict, each of
// Warnings is an error. Companion opens the .distcp files of a distributed checkpoint,
// and the members of an unpacked archive.
type ReaderOptions = tensor.ReadOptions

// A Reader is an open checkpoint, with the methods of every Reader: Close, Size, Len,
// Tensors, Tensor, Blobs, Attributes and Warnings. Tensors are in the order of the
// pickle, and so are Attributes, the values that are not tensors: strings as they are,
// everything else in JSON. A value that JSON has no form for is an object of one key:
// $float, $complex, $bytes. There are no Blobs. Size is the size of the file; for a
// distributed checkpoint, of .metadata.
//
// There are at most 1,000 Warnings. Each is a *[tensor.FormatError]. Its Code may be
// runs-code, for a function that Python would call; unknown-class, for a class that is
// not of a library of tensors; or unlisted-data, for a storage that no listed tensor
// refers to.
//
// A Reader is safe for concurrent use. See package tensor for how long borrowed slices
// are valid.
type Reader struct {
	format.Base
	version string
	limits  tensor.Limits
	tensors []tensor.Tensor
	paths   [][]string // of tensors, see rows
	modules []string
	notes   format.Warnings // without warnings about globals
	globals []Global
	spans   []tensor.Span
	shards  []shardSpans  // of the other files
	parts   []*checkpoint // the file, or the entries of a distributed checkpoint
	closers []io.Closer
}

// The names of the files by which a distributed checkpoint and an unpacked archive are
// opened.
const (
	metadataFile = ".metadata"
	pickleFile   = "data.pkl"
)

// Metadata returns the name of the file that Open reads for a directory: the .metadata of
// a distributed checkpoint, or the data.pkl of an unpacked archive. For any other name it
// returns the name.
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

// Unpacked reports whether the named file is the data.pkl of an unpacked archive: a file
// version is next to it.
func Unpacked(name string) bool {
	return filepath.Base(name) == pickleFile && isFile(name) &&
		isFile(filepath.Join(filepath.Dir(name), "version"))
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// Open maps the named file and reads its pickle. name may also be the directory of a
// distributed checkpoint or of an unpacked archive.
func Open(name string, opts *ReaderOptions) (*Reader, error) {
	return format.Open(Metadata(name), opts, read)
}

// OpenBytes reads a file that is in memory. It keeps b, which must not change.
func OpenBytes(b []byte, opts *ReaderOptions) (*Reader, error) {
	return format.OpenBytes(b, opts, read)
}

// NewReader reads the first size bytes of r, which the caller closes.
func NewReader(r io.ReaderAt, size int64, opts *ReaderOptions) (*Reader, error) {
	return format.NewReader(r, size, opts, read)
}

func read(in *format.Input) (*Reader, error) {
	r := newReader(in)
	if err := r.open(in); err != nil {
		r.closeParts()
		return nil, err
	}
	r.warn()
	format.SetList(&r.Base, r.tensors)
	return r, nil
}

func newReader(in *format.Input) *Reader {
	r := &Reader{limits: in.Options.Limits}
	format.InitBase(&r.Base, errs, in)
	r.notes.Format = formatName
	return r
}

func (r *Reader) open(in *format.Input) error {
	head := make([]byte, min(in.Size(), 512))
	if _, err := in.ReadAt(head, 0); err != nil {
		return errs.Wrap(0, "", err)
	}
	c := &checkpoint{limits: r.limits, memory: &memory{memoryBase}, src: in.Source,
		size: in.Size()}
	var err error
	switch {
	case len(head) >= 4 && string(head[:4]) == zipMagic:
		err = c.openArchive()
	case isLegacy(string(head)):
		err = c.openLegacy()
	case isMetadata(string(head)):
		return r.openDistributed(c)
	case isPickle(string(head)) && exists(in, "version"):
		return r.openUnpacked(c)
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

// list returns the tensors and attributes of a checkpoint, and gives them to r.
func (r *Reader) list(c *checkpoint) (*rows, error) {
	w := &rows{limits: r.limits, memory: c.memory, visits: minVisits + c.steps, notes: &r.notes}
	if err := w.add("", c.root); err != nil {
		return nil, err
	}
	r.take(c, w)
	return w, nil
}

// take sets the tensors and attributes of r.
func (r *Reader) take(c *checkpoint, w *rows) {
	r.version, r.tensors, r.paths, r.modules = c.version, w.tensors, w.paths, w.modules
	format.SetAttributes(&r.Base, w.attributes)
}

// addPart adds a checkpoint whose tensors are listed, with its globals and warnings.
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

// warn adds all warnings, those with the code runs-code first: the number of warnings is
// limited.
func (r *Reader) warn() {
	for _, code := range []string{tensor.CodeRunsCode, tensor.CodeUnknownClass} {
		for _, g := range r.globals {
			if g.Code == code {
				format.Warn(&r.Base, g.err())
			}
		}
	}
	for _, err := range r.notes.All() {
		format.Warn(&r.Base, err)
	}
}

// Close releases the file, and the files of a distributed checkpoint. It may be called
// twice.
func (r *Reader) Close() error { return errors.Join(r.Base.Close(), r.closeParts()) }

func (r *Reader) closeParts() (err error) {
	for _, c := range r.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Version returns the kind of the file: zip, unpacked for the directory of an archive,
// torchscript, legacy, pt2 or dcp.
func (r *Reader) Version() string { return r.version }

// Path returns the keys in the pickle that lead to tensor i of Tensors. The name of the
// tensor is the keys joined with dots, without the keys _parameters, _buffers and
// _modules of an nn.Module.
func (r *Reader) Path(i int) []string {
	if i < len(r.paths) && r.paths[i] != nil {
		return slices.Clone(r.paths[i])
	}
	return strings.Split(r.tensors[i].Name, ".")
}

// Modules yields the name of each nn.Module that is not in another one; "" if the whole
// file is an nn.Module. The names of its tensors and attributes begin with its name.
func (r *Reader) Modules() iter.Seq[string] { return slices.Values(r.modules) }

// Globals yields every place where a pickle of the file names a class or function.
func (r *Reader) Globals() iter.Seq[Global] { return slices.Values(r.globals) }
