package format

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Input is a file that is being opened: its bytes, the options of the call, and the
// way to the files next to it. It is an io.ReaderAt and a tensor.Companion, so that a
// package that detects the format can pass it to NewReader of the format, which then owns
// it.
type Input struct {
	*source.Source
	// Options are complete: limits have their defaults, and Companion is never nil.
	Options tensor.ReadOptions
	// Asked are the limits of the call, for a format that has defaults of its own.
	Asked tensor.Limits
	// Path is the name that Open was called with; "" where there is none.
	Path string
	// Memory is the file where OpenBytes was called: memory that does not change.
	Memory []byte
	// Far is what the Source reads from if that is neither memory nor a file of this
	// machine; else nil.
	Far io.ReaderAt

	name       string
	unfinished func() error // nil: there is no journal to look for
	companions atomic.Int64 // that were opened
	siblings   func() map[int64][]string
}

// An Opened is a Reader of any format.
type Opened interface {
	io.Closer
	Warnings() []error
}

// readFile calls a reader of a format. If the file is opened Strict, its first warning is
// an error.
func readFile[R Opened](in *Input, read func(*Input) (R, error)) (r R, err error) {
	if r, err = read(in); err != nil {
		return *new(R), err
	}
	if !in.Options.Strict {
		return r, nil
	}
	if w := r.Warnings(); len(w) > 0 {
		r.Close()
		return *new(R), w[0]
	}
	return r, nil
}

// A place is where a file is, with the files next to it.
type place struct {
	path       string // of a file of this machine; "" in an fs.FS
	open       func(in *Input) error
	companion  func(o *tensor.ReadOptions) func(name string) (io.ReaderAt, int64, error)
	unfinished func() error
	stat       func() (fs.FileInfo, error)
	siblings   func() map[int64][]string // nil where they are not listed
}

// Open opens the file of that name, and reads it. Where files next to it were read as
// well, and the file was replaced meanwhile, it is opened again.
func Open[R Opened](name string, opts *tensor.ReadOptions,
	read func(*Input) (R, error)) (r R, err error) {
	return openAt(name, opts, read, &place{path: name,
		open: func(in *Input) (err error) {
			in.Source, err = source.Open(name, in.Options.NoMap)
			return err
		},
		companion: func(o *tensor.ReadOptions) func(string) (io.ReaderAt, int64, error) {
			return source.Companions(name, o.NoMap, o.NoLinks)
		},
		unfinished: func() error { return atomicfile.Unfinished(name) },
		stat:       func() (fs.FileInfo, error) { return os.Stat(name) },
		siblings:   func() map[int64][]string { return source.Siblings(name) }})
}

// OpenFS is Open for a file of fsys. A file of the operating system is mapped where the
// system can. A file without ReadAt is read into memory, which Limits.MaxDecoded bounds.
func OpenFS[R Opened](fsys fs.FS, name string, opts *tensor.ReadOptions,
	read func(*Input) (R, error)) (r R, err error) {
	return openAt(name, opts, read, &place{
		open: func(in *Input) (err error) {
			in.Source, in.Far, err = openFS(fsys, name, in.Options.NoMap,
				in.Options.Limits.MaxDecoded)
			return err
		},
		companion: func(o *tensor.ReadOptions) func(string) (io.ReaderAt, int64, error) {
			return companionsFS(fsys, name, o.NoMap, o.NoLinks, o.Limits.MaxDecoded)
		},
		unfinished: func() error { return atomicfile.UnfinishedFS(fsys, name) },
		stat:       func() (fs.FileInfo, error) { return fs.Stat(fsys, name) }})
}

func openAt[R Opened](name string, opts *tensor.ReadOptions, read func(*Input) (R, error),
	at *place) (r R, err error) {
	const turns = 3
	for range turns {
		in := &Input{Path: at.path, name: filepath.Base(name), unfinished: at.unfinished}
		if err = in.complete(opts); err != nil {
			return r, err
		}
		if opts == nil || opts.Companion == nil {
			in.companionsOf(at.companion(&in.Options))
			in.siblings = at.siblings
		}
		before, _ := at.stat()
		if err = at.open(in); err != nil {
			return r, in.explain(err)
		}
		if r, err = readFile(in, read); err != nil {
			in.Close()
			return r, in.explain(err)
		}
		if in.companions.Load() == 0 {
			return r, nil
		}
		if after, _ := at.stat(); before == nil || after == nil || isSame(before, after) {
			return r, nil
		}
		r.Close()
		err = fmt.Errorf("%w: %s was replaced while the files next to it were opened",
			tensor.ErrUnfinished, name)
	}
	return *new(R), err
}

// isSame reports whether two descriptions are of one file that has not changed.
func isSame(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) || a.Sys() == nil && a.Size() == b.Size() &&
		a.ModTime().Equal(b.ModTime())
}

// OpenBytes reads a file in memory, and keeps b.
func OpenBytes[R Opened](b []byte, opts *tensor.ReadOptions,
	read func(*Input) (R, error)) (r R, err error) {
	if b == nil {
		b = []byte{}
	}
	in := &Input{Source: source.OfBytes(b), Memory: b}
	if err := in.complete(opts); err != nil {
		return r, err
	}
	return readFile(in, read)
}

// NewReader reads the size bytes of r, which stays the caller's unless it is an Input.
// The files next to it are the files next to r where it is a tensor.Companion.
func NewReader[R Opened](r io.ReaderAt, size int64, opts *tensor.ReadOptions,
	read func(*Input) (R, error)) (x R, err error) {
	in, ok := r.(*Input)
	if !ok {
		if in, err = NewInput(r, size, opts); err != nil {
			return x, err
		}
	}
	return readFile(in, read)
}

// NewInput returns the Input of the size bytes of r.
func NewInput(r io.ReaderAt, size int64, opts *tensor.ReadOptions) (in *Input, err error) {
	in = new(Input)
	if err := in.complete(opts); err != nil {
		return nil, err
	}
	if c, ok := r.(tensor.Companion); ok {
		in.name, in.unfinished = c.Name(), atomicfile.UnfinishedOf(r)
		if opts == nil || opts.Companion == nil {
			in.companionsOf(c.Companion)
		}
	}
	if in.Source, err = source.OfReaderAt(r, size); err != nil {
		return nil, err
	}
	if !in.Mapped() {
		in.Far = r
	}
	return in, nil
}

// Mapping returns the Source, for a package that makes one of an io.ReaderAt.
func (in *Input) Mapping() *source.Source { return in.Source }

func (in *Input) complete(opts *tensor.ReadOptions) (err error) {
	if opts != nil {
		in.Options, in.Asked = *opts, opts.Limits
	}
	in.Options.Limits, err = CompleteLimits(in.Options.Limits)
	in.companionsOf(in.Options.Companion)
	return err
}

// companionsOf sets the function that opens the files next to this one; nil for none.
func (in *Input) companionsOf(open func(name string) (io.ReaderAt, int64, error)) {
	in.Options.Companion = func(name string) (io.ReaderAt, int64, error) {
		if open == nil {
			return nil, 0, fmt.Errorf("%s: %w: there is no way to other files",
				naming.Quote(name), fs.ErrNotExist)
		}
		in.companions.Add(1)
		return open(name)
	}
}

// Name returns the name of the file without a directory, "" where it is not known.
func (in *Input) Name() string { return in.name }

// Companion opens a file next to this one.
func (in *Input) Companion(name string) (io.ReaderAt, int64, error) {
	return in.Options.Companion(name)
}

// Siblings returns the names of the regular files next to this one by their sizes, nil
// where Companion opens other files than those.
func (in *Input) Siblings() map[int64][]string {
	if in.siblings == nil {
		return nil
	}
	return in.siblings()
}

// Shard returns the Input of a file that is part of this one, which refers to no other
// file.
func (in *Input) Shard(src *source.Source) *Input {
	shard := &Input{Source: src, Asked: in.Asked}
	shard.Options = in.Options
	shard.companionsOf(nil)
	return shard
}

// Unfinished returns why the files of a set may be of two sets, which is
// tensor.ErrUnfinished, or nil. A format that reads a set reports it as a warning.
func (in *Input) Unfinished() error {
	if in.unfinished == nil {
		return nil
	}
	return in.unfinished()
}

// explain adds why a set is not complete to an error of reading it.
func (in *Input) explain(err error) error {
	return atomicfile.Explain("tensorfile", in.Unfinished(), err)
}

// companionsFS is source.Companions for a file of fsys.
func companionsFS(fsys fs.FS, name string, noMap, noLinks bool,
	limit int64) func(name string) (io.ReaderAt, int64, error) {
	dir := path.Dir(name)
	if noLinks {
		fsys = source.Confine(fsys, "", dir)
	}
	return func(companion string) (io.ReaderAt, int64, error) {
		if !fs.ValidPath(companion) || companion == "." {
			return nil, 0, &fs.PathError{Op: "open", Path: companion, Err: fs.ErrInvalid}
		}
		s, _, err := openFS(fsys, path.Join(dir, companion), noMap, limit)
		if err != nil {
			return nil, 0, err
		}
		return s, s.Size(), nil
	}
}

// openFS opens a regular file of fsys. A file of the operating system is mapped unless
// noMap is set. far is the open file if it is another io.ReaderAt, from which the Source
// reads. A file without ReadAt is read into memory, limit bytes at most.
func openFS(fsys fs.FS, name string, noMap bool, limit int64) (s *source.Source, far io.ReaderAt,
	err error) {
	in, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if f, ok := in.(*os.File); ok {
		s, err := source.OfFile(f, noMap)
		return s, nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("%w: not a regular file", fs.ErrInvalid)}
	}
	if err != nil {
		in.Close()
		return nil, nil, err
	}
	if r, ok := in.(io.ReaderAt); ok {
		return source.OfOpen(r, in, info.Size()), r, nil
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, limit))
	if err == nil && int64(len(b)) == limit {
		if n, _ := io.ReadFull(in, make([]byte, 1)); n > 0 {
			err = fmt.Errorf("%w: more than %d bytes", tensor.ErrLimit, limit)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return source.OfBytes(b), nil, nil
}
