package tensorfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
)

// Options are those that all formats share; nil is the zero value. Options of
// one format are in its own package.
type Options struct {
	// Format is not detected when it is given.
	Format Format
	// Strict refuses every departure from the format's document, not only those
	// that prevent reading.
	Strict bool
	// Limits bound what the file may ask for. Zero fields are defaults that
	// read every genuine file.
	Limits tensor.Limits
	// NoMap reads the file instead of mapping it into memory. It has no meaning
	// for OpenBytes and NewReader.
	NoMap bool
	// Companion opens a file that this one refers to by name: a shard, an
	// external weight file. nil means for Open and OpenFS the files in the same
	// directory, for NewReader those of a source that is a tensor.Companion, else
	// that there are none.
	Companion func(name string) (io.ReaderAt, int64, error)
	// NoLinks makes Open refuse companions that are links out of the directory, as they
	// are in Hugging Face's cache, and OpenFS those that are links.
	NoLinks bool
}

// A File is an open tensor file of any format. It may be used by several
// goroutines at the same time.
type File struct {
	r      Reader
	format Format
	size   int64
	limits tensor.Limits
	far    io.ReaderAt // nil: mapped, in memory, or a local file
	closed atomic.Bool
}

// A Reader is what the Readers of all format packages have in common.
type Reader interface {
	Close() error
	Version() string
	Size() int64
	Len() int
	Tensors() iter.Seq[*tensor.Tensor]
	Tensor(name string) *tensor.Tensor
	Blobs() iter.Seq2[string, tensor.Blob]
	Attributes() iter.Seq2[string, string]
	Warnings() []error
	Spans() iter.Seq[tensor.Span]
	Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error)
}

// input is what a format's reader is made of: the file of a name, or bytes, or a
// reader and a size.
type input struct {
	name     string
	r        io.ReaderAt // nil: name
	inMemory bool        // r reads b
	b        []byte
	far      io.ReaderAt // where r reads from, if that is not memory
	size     int64
}

// Open opens the file of that name, and maps it where the system can. Only regular
// files can be opened, and the directory of a distributed checkpoint of PyTorch, by its
// .metadata or by its shards of safetensors. An error has the name: it is a
// *[FileError], or a
// *fs.PathError of the system.
func Open(name string, opts *Options) (*File, error) {
	f, err := openFile(name, opts.orZero())
	return f, inFile(name, err)
}

func openFile(name string, o Options) (*File, error) {
	if shards := torch.ShardNames(name); shards != nil {
		return openShards(o, name, shards)
	}
	name = torch.Metadata(name)
	src, err := source.Open(name, o.NoMap)
	if err != nil {
		return nil, atomicfile.Explain("tensorfile", atomicfile.Unfinished(name), err)
	}
	defer src.Close()
	in := input{name: name, size: src.Size()}
	if o.Format != 0 {
		return open(o, in)
	}
	e := newEdges(src, src.Size())
	head, err := src.Metadata(0, min(src.Size(), 4<<10)) // local: another read costs little
	if err != nil {
		return nil, err
	}
	e.head, e.started = head, true
	return openUnknown(o, in, e)
}

// A FileError is an error of opening, with the name of the file.
type FileError struct {
	Name string
	Err  error
}

func (e *FileError) Error() string { return e.Name + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// inFile gives an error the name of its file; nil stays nil.
func inFile(name string, err error) error {
	if err == nil {
		return nil
	}
	var system *fs.PathError
	if errors.As(err, &system) && system.Path == name {
		return err // has it already
	}
	return &FileError{name, err}
}

// OpenBytes opens a file that is in memory, and keeps b, which must not change
// while the File is in use.
func OpenBytes(b []byte, opts *Options) (*File, error) {
	return openAny(opts.orZero(),
		input{b: b, inMemory: true, r: bytes.NewReader(b), size: int64(len(b))})
}

// NewReader opens the size bytes that r has. The File does not own r: closing
// the File does not close it. Detection and opening together read the first 64 KiB
// once, and the last where the format looks there.
func NewReader(r io.ReaderAt, size int64, opts *Options) (*File, error) {
	if size < 0 {
		return nil, fmt.Errorf("tensorfile: negative size %d", size)
	}
	return openAny(opts.orZero(), input{r: r, size: size})
}

func openAny(o Options, in input) (*File, error) {
	e := newEdges(in.r, in.size)
	if in.inMemory {
		e.head, e.started = in.b[:min(len(in.b), edgeSize)], true
	} else if source.Mapping(in.r) == nil {
		in.far, in.r = in.r, e
		if c, ok := in.far.(tensor.Companion); ok {
			in.r = companionEdges{e, c}
		}
	}
	defer e.opened()
	if o.Format != 0 {
		return open(o, in)
	}
	return openUnknown(o, in, e)
}

func open(o Options, in input) (*File, error) {
	r, err := openFormat(o, in)
	if err != nil {
		return nil, err
	}
	return &File{r: r, format: o.Format, size: in.size, far: in.far, limits: o.Limits}, nil
}

func (o *Options) orZero() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

// Close releases the file. It may be called more than once. After it reading is
// fs.ErrClosed, and borrowed slices must not be touched.
func (f *File) Close() error {
	f.closed.Store(true)
	return f.r.Close()
}

// Format is what the file was opened as.
func (f *File) Format() Format { return f.format }

// Version is the format's version in the format's own words.
func (f *File) Version() string { return f.r.Version() }

// Size is the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

// Len is the number of tensors.
func (f *File) Len() int { return f.r.Len() }

// Tensors returns all tensors in file order. Names may repeat where the format
// allows it.
func (f *File) Tensors() iter.Seq[*tensor.Tensor] { return f.r.Tensors() }

// Tensor returns the first tensor of that name, or nil.
func (f *File) Tensor(name string) *tensor.Tensor { return f.r.Tensor(name) }

// Lookup returns the first tensor of that name, or an error that wraps
// tensor.ErrNoTensor and has the name.
func (f *File) Lookup(name string) (*tensor.Tensor, error) {
	t := f.Tensor(name)
	if t == nil {
		return nil, fmt.Errorf("%w: %s", tensor.ErrNoTensor, naming.Quote(name))
	}
	return t, nil
}

// Blobs returns the named payloads that are not tensors, in file order.
func (f *File) Blobs() iter.Seq2[string, tensor.Blob] { return f.r.Blobs() }

// Attributes returns what the file says about itself in words.
func (f *File) Attributes() iter.Seq2[string, string] { return f.r.Attributes() }

// Warnings returns the departures from the format's document that did not
// prevent opening the file.
func (f *File) Warnings() []error { return f.r.Warnings() }

// Spans returns what every byte of the file is for, in the order of offsets, disjoint and
// without a gap. Shards are other files: File.Spans does not list their bytes.
func (f *File) Spans() iter.Seq[tensor.Span] { return f.r.Spans() }

// Verify reads everything and checks it: structure, padding, overlaps, digests,
// encoded payloads. The report, which is never nil, lists what was found; the error
// is that of Report.Err: not nil if the file is damaged or could not be read.
func (f *File) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	return f.r.Verify(ctx, opts)
}

// Sys returns the Reader of the format's own package, for all that only one
// format has: a *ztensor.Reader, a *pte.Reader, …
func (f *File) Sys() any {
	if o, ok := f.r.(owning); ok {
		return o.Reader
	}
	return f.r
}
