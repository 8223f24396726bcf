package ztensor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

// The versions that are written.
const (
	Version10 = "1.0" // of the published specification 1.0.0
	Version2  = "2"
)

// Digest says which checksum a writer puts next to each payload. In version 1 it covers
// the bytes as they are stored, after compression and without padding; in version 2 the
// bytes before compression.
type Digest = digest.Algorithm

// The digests.
const (
	NoDigest = digest.None
	CRC32C   = digest.CRC32C // finds accidents; costs next to nothing
	SHA256   = digest.SHA256 // also finds intent, as far as the manifest itself can be trusted
	XXH3     = digest.XXH3   // of version 2, which has it for every part; finds accidents
)

// WriterOptions control how a file is written. nil is the zero value. An option that does
// not fit the version is an error that names both; the package comment has them in a
// table.
type WriterOptions struct {
	// Version is [Version2] or "", or [Version10]. Programs of upstream read the versions
	// of their own generation only: today's read version 2.
	Version string
	// Canonical writes version 2 in canonical form, in which equal content makes equal
	// files. Add then keeps the tensor, and its data is written, sorted by name, by
	// AddAll and Close, which fail if memory of the caller has changed by then. It
	// excludes Level, Alignment and KeepOrder. WriteFile and WriteShards set it where
	// these allow it.
	Canonical bool
	// Digest is computed for each component of version 1, of the bytes as stored:
	// CRC32C or SHA256. Version 2 always has XXH3, of the bytes before compression.
	Digest Digest
	// Level compresses with zstd: 1 to 22 as the zstd program counts, in four steps of
	// effort. 0 stores the bytes as they are, so that they can be mapped.
	Level int
	// Attributes describe the file. Values are strings in 1.0. In 2 they are values that
	// github.com/fxamacker/cbor/v2 encodes, or a [Value].
	Attributes map[string]any
	// Generator names the program in files of 1.0; "" is "tensorfile".
	Generator string
	// Alignment is where the payloads of version 2 begin: at multiples of it, a power
	// of two from 4096. 0 is 65536, the alignment of canonical form.
	Alignment int64
	// KeepOrder makes WriteFile and WriteShards write the tensors of version 2 in the
	// order given, as a Writer that is not Canonical does anyway, and version 1 always.
	KeepOrder bool
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far, as done and as
	// total.
	Progress func(done, total int64)
}

// A Writer writes a .zt file in one pass, with the methods of every Writer: Check, Add,
// AddAll, Close and Abort. Data goes out as it is added, the manifest comes last; it
// never seeks. It is for one goroutine at a time.
//
// AddAll writes the same bytes as Add for each tensor, and compresses and hashes on all
// cores, with up to 32 MiB of data in flight and an encoder for each core: 2 MiB at
// levels 1 and 2, 3 below 7, 9 below 16, else 40. Memory that its sequence has yielded
// must not change until it returns. A sparse tensor is checked as [sparse.Check] does, so
// that its indices are read twice.
//
// An error of writing, or of data that does not fit its tensor, is final: all later calls
// fail with it. After a tensor that is refused before a byte of it was written others can
// be added.
type Writer struct {
	generation
	old io.Closer // the file that is continued in its place; nil: none
}

// A generation is the writer of one.
type generation interface {
	Check(t *tensor.Tensor) error
	Add(t *tensor.Tensor) error
	AddAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error
	Create(name string, dtype tensor.DType, shape tensor.Shape) (io.WriteCloser, error)
	TensorAttributes(name string, attributes map[string]any) error
	Apply(ctx context.Context, r *core.File, e *format.Edit) error
	Usable() error
	Close() error
	Abort()
}

// NewWriter begins a file on w, which it never closes. The first call of a method returns
// the error of wrong options.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer { return newWriter(w, false, opts) }

// newWriter chooses the generation. If owned is set, out is a file that the Writer
// completes.
func newWriter(out io.Writer, owned bool, opts *WriterOptions) *Writer {
	o := opts.orZero()
	if o.Version == Version10 {
		return &Writer{generation: v1.NewWriter(out, owned, o.settings())}
	}
	return &Writer{generation: v2.NewWriter(out, owned, o.settings())}
}

// Create begins a file that appears under that name when Close succeeds, and
// not at all before that or otherwise.
func Create(name string, opts *WriterOptions) (*Writer, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	create := atomicfile.Create
	if opts != nil && opts.NoReplace {
		create = atomicfile.CreateNew
	}
	f, err := create(name)
	if err != nil {
		return nil, err
	}
	return newWriter(f, true, opts), nil
}

// WriteFile writes a file of these tensors, which appears whole or not at all. It has the
// descriptions of all tensors and pieces of the data in memory: at most 48 MiB on two
// cores at a Level of up to 3.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	w, err := Create(name, opts.WholeFile())
	if err != nil {
		return err
	}
	return w.writeAll(ctx, ts)
}

// writeAll adds the tensors of ts, and completes the file. After an error it is dropped.
func (w *Writer) writeAll(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error]) error {
	defer w.Abort()
	if err := w.AddAll(ctx, ts); err != nil {
		return err
	}
	return w.Close()
}

// Save writes tensors under the names that are the keys of m, sorted. The file appears
// whole or not at all.
func Save(name string, m map[string]*tensor.Tensor) error {
	return WriteFile(context.Background(), name, tensor.Sorted(m), nil)
}

// Check reports options that are wrong, or do not fit the version.
func (o *WriterOptions) Check() error { return NewWriter(io.Discard, o).Usable() }

// WholeFile returns the options of a Writer that is given all tensors of a file: o, and
// Canonical where the version has that form and o allows it. o may be nil.
func (o *WriterOptions) WholeFile() *WriterOptions {
	as := o.orZero()
	if as.Version == Version2 && as.Level == 0 && !as.KeepOrder &&
		(as.Alignment == 0 || as.Alignment == v2.CanonicalAlignment) {
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

func (o *WriterOptions) settings() writer.Settings {
	return writer.Settings{Err: o.fit(), Canonical: o.Canonical, Digest: o.Digest, Level: o.Level,
		Attributes: o.Attributes, Generator: o.Generator, Alignment: o.Alignment,
		KeepOrder: o.KeepOrder, Progress: o.Progress}
}

// fit reports options that do not fit the version.
func (o *WriterOptions) fit() error {
	old := o.Version != Version2
	unfit := func(option, of string) error {
		return core.Errs.New(errors.ErrUnsupported, "%s is for %s, not for version %s", option, of,
			o.Version)
	}
	switch {
	case old && o.Version != Version10:
		return core.Errs.New(errors.ErrUnsupported, "version %s is not written: 1.0 and 2 are",
			naming.Quote(o.Version))
	case o.Level < 0 || o.Level > 22:
		return core.Errs.New(fs.ErrInvalid, "level %d is not between 0 and 22", o.Level)
	case o.Digest > XXH3:
		return core.Errs.New(fs.ErrInvalid, "there is no digest %v", o.Digest)
	case !utf8.ValidString(o.Generator):
		return core.Errs.New(fs.ErrInvalid, "the generator is not UTF-8")
	case old && o.Digest == XXH3:
		return fmt.Errorf("%w: use crc32c or sha256", unfit("digest xxh3", "version 2"))
	case !old && o.Digest != NoDigest && o.Digest != XXH3:
		return fmt.Errorf("%w: use xxh3", unfit(fmt.Sprint("digest ", o.Digest),
			"version 1.0"))
	case old && o.Canonical:
		return unfit("canonical form", "version 2")
	case old && o.Alignment != 0:
		return unfit("an alignment", "version 2")
	case o.Generator != "" && !old:
		return unfit("a generator", "version 1.0")
	}
	return nil
}

// Create begins a dense tensor whose bytes come piece by piece through the WriteCloser:
// little-endian, row-major, exactly as many as dtype and shape require, or Close fails.
// Until it is closed nothing else can be added.
func (w *Writer) Create(name string, dtype tensor.DType,
	shape tensor.Shape) (io.WriteCloser, error) {
	return w.generation.Create(name, dtype, shape)
}

// TensorAttributes sets the attributes of the tensor of that name, before or after it
// is added; before it if its layout has rules for them: zt.mx/1, zt.quant_group/1 and
// the layouts of gguf. 1.0 has no such attributes.
func (w *Writer) TensorAttributes(name string, attributes map[string]any) error {
	if err := w.Usable(); err != nil {
		return err
	}
	return w.generation.TensorAttributes(name, attributes)
}

// Link adds tensors of r, the named ones or all, with their attributes and without
// their data: that stays in the file that r has open, which readers find as shard.
// shard is what r.Identity returns for a name of 1 to 64 of A-Z a-z 0-9 . _ - that does
// not begin with a dot. Canonical form and version 1 have no shards.
func (w *Writer) Link(shard Shard, r *Reader, names ...string) error {
	if err := w.Usable(); err != nil {
		return err
	}
	to, ok := w.generation.(*v2.Writer)
	from, err := r.version2("shards")
	if !ok || err != nil {
		return cmp.Or(err, core.Errs.New(errors.ErrUnsupported, "shards of version 1.0"))
	}
	return to.Link(shard, from, names)
}

// Close completes the file. If Create made the Writer, the file then appears
// under its name; the io.Writer of any other stays open.
func (w *Writer) Close() error {
	err := w.generation.Close()
	w.release()
	return err
}

// Abort drops the file. After Close it does nothing.
func (w *Writer) Abort() {
	w.generation.Abort()
	w.release()
}

func (w *Writer) release() {
	if w.old != nil {
		w.old.Close()
		w.old = nil
	}
}
