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

// An Input is a file that is being opened: its bytes, the options of the call, and its
// companions, which are the files next to it. It is an io.ReaderAt and a
// tensor.Companion, so that a package that detects the format can pass it to NewReader of
// the format, which then owns it.
type Input struct {
	*source.Source
	// Options are complete: limits have their defaults, and Companion is never nil.
	Options tensor.ReadOptions
	// Asked are the limits of the call, for a format that has defaults of its own.
	Asked tensor.Limits
	// Path is the name that Open was called with, "" if there is none.
	Path string
	// Memory is the file that OpenBytes was called with, else nil. It does not change.
	Memory []byte
	// ReaderAt is the reader of the caller or of an fs.FS that the Source reads from; nil
	// if the file is in memory or is a file of the operating system.
	ReaderAt io.ReaderAt

	name       string
	unfinished func() error // looks for a journal; nil if there cannot be one
	companions atomic.Int64 // number of companions that were opened
	siblings   func() map[int64][]string
}

// An Opened is a Reader of any format.
type Opened interface {
	io.Closer
	Warnings() []error
}

// readFile calls read, which reads a file of a format. If the file is opened Strict,
// readFile fails with the first warning.
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

// A location is a name in a file system: of the operating system, or an fs.FS.
type location struct {
	path       string // a name of the operating system; "" in an fs.FS
	open       func(in *Input) error
	companion  func(o *tensor.ReadOptions) func(name string) (io.ReaderAt, int64, error)
	unfinished func() error
	stat       func() (fs.FileInfo, error)
	siblings   func() map[int64][]string // nil if they cannot be listed
}

// Open opens the file of that name, and reads it. If the file was replaced while its
// companions were opened, Open opens it again, up to three times. It then fails with
// tensor.ErrUnfinished.
func Open[R Opened](name string, opts *tensor.ReadOptions,
	read func(*Input) (R, error)) (r R, err error) {
	return openAt(name, opts, read, &location{path: name,
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
	return openAt(name, opts, read, &location{
		open: func(in *Input) (err error) {
			in.Source, in.ReaderAt, err = openFS(fsys, name, in.Options.NoMap,
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
	at *location) (r R, err error) {
	const attempts = 3
	for range attempts {
		in := &Input{Path: at.path, name: filepath.Base(name), unfinished: at.unfinished}
		if err = in.complete(opts); err != nil {
			return r, err
		}
		if opts == nil || opts.Companion == nil {
			in.setCompanions(at.companion(&in.Options))
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

// isSame reports whether a and b describe the same file, which has not changed.
func isSame(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) || a.Sys() == nil && a.Size() == b.Size() &&
		a.ModTime().Equal(b.ModTime())
}

// OpenBytes reads a file in memory. It keeps b, which must not change.
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

// NewReader reads the size bytes of r, which the caller closes unless it is an Input. If
// r is a tensor.Companion, it opens the companions.
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
			in.setCompanions(c.Companion)
		}
	}
	if in.Source, err = source.OfReaderAt(r, size); err != nil {
		return nil, err
	}
	if !in.Mapped() {
		in.ReaderAt = r
	}
	return in, nil
}

// Mapping returns the Source, for source.Mapping.
func (in *Input) Mapping() *source.Source { return in.Source }

// complete sets the options, with the defaults for zero fields.
func (in *Input) complete(opts *tensor.ReadOptions) (err error) {
	if opts != nil {
		in.Options, in.Asked = *opts, opts.Limits
	}
	in.Options.Limits, err = CompleteLimits(in.Options.Limits)
	in.setCompanions(in.Options.Companion)
	return err
}

// setCompanions sets the function that opens companions; nil if there are none.
func (in *Input) setCompanions(open func(name string) (io.ReaderAt, int64, error)) {
	in.Options.Companion = func(name string) (io.ReaderAt, int64, error) {
		if open == nil {
			return nil, 0, fmt.Errorf("%s: %w: there is no way to other files",
				naming.Quote(name), fs.ErrNotExist)
		}
		in.companions.Add(1)
		return open(name)
	}
}

// Name returns the name of the file without its directory, "" if it is not known.
func (in *Input) Name() string { return in.name }

// Companion opens a file next to this one. The caller closes it if it is an io.Closer.
func (in *Input) Companion(name string) (io.ReaderAt, int64, error) {
	return in.Options.Companion(name)
}

// Siblings returns the names of the regular files in the directory of this one, by their
// sizes. It returns nil if Companion does not open the files of that directory.
func (in *Input) Siblings() map[int64][]string {
	if in.siblings == nil {
		return nil
	}
	return in.siblings()
}

// Shard returns the Input of a file that is part of this one. A shard has no companions.
func (in *Input) Shard(src *source.Source) *Input {
	shard := &Input{Source: src, Asked: in.Asked}
	shard.Options = in.Options
	shard.setCompanions(nil)
	return shard
}

// Unfinished returns tensor.ErrUnfinished if a journal shows that the files of a set may
// be of two sets, else nil. A format that reads a set reports it as a warning.
func (in *Input) Unfinished() error {
	if in.unfinished == nil {
		return nil
	}
	return in.unfinished()
}

// explain adds to an error of reading a set that the set is unfinished, if it is.
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
// noMap is set. Another io.ReaderAt is returned as r, from which the Source reads. A file
// without ReadAt is read into memory, limit bytes at most.
func openFS(fsys fs.FS, name string, noMap bool, limit int64) (s *source.Source, r io.ReaderAt,
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
