package tensorfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// OpenFS opens a file of fsys. Files of the operating system, such as those of
// os.DirFS, are mapped where it can. Where the open file has no ReadAt it is read
// into memory, which opts.Limits.MaxDecoded bounds. An error has the name, as that of
// [Open].
func OpenFS(fsys fs.FS, name string, opts *Options) (*File, error) {
	o := opts.orZero()
	if o.Companion == nil {
		o.Companion = companionsFS(fsys, name, o)
	}
	unfinished := func() error { return atomicfile.UnfinishedFS(fsys, name) }
	r, size, err := openInFS(fsys, name, o)
	if err != nil {
		return nil, inFile(name, atomicfile.Explain("tensorfile", unfinished(), err))
	}
	f, err := openAny(o, input{
		r: named{r, path.Base(name), o.Companion, unfinished}, size: size})
	if err != nil {
		r.Close()
		return nil, inFile(name, err)
	}
	f.r = owning{f.r, r}
	return f, nil
}

// companionsFS opens the files that the named file refers to, in its directory.
func companionsFS(fsys fs.FS, name string, o Options) func(string) (io.ReaderAt, int64, error) {
	dir := path.Dir(name)
	if o.NoLinks {
		fsys = source.Confine(fsys, "", dir)
	}
	return func(companion string) (io.ReaderAt, int64, error) {
		if !fs.ValidPath(companion) || companion == "." {
			return nil, 0, &fs.PathError{Op: "open", Path: companion, Err: fs.ErrInvalid}
		}
		return openInFS(fsys, path.Join(dir, companion), o)
	}
}

// named is an open file with its name, and the way to others.
type named struct {
	readerAtCloser
	name      string
	companion func(name string) (io.ReaderAt, int64, error)
	pending   func() error
}

// Unfinished returns why the set of the file is not complete: see package atomicfile.
func (n named) Unfinished() error { return n.pending() }

func (n named) Name() string { return n.name }

func (n named) Companion(name string) (io.ReaderAt, int64, error) { return n.companion(name) }

// Source returns what may be mapped, or nil.
func (n named) Source() *source.Source {
	src, _ := n.readerAtCloser.(*source.Source)
	return src
}

// A readerAtCloser is an open file.
type readerAtCloser interface {
	io.ReaderAt
	io.Closer
}

func openInFS(fsys fs.FS, name string, o Options) (readerAtCloser, int64, error) {
	in, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	if f, ok := in.(*os.File); ok {
		src, err := source.OfFile(f, o.NoMap)
		if err != nil {
			return nil, 0, err
		}
		return src, src.Size(), nil
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("%w: not a regular file", fs.ErrInvalid)}
	}
	if err != nil {
		in.Close()
		return nil, 0, err
	}
	if r, ok := in.(readerAtCloser); ok {
		return r, info.Size(), nil
	}
	defer in.Close()
	limits, err := format.CompleteLimits(o.Limits)
	if err != nil {
		return nil, 0, err
	}
	limit := limits.MaxDecoded
	b, err := io.ReadAll(io.LimitReader(in, limit))
	if err == nil && int64(len(b)) == limit {
		if n, _ := io.ReadFull(in, make([]byte, 1)); n > 0 {
			err = fmt.Errorf("%w: more than %d bytes", tensor.ErrLimit, limit)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return source.OfBytes(b), int64(len(b)), nil
}

// owning closes what a reader was opened over together with the reader.
type owning struct {
	Reader
	under io.Closer
}

func (o owning) Close() error {
	err := o.Reader.Close()
	if e := o.under.Close(); err == nil && e != nil && !errors.Is(e, fs.ErrClosed) {
		err = e
	}
	return err
}
