package remote

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An FS is a file system of the objects below an address, from a listing that is made
// when it is opened. Its files are an io.ReaderAt, and fetch only the bytes that are
// read. It is safe for concurrent use.
type FS struct {
	prefix string   // of all addresses; ends with a slash
	names  []string // of the files, sorted: directories follow from them
	files  map[string]Entry
	open   func(Entry) (io.ReaderAt, int64, error)
	close  func() error
}

const (
	// maxPath and maxElements bound the path of a file. Object stores have 1,024 bytes or
	// characters, file systems 4,096 bytes.
	maxPath     = 4096
	maxElements = 255
)

// OpenFS lists the objects below an address; a slash after the address is implied.
// Objects whose names end with a slash stand for directories and are left out. Reads fail
// when ctx is done.
func OpenFS(ctx context.Context, o Opener, address string) (*FS, error) {
	f := FS{prefix: strings.TrimSuffix(address, "/") + "/"}
	f.open = func(e Entry) (io.ReaderAt, int64, error) { return o.Open(ctx, e.Address) }
	if err := f.enter(o.List(ctx, f.prefix)); err != nil {
		return nil, err
	}
	if len(f.files) == 0 { // stores have no empty directories
		return nil, fmt.Errorf("remote: %s: %w", naming.Quote(f.prefix), fs.ErrNotExist)
	}
	return &f, nil
}

// enter takes over the files of a listing.
func (f *FS) enter(listing iter.Seq2[Entry, error]) error {
	f.files = map[string]Entry{}
	for e, err := range listing {
		if err != nil {
			return err
		}
		if strings.HasSuffix(e.Address, "/") {
			continue
		}
		name, below := strings.CutPrefix(e.Address, f.prefix)
		_, known := f.files[name]
		switch {
		case len(name) > maxPath || strings.Count(name, "/") >= maxElements:
			return f.failed(tensor.ErrLimit, "a path of %d bytes and %d elements", len(name),
				strings.Count(name, "/")+1)
		case known || !below || name == "." || !fs.ValidPath(name) || e.Size < 0:
			return f.failed(tensor.ErrMalformed, "its listing has %s", naming.Quote(e.Address))
		case len(f.files) == maxEntries:
			return f.failed(tensor.ErrLimit, "more than %d files", maxEntries)
		}
		f.files[name] = e
	}
	f.names = slices.Sorted(maps.Keys(f.files))
	for _, name := range f.names {
		if f.isDir(name) {
			return f.failed(tensor.ErrMalformed, "%s is a file and a directory",
				naming.Quote(name))
		}
	}
	return nil
}

// below returns the first name that is not less than a prefix, as an index in names.
func (f *FS) below(prefix string) int {
	i, _ := slices.BinarySearch(f.names, prefix)
	return i
}

// isDir reports whether there is a directory of that name.
func (f *FS) isDir(name string) bool {
	i := f.below(name + "/")
	return name == "." || i < len(f.names) && strings.HasPrefix(f.names[i], name+"/")
}

func (f *FS) failed(class error, format string, args ...any) error {
	return fmt.Errorf("remote: %s: %w: %s", naming.Quote(f.prefix), class,
		fmt.Sprintf(format, args...))
}

// Close closes idle connections. Open files stay usable until they are closed.
func (f *FS) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// Open returns a file that is an io.ReaderAt too, or a directory. Nothing is fetched
// before it is read.
func (f *FS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	info, err := f.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		entries, err := f.ReadDir(name)
		return &openDir{info: info, entries: entries}, err
	}
	return &openFile{in: f, name: name, info: info}, nil
}

// Stat describes a file without a request.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return f.stat("stat", name)
}

func (f *FS) stat(op, name string) (fs.FileInfo, error) {
	if e, ok := f.files[name]; ok {
		return fileInfo{path.Base(name), e.Size, 0o444, e.Modified}, nil
	}
	if f.isDir(name) {
		return fileInfo{path.Base(name), 0, fs.ModeDir | 0o555, time.Time{}}, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// ReadDir lists a directory without a request.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !f.isDir(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	var entries []fs.DirEntry
	for i := f.below(prefix); i < len(f.names) && strings.HasPrefix(f.names[i], prefix); {
		child, _, isDir := strings.Cut(f.names[i][len(prefix):], "/")
		info := fileInfo{name: child, mode: fs.ModeDir | 0o555}
		if isDir {
			i = f.below(prefix + child + "0") // which follows all that begin with child/
		} else {
			e := f.files[f.names[i]]
			info = fileInfo{child, e.Size, 0o444, e.Modified}
			i++
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		return strings.Compare(a.Name(), b.Name())
	})
	return entries, nil
}

type fileInfo struct {
	name string
	size int64
	mode fs.FileMode
	time time.Time
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return i.time }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }

// An openFile makes its first request when it is read.
type openFile struct {
	in   *FS
	name string
	info fs.FileInfo

	mu     sync.Mutex
	r      io.ReaderAt
	closed bool
	off    int64 // of Read
}

// reader opens the file once. A failure is tried again by the next read.
func (f *openFile) reader() (io.ReaderAt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fs.ErrClosed
	}
	if f.r == nil {
		r, size, err := f.in.open(f.in.files[f.name])
		if err != nil {
			return nil, err
		}
		if size != f.info.Size() {
			closeReader(r)
			return nil, fmt.Errorf("remote: %s: %w: it has %d bytes, and is listed with %d",
				naming.Quote(f.name), ErrChanged, size, f.info.Size())
		}
		f.r = r
	}
	return f.r, nil
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *openFile) ReadAt(p []byte, off int64) (int, error) {
	r, err := f.reader()
	if err != nil {
		return 0, err
	}
	return r.ReadAt(p, off)
}

// ReadsAhead says to package tensorfile what it does for a Reader.
func (f *openFile) ReadsAhead() {}

// Read is for one goroutine.
func (f *openFile) Read(p []byte) (int, error) {
	if f.off >= f.info.Size() {
		return 0, io.EOF
	}
	n, err := f.ReadAt(p[:min(int64(len(p)), f.info.Size()-f.off)], f.off)
	f.off += int64(n)
	return n, err
}

// Name and Companion make it a tensor.Companion: files next to it are of the same
// listing.
func (f *openFile) Name() string { return f.info.Name() }

func (f *openFile) Companion(name string) (io.ReaderAt, int64, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	in, err := f.in.Open(path.Join(path.Dir(f.name), name))
	if err != nil {
		return nil, 0, err
	}
	next, ok := in.(*openFile)
	if !ok {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return next, next.info.Size(), nil
}

func (f *openFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return closeReader(f.r)
}

func closeReader(r io.ReaderAt) error {
	if c, ok := r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

type openDir struct {
	info    fs.FileInfo
	entries []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.Name(), Err: fs.ErrInvalid}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	entries := slices.Clone(d.entries[:n])
	d.entries = d.entries[n:]
	return entries, nil
}
