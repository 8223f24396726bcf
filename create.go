package tensorfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A Writer writes a file of tensors. It is what the Writers of all format packages have
// in common; options of one format are in its own package. A Writer is not safe for
// concurrent use.
type Writer interface {
	// Check returns why Add would refuse the tensor. It reads no data.
	Check(t *tensor.Tensor) error
	// Add adds a tensor, and may keep it until Close, which fails with tensor.ErrChecksum
	// where it finds that the values have changed by then.
	Add(t *tensor.Tensor) error
	// AddAll adds all tensors, on all cores where that helps. An error of ts ends it.
	AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error
	// Close completes the file, which then appears under its name. A second Close
	// returns what the first did.
	Close() error
	// Abort drops the file. It does nothing after Close.
	Abort()
}

// CreateOptions are options of [Create]; nil is the zero value.
type CreateOptions struct {
	// Version is one that [Format.Writes] names; "" means the first of them.
	Version string
	// Attributes are those of the file. It is an errors.ErrUnsupported to give some to
	// a format whose [Caps] has none.
	Attributes map[string]string
}

// ByName returns the format whose extension the name of a file has, 0 if there is none.
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

// Create returns a Writer of a file of any format that is written from tensors, with
// that package's defaults; others are errors.ErrUnsupported. The file appears whole
// when Close succeeds, or not at all. Package convert writes what a file has besides
// tensors, and converts what a format lacks.
func Create(name string, f Format, opts *CreateOptions) (Writer, error) {
	var o CreateOptions
	if opts != nil {
		o = *opts
	}
	if err := o.check(f); err != nil {
		return nil, err
	}
	switch f {
	case ZTensor:
		z := &ztensor.WriterOptions{Version: o.Version}
		if len(o.Attributes) > 0 {
			z.Attributes = map[string]any{}
			for k, v := range o.Attributes {
				z.Attributes[k] = v
			}
		}
		return asWriter(ztensor.Create(name, z))
	case PTD:
		return asWriter(ptd.Create(name, nil))
	case Primitiv:
		return asWriter(primitiv.Create(name, nil))
	case Safetensors:
		return asWriter(safetensors.Create(name,
			&safetensors.WriterOptions{Attributes: o.Attributes}))
	case NPY:
		return asWriter(npy.Create(name, nil))
	case NPZ:
		return asWriter(npz.Create(name, nil))
	case GGUF:
		metadata, err := ggufMetadata(o.Attributes)
		if err != nil {
			return nil, err
		}
		return asWriter(gguf.Create(name, &gguf.WriterOptions{Metadata: metadata}))
	case RTen:
		return asWriter(createRTen(name, &rten.WriterOptions{Version: o.Version}))
	}
	return nil, fmt.Errorf("tensorfile: %w: %v is not written from tensors", errors.ErrUnsupported,
		f)
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

func (o *CreateOptions) check(f Format) error {
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

// asWriter keeps a nil pointer from becoming an interface that is not nil.
func asWriter[W Writer](w W, err error) (Writer, error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}

// An rtenWriter writes a model of constants alone.
type rtenWriter struct {
	file *atomicfile.File
	opts *rten.WriterOptions
	g    *rten.GraphBuilder
	done bool
	err  error // the result of Close
}

func createRTen(name string, opts *rten.WriterOptions) (*rtenWriter, error) {
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	return &rtenWriter{file: f, opts: opts, g: rten.NewGraphBuilder()}, nil
}

func (w *rtenWriter) Check(t *tensor.Tensor) error {
	if w.done {
		return fs.ErrClosed
	}
	return w.g.Check(t)
}

func (w *rtenWriter) Add(t *tensor.Tensor) error {
	if err := w.Check(t); err != nil {
		return err
	}
	w.g.Constant(t)
	return w.g.Err()
}

func (w *rtenWriter) AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	for t, err := range ts {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = w.Add(t)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *rtenWriter) Close() error {
	if w.done {
		return w.err
	}
	w.done = true
	defer w.file.Abort() // nothing after its Close
	if w.err = w.g.Write(context.Background(), w.file, w.opts); w.err == nil {
		w.err = w.file.Close()
	}
	return w.err
}

func (w *rtenWriter) Abort() {
	if !w.done {
		w.done, w.err = true, fs.ErrClosed
		w.file.Abort()
	}
}

// A Leftover is a hidden file of a writer: what one that was killed has left, or what one
// that still runs will rename.
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
	// Age is how long ago a temporary file, or a journal that is not complete, must have
	// been written last to be stale. Zero is an hour.
	Age time.Duration
}

// Clean lists what writers have left in a directory, journals first. A file NAME is
// written as .NAME.tensorfile-tmp-…, which a writer that is killed leaves. A writer that
// is killed while it replaces a set of shards leaves .INDEX.tensorfile-journal, which
// lists the renames; reading the set is tensor.ErrUnfinished then. With Remove, Clean
// finishes the sets of journals, which writes and removes files of these sets alone. It
// removes temporary files that are older than Age, that no writer holds and that no
// journal names, and journals that their writers did not complete. The error is of the
// directory; those of single files are in the list.
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
