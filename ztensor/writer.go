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

// The versions that can be written.
const (
	Version10 = "1.0" // specification 1.0.0
	Version2  = "2"
)

// A Digest is an algorithm of checksums.
type Digest = digest.Algorithm

// The digests.
const (
	NoDigest = digest.None
	CRC32C   = digest.CRC32C // detects accidental changes; version 1
	SHA256   = digest.SHA256 // detects deliberate changes too, if the manifest is trusted
	XXH3     = digest.XXH3   // detects accidental changes; version 2
)

// WriterOptions control how a file is written. nil is the zero value. If an option does
// not fit the version, writing fails with errors.ErrUnsupported; the package comment has
// a table.
type WriterOptions struct {
	// Version is [Version2] or [Version10]; "" means Version2. Upstream's programs read
	// the versions of their own generation only: the current ones read version 2.
	Version string
	// Canonical writes version 2 in canonical form, in which equal content makes equal
	// files. Add then only keeps the tensor. AddAll and Close write the data, sorted by
	// name; they fail if memory of the caller has changed by then. Canonical cannot be
	// combined with Level, KeepOrder or another Alignment than 65536. WriteFile and
	// WriteShards set it if these allow it.
	Canonical bool
	// Digest is the digest of each component of version 1.0, of the bytes as they are
	// stored: CRC32C or SHA256. Version 2 always has XXH3, of the bytes before
	// compression.
	Digest Digest
	// Level compresses with zstd, with the levels 1 to 22 of the zstd program; there are
	// four degrees of effort. 0 stores the bytes as they are, so that they can be mapped.
	Level int
	// Attributes describe the file. Values are strings in 1.0. In 2 each is a value that
	// github.com/fxamacker/cbor/v2 encodes, or a [Value].
	Attributes map[string]any
	// Generator names the program in files of 1.0; "" is "tensorfile".
	Generator string
	// Alignment is a power of two from 4096 to 1 GiB: the payloads of version 2 begin at
	// multiples of it. 0 is 65536, the alignment of canonical form.
	Alignment int64
	// KeepOrder makes WriteFile and WriteShards write the data of version 2 in the order
	// given. Version 1.0, and a Writer without Canonical, always do.
	KeepOrder bool
	// NoReplace makes Create and WriteFile fail with fs.ErrExist if the file exists.
	NoReplace bool
	// Progress, if not nil, is called with the bytes written so far, as done and as
	// total.
	Progress func(done, total int64)
}

// A Writer writes a .zt file in one pass, with the methods of every Writer: Check, Add,
// AddAll, Close and Abort. Add writes the data of a tensor, Close the manifest. A Writer
// never seeks. It is for one goroutine at a time.
//
// AddAll writes the same bytes as Add for each tensor, and compresses and hashes on all
// cores. It holds up to 32 MiB of data and one encoder a core, which takes 2 MiB at
// levels 1 and 2, 3 MiB below 7, 9 MiB below 16, else 40 MiB. Memory that its sequence
// has yielded must not change until it returns. A sparse tensor is checked as
// [sparse.Check] does, so that its indices are read twice.
//
// An error of writing, or of data that does not fit its tensor, is final: all later calls
// fail with it. If a tensor is refused before a byte of it was written, others can be
// added.
type Writer struct {
	generation
	old io.Closer // the Reader of the file that Append extends; nil: none
}

// A generation is the writer of package v1 or v2.
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

// NewWriter returns a Writer to w, which it never closes. If options are invalid, the
// first call of a method fails.
func NewWriter(w io.Writer, opts *WriterOptions) *Writer { return newWriter(w, false, opts) }

// newWriter returns the Writer of the version in opts. If owned is set, out is a
// format.Target, which Close and Abort end.
func newWriter(out io.Writer, owned bool, opts *WriterOptions) *Writer {
	o := opts.withDefaults()
	if o.Version == Version10 {
		return &Writer{generation: v1.NewWriter(out, owned, o.settings())}
	}
	return &Writer{generation: v2.NewWriter(out, owned, o.settings())}
}

// Create returns a Writer of the file of that name, which appears when Close succeeds, or
// not at all.
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

// WriteFile writes a file of the tensors of ts, which appears whole or not at all. It
// holds the descriptions of all tensors, and of the data what [Writer] says.
func WriteFile(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *WriterOptions) error {
	w, err := Create(name, opts.WholeFile())
	if err != nil {
		return err
	}
	return w.writeAll(ctx, ts)
}

// writeAll adds the tensors of ts and completes the file; after an error it drops the
// file.
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

// Check fails if an option is invalid or does not fit the version. o may be nil.
func (o *WriterOptions) Check() error { return NewWriter(io.Discard, o).Usable() }

// WholeFile returns o as [WriteFile] uses it: with Canonical set if the version has
// canonical form and the other options allow it. o may be nil.
func (o *WriterOptions) WholeFile() *WriterOptions {
	out := o.withDefaults()
	if out.Version == Version2 && out.Level == 0 && !out.KeepOrder &&
		(out.Alignment == 0 || out.Alignment == v2.CanonicalAlignment) {
		out.Canonical = true
	}
	return &out
}

// withDefaults returns a copy of o, which may be nil, with its Version set.
func (o *WriterOptions) withDefaults() WriterOptions {
	var out WriterOptions
	if o != nil {
		out = *o
	}
	if out.Version == "" {
		out.Version = Version2
	}
	return out
}

func (o *WriterOptions) settings() writer.Settings {
	return writer.Settings{Err: o.checkVersion(), Canonical: o.Canonical, Digest: o.Digest,
		Level: o.Level, Attributes: o.Attributes, Generator: o.Generator,
		Alignment: o.Alignment, KeepOrder: o.KeepOrder, Progress: o.Progress}
}

// checkVersion fails if an option is invalid or does not fit the version.
func (o *WriterOptions) checkVersion() error {
	isV2 := o.Version == Version2
	unfit := func(option, of string) error {
		return core.Errs.New(errors.ErrUnsupported, "%s is for %s, not for version %s", option, of,
			o.Version)
	}
	switch {
	case !isV2 && o.Version != Version10:
		return core.Errs.New(errors.ErrUnsupported, "version %s is not written: 1.0 and 2 are",
			naming.Quote(o.Version))
	case o.Level < 0 || o.Level > 22:
		return core.Errs.New(fs.ErrInvalid, "level %d is not between 0 and 22", o.Level)
	case o.Digest > XXH3:
		return core.Errs.New(fs.ErrInvalid, "there is no digest %v", o.Digest)
	case !utf8.ValidString(o.Generator):
		return core.Errs.New(fs.ErrInvalid, "the generator is not UTF-8")
	case !isV2 && o.Digest == XXH3:
		return fmt.Errorf("%w: use crc32c or sha256", unfit("digest xxh3", "version 2"))
	case isV2 && o.Digest != NoDigest && o.Digest != XXH3:
		return fmt.Errorf("%w: use xxh3", unfit(fmt.Sprint("digest ", o.Digest),
			"version 1.0"))
	case !isV2 && o.Canonical:
		return unfit("canonical form", "version 2")
	case !isV2 && o.Alignment != 0:
		return unfit("an alignment", "version 2")
	case isV2 && o.Generator != "":
		return unfit("a generator", "version 1.0")
	}
	return nil
}

// Create adds a dense tensor whose bytes are written to the result: little-endian,
// row-major, as many as dtype and shape require, or its Close fails. Until it is closed,
// all other calls of the Writer fail.
func (w *Writer) Create(name string, dtype tensor.DType,
	shape tensor.Shape) (io.WriteCloser, error) {
	return w.generation.Create(name, dtype, shape)
}

// TensorAttributes sets the attributes of the tensor of that name, before or after it is
// added. For the layouts zt.mx/1, zt.quant_group/1 and the layouts of gguf it must be
// called before. It fails with errors.ErrUnsupported for version 1.0, for values that
// version 2 cannot represent, and for tensors that Append or Link carried over.
func (w *Writer) TensorAttributes(name string, attributes map[string]any) error {
	if err := w.Usable(); err != nil {
		return err
	}
	return w.generation.TensorAttributes(name, attributes)
}

// Link adds the named tensors of r, or all if none is named, with their attributes. Their
// data stays in the file of r, which readers open as shard. shard is the result of
// r.Identity. Its name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a dot, or
// Link fails with fs.ErrInvalid. Link fails with errors.ErrUnsupported for version 1 and
// canonical form, with tensor.ErrNoTensor if r does not have a name.
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

// Close completes the file. The file of Create then appears under its name; the io.Writer
// of NewWriter stays open.
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
