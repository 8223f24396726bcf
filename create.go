package tensorfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A Writer writes a file of tensors. It has the methods that the Writers of all format
// packages share; options of one format are in its own package. A Writer is not safe for
// concurrent use.
type Writer interface {
	// Check returns why Add would refuse the tensor. It reads no data.
	Check(t *tensor.Tensor) error
	// Add adds a tensor. Its data may be read by Close, and must not change until then;
	// Close fails with tensor.ErrChecksum if it finds that memory has changed.
	Add(t *tensor.Tensor) error
	// AddAll adds all tensors, on all cores if that helps. It fails with the first error
	// of ts or of Add, and when ctx ends.
	AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error
	// Close completes the file, which then appears under its name. A second Close returns
	// the same error.
	Close() error
	// Abort drops the file. It does nothing after Close.
	Abort()
}

// WriterOptions are options of [NewWriter] and [Create]; nil is the zero value.
type WriterOptions struct {
	// Version is one that [Format.Writes] names; "" means the first of them.
	Version string
	// Attributes are the attributes of the file. They must be empty if the [Caps] of the
	// format have none: errors.ErrUnsupported.
	Attributes map[string]string
	// NoReplace makes Create fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Sys are options of the format's own package, such as a *ztensor.WriterOptions,
	// which Version and Attributes complete. nil is that package's defaults.
	Sys any
}

// ByName returns the format of the extension of a file's name, 0 if there is none.
// It is for naming new files: [Detect] ignores names.
func ByName(name string) Format {
	ext := strings.ToLower(filepath.Ext(name))
	for _, f := range Formats() {
		if ext != "" && ext == f.Ext() || f == PTE && ext == ".bpte" {
			return f
		}
	}
	return 0
}

// NewWriter returns a Writer to w, which it neither seeks nor closes. It fails with
// errors.ErrUnsupported for a format that is not written from tensors. Package convert
// also writes blobs, attributes and programs, and converts tensors that the format cannot
// represent.
func NewWriter(w io.Writer, f Format, opts *WriterOptions) (Writer, error) {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	if f.row().write == nil {
		return nil, fmt.Errorf("tensorfile: %w: %v is not written from tensors",
			errors.ErrUnsupported, f)
	}
	if err := o.check(f); err != nil {
		return nil, err
	}
	return f.row().write(w, &o)
}

// Create returns a Writer of the file of that name, as NewWriter does. The file appears
// whole when Close succeeds, or not at all.
func Create(name string, f Format, opts *WriterOptions) (Writer, error) {
	create := atomicfile.Create
	if opts != nil && opts.NoReplace {
		create = atomicfile.CreateNew
	}
	if _, err := NewWriter(io.Discard, f, opts); err != nil { // before there is a file
		return nil, err
	}
	file, err := create(name)
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(file, f, opts)
	if err != nil {
		file.Abort()
		return nil, err
	}
	return &fileWriter{w, file}, nil
}

// A fileWriter is a Writer to a file.
type fileWriter struct {
	Writer
	file *atomicfile.File
}

func (w *fileWriter) Close() error {
	defer w.file.Abort() // nothing after its Close
	if err := w.Writer.Close(); err != nil {
		return err
	}
	return w.file.Close()
}

func (w *fileWriter) Abort() {
	w.Writer.Abort()
	w.file.Abort()
}

// writes completes the row of a format that a package writes from tensors. complete gives
// the options of the package what a WriterOptions has.
func writes[W Writer, O any](newWriter func(io.Writer, *O) W,
	complete func(o *O, with *WriterOptions) error, row formatRow) formatRow {
	row.write = func(w io.Writer, with *WriterOptions) (Writer, error) {
		o := new(O)
		switch sys := with.Sys.(type) {
		case nil:
		case *O:
			if sys != nil {
				*o = *sys
			}
		default:
			return nil, fmt.Errorf("tensorfile: %w: options of type %T for a %s", fs.ErrInvalid,
				sys, row.name)
		}
		if complete != nil {
			if err := complete(o, with); err != nil {
				return nil, err
			}
		}
		return newWriter(w, o), nil
	}
	return row
}

func completeZTensor(o *ztensor.WriterOptions, with *WriterOptions) error {
	o.Version = cmp.Or(with.Version, o.Version)
	if len(with.Attributes) > 0 {
		o.Attributes = map[string]any{}
		for k, v := range with.Attributes {
			o.Attributes[k] = v
		}
	}
	return nil
}

func completeSafetensors(o *safetensors.WriterOptions, with *WriterOptions) error {
	if len(with.Attributes) > 0 {
		o.Attributes = with.Attributes
	}
	return nil
}

func completeGGUF(o *gguf.WriterOptions, with *WriterOptions) (err error) {
	if len(with.Attributes) > 0 {
		o.Metadata, err = ggufMetadata(with.Attributes)
	}
	return err
}

func completeRTen(o *rten.WriterOptions, with *WriterOptions) error {
	o.Version = cmp.Or(with.Version, o.Version)
	return nil
}

// ggufMetadata returns attributes as strings, by their keys.
func ggufMetadata(attributes map[string]string) (all []gguf.KeyValue, err error) {
	for _, k := range slices.Sorted(maps.Keys(attributes)) {
		v, err := gguf.NewValue(attributes[k])
		if err != nil {
			return nil, err
		}
		all = append(all, gguf.KeyValue{Key: k, Value: v})
	}
	return all, nil
}

func (o *WriterOptions) check(f Format) error {
	known := o.Version == ""
	for _, v := range f.Writes() {
		known = known || v == o.Version
	}
	switch {
	case !known:
		return fmt.Errorf("tensorfile: %w: version %q of %v is not written", errors.ErrUnsupported,
			o.Version, f)
	case len(o.Attributes) > 0 && !f.CapsOf(o.Version).Attributes:
		return fmt.Errorf("tensorfile: %w: %v has no attributes", errors.ErrUnsupported, f)
	}
	return nil
}

// A Leftover is a hidden file of a writer that was killed, or of one that still runs and
// will rename it.
type Leftover struct {
	Path    string
	Journal bool // of a set of files that is being replaced; else a temporary file
	Size    int64
	ModTime time.Time
	// State is "held" (by a writer that runs), "recent", "named" (by a journal), or
	// "stale"; with CleanOptions.Remove it is "removed" or "finished" in place of
	// "stale".
	State string
	Err   error // why cleaning failed, or what is wrong with a journal
	// Writes and Removes are the files of the directory that finishing the set of a
	// journal writes and removes, or has written and removed.
	Writes, Removes []string
}

// CleanOptions control Clean. nil is the zero value.
type CleanOptions struct {
	// Remove finishes sets and removes stale files; otherwise they are only listed.
	Remove bool
	// Age is the time after the last write at which a temporary file, or an incomplete
	// journal, is stale. Zero is an hour.
	Age time.Duration
}

// Clean lists what writers have left in a directory, journals first. A file NAME is
// written as .NAME.tensorfile-tmp-…, which a writer that is killed leaves. A writer that
// is killed while it replaces a set of shards leaves .INDEX.tensorfile-journal, which
// lists the renames; opening the set then fails with tensor.ErrUnfinished. With Remove,
// Clean finishes the set of each journal, and writes and removes files of that set alone.
// It removes temporary files that are older than Age, that no writer holds and that no
// journal names, and journals that their writers did not complete. It fails if the
// directory cannot be read; errors of single files are in the list.
func Clean(ctx context.Context, dir string, opts *CleanOptions) ([]Leftover, error) {
	var o atomicfile.CleanOptions
	if opts != nil {
		o = atomicfile.CleanOptions(*opts)
	}
	list, err := atomicfile.Clean(ctx, dir, &o)
	all := make([]Leftover, len(list))
	for i, l := range list {
		all[i] = Leftover(l)
	}
	return all, err
}
