package tensorfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
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
	// external weight file. nil means for Open the files in the same folder,
	// for the others that there are none.
	Companion func(name string) (io.ReaderAt, int64, error)
}

// A File is an open tensor file of any format. It may be used by several
// goroutines at the same time.
type File struct {
	r      reader
	format Format
	size   int64
}

// reader is the face that the Readers of all format packages have.
type reader interface {
	Close() error
	Version() string
	Len() int
	Tensors() iter.Seq[*tensor.Tensor]
	Tensor(name string) *tensor.Tensor
	Blobs() iter.Seq2[string, tensor.Blob]
	Attributes() iter.Seq2[string, string]
	Warnings() []error
	Verify(ctx context.Context, opts *tensor.VerifyOptions) error
}

// input is what a format's reader is made of: the file of a name, or bytes, or a
// reader and a size.
type input struct {
	name     string
	r        io.ReaderAt // nil: name
	inMemory bool        // r reads b
	b        []byte
	size     int64
}

// Open opens the file of that name, and maps it where the system can. Only
// regular files can be opened.
func Open(name string, opts *Options) (*File, error) {
	info, err := os.Stat(name) // before opening: a FIFO would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: not a regular file", fs.ErrInvalid)}
	}
	o := opts.orZero()
	if o.Format == 0 {
		if o.Format, err = detectFile(name); err != nil {
			return nil, err
		}
	}
	return open(o, input{name: name, size: info.Size()})
}

func detectFile(name string) (Format, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return detectWith(f, info.Size(), func(in io.ReaderAt) bool {
		src, err := source.Open(name, false) // mapped, the weights of a version 1 are not copied to be verified
		if err != nil {
			return detect(RTen, in, info.Size())
		}
		defer src.Close()
		return rten.Detect(src, src.Size())
	})
}

// OpenBytes opens a file that is in memory, and keeps b, which must not change
// while the File is in use.
func OpenBytes(b []byte, opts *Options) (*File, error) {
	return openAny(opts, input{b: b, inMemory: true, r: bytes.NewReader(b), size: int64(len(b))})
}

// NewReader opens the size bytes that r has. The File does not own r: closing
// the File does not close it.
func NewReader(r io.ReaderAt, size int64, opts *Options) (*File, error) {
	if size < 0 {
		return nil, fmt.Errorf("tensorfile: negative size %d", size)
	}
	return openAny(opts, input{r: r, size: size})
}

// OpenFS opens a file of fsys. Where the open file has no ReadAt it is read into
// memory, which opts.Limits.MaxDecoded bounds.
func OpenFS(fsys fs.FS, name string, opts *Options) (*File, error) {
	in, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: not a regular file", fs.ErrInvalid)}
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	if r, ok := in.(io.ReaderAt); ok {
		f, err := NewReader(r, info.Size(), opts)
		if err != nil {
			in.Close()
			return nil, err
		}
		f.r = owning{f.r, in}
		return f, nil
	}
	defer in.Close()
	most := opts.orZero().Limits.WithDefaults().MaxDecoded
	b, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) == most {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: %d bytes or more", tensor.ErrLimit, most)}
	}
	return OpenBytes(b, opts)
}

// owning closes what a reader was opened over together with the reader.
type owning struct {
	reader
	under io.Closer
}

func (o owning) Close() error {
	err := o.reader.Close()
	if e := o.under.Close(); err == nil && e != nil && !errors.Is(e, fs.ErrClosed) {
		err = e
	}
	return err
}

func openAny(opts *Options, in input) (*File, error) {
	o := opts.orZero()
	if o.Format == 0 {
		var err error
		if o.Format, err = Detect(in.r, in.size); err != nil {
			return nil, err
		}
	}
	return open(o, in)
}

func open(o Options, in input) (*File, error) {
	r, err := openFormat(o, in)
	if err != nil {
		return nil, err
	}
	return &File{r, o.Format, in.size}, nil
}

func (o *Options) orZero() Options {
	if o == nil {
		return Options{}
	}
	return *o
}

// Close releases the file. It may be called more than once. After it reading is
// fs.ErrClosed, and borrowed slices must not be touched.
func (f *File) Close() error { return f.r.Close() }

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

// Blobs returns the named payloads that are not tensors, in file order.
func (f *File) Blobs() iter.Seq2[string, tensor.Blob] { return f.r.Blobs() }

// Attributes returns what the file says about itself in words.
func (f *File) Attributes() iter.Seq2[string, string] { return f.r.Attributes() }

// Warnings returns the departures from the format's document that did not
// prevent opening the file.
func (f *File) Warnings() []error { return f.r.Warnings() }

// Verify reads everything and checks it: structure, padding, overlaps, digests,
// encoded payloads. It returns nil when there are only warnings, else an error
// that tensor.Findings takes apart.
func (f *File) Verify(ctx context.Context, opts *tensor.VerifyOptions) error {
	return f.r.Verify(ctx, opts)
}

// Sys returns the Reader of the format's own package, for all that only one
// format has: a *ztensor.Reader, a *pte.Reader, …
func (f *File) Sys() any {
	if o, ok := f.r.(owning); ok {
		return o.reader
	}
	return f.r
}
