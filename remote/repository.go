package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Repository is a repository of Hugging Face's Hub at one commit, as a file system whose
// files are an io.ReaderAt. Names, sizes and digests are known from its listing; of a file
// only what is read is fetched. It is safe for concurrent use.
type Repository struct {
	hub   *hub
	files map[string]Entry
	dirs  map[string][]fs.DirEntry
}

// An Entry is a file of a Repository.
type Entry struct {
	Name   string // a path with slashes, from the root of the repository
	Size   int64
	SHA256 string // of the content, where the file is in LFS or Xet; else ""
	GitSHA string // git's SHA-1 of the content, over "blob SIZE\x00" and it; else ""
}

const (
	maxPage    = 64 << 20
	maxPages   = 100_000
	maxEntries = 1 << 20
)

// OpenRepository lists a repository, or the directory of it that address has as its path, with
// one request for about 1,000 files. Reads fail when ctx is done. opts.MaxBytes holds for each
// file.
func OpenRepository(ctx context.Context, address string, opts *Options) (*Repository, error) {
	h, err := openHub(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	r := &Repository{hub: h, files: map[string]Entry{}, dirs: map[string][]fs.DirEntry{".": nil}}
	if err := r.list(); err != nil {
		h.conn.idle()
		return nil, err
	}
	return r, nil
}

// A treeRow is a row of the Hub's listing.
type treeRow struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// list reads the pages of the listing.
func (r *Repository) list() error {
	h := r.hub
	rest := h.commit
	if h.path != "" {
		rest += (&url.URL{Path: "/" + h.path}).EscapedPath()
	}
	b, header, err := h.get("tree", rest, "recursive=true", maxPage)
	for page := 1; ; page++ {
		if err != nil {
			return err
		}
		var rows []treeRow
		if err := json.Unmarshal(b, &rows); err != nil {
			return r.malformed("page %d of its listing is not a list of files", page)
		}
		for i := range rows {
			if err := r.enter(&rows[i]); err != nil {
				return err
			}
		}
		next := nextPage(header.Values("Link"))
		if next == "" {
			break
		}
		u, e := h.endpoint.Parse(next)
		if e != nil || !sameOrigin(u, h.endpoint) {
			return r.malformed("its listing goes on at another host")
		}
		if page == maxPages {
			return fmt.Errorf("remote: %s: %w: more than %d pages", r.name(), tensor.ErrLimit, page)
		}
		b, header, err = h.fetch(u, maxPage)
	}
	for _, entries := range r.dirs {
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return nil
}

// enter adds a row of the listing. Names are those of files below the directory of the address.
func (r *Repository) enter(row *treeRow) error {
	if row.Type != "file" {
		return nil // directories follow from the names of files
	}
	e := Entry{Name: row.Path, Size: row.Size, GitSHA: row.OID}
	if row.LFS != nil { // what git has is a pointer
		e.Size, e.SHA256, e.GitSHA = row.LFS.Size, row.LFS.OID, ""
	}
	name, below := row.Path, true
	if r.hub.path != "" {
		name, below = strings.CutPrefix(row.Path, r.hub.path+"/")
	}
	if _, ok := r.files[name]; ok || !below || name == "." || !fs.ValidPath(name) || e.Size < 0 {
		return r.malformed("its listing has %s", quote.Name(row.Path))
	}
	if _, ok := r.dirs[name]; ok {
		return r.malformed("%s is a file and a directory", quote.Name(row.Path))
	}
	if len(r.files) == maxEntries {
		return fmt.Errorf("remote: %s: %w: more than %d files", r.name(), tensor.ErrLimit, maxEntries)
	}
	r.files[name] = e
	info := fs.FileInfoToDirEntry(fileInfo{path.Base(name), e.Size, 0o444})
	for at := name; ; {
		dir := path.Dir(at)
		entries, seen := r.dirs[dir]
		if _, ok := r.files[dir]; ok {
			return r.malformed("%s is a file and a directory", quote.Name(dir))
		}
		r.dirs[dir] = append(entries, info)
		if seen {
			return nil
		}
		at, info = dir, fs.FileInfoToDirEntry(fileInfo{path.Base(dir), 0, fs.ModeDir | 0o555})
	}
}

// nextPage returns the address that Link headers name as the next page.
func nextPage(links []string) string {
	for _, link := range links {
		for _, l := range strings.Split(link, ",") {
			to, params, _ := strings.Cut(strings.TrimSpace(l), ";")
			if strings.Contains(params, `rel="next"`) && strings.HasPrefix(to, "<") {
				return strings.Trim(to, "<>")
			}
		}
	}
	return ""
}

func (r *Repository) name() string { return r.hub.kind + "/" + r.hub.hubAddress.name }

func (r *Repository) malformed(format string, args ...any) error {
	return fmt.Errorf("remote: %s: %w: %s", r.name(), tensor.ErrMalformed, fmt.Sprintf(format, args...))
}

// Repository returns ORG/NAME and the commit.
func (r *Repository) Repository() (name, commit string) { return r.hub.hubAddress.name, r.hub.commit }

// Files lists all files, by name.
func (r *Repository) Files() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, name := range slices.Sorted(maps.Keys(r.files)) {
			if !yield(r.files[name]) {
				return
			}
		}
	}
}

// Digest returns what the listing says of a file: its SHA-256, or git's SHA-1, in hexadecimal;
// "" where it says nothing.
func (r *Repository) Digest(name string) (sha256, git string) {
	e := r.files[name]
	return e.SHA256, e.GitSHA
}

// Close closes idle connections. Open files stay usable until they are closed.
func (r *Repository) Close() error {
	r.hub.conn.idle()
	return nil
}

// Open returns a file that is an io.ReaderAt too, or a directory. Nothing is fetched before
// it is read.
func (r *Repository) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	info, err := r.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &openDir{info: info, entries: r.dirs[name]}, nil
	}
	return &openFile{repository: r, name: name, info: info}, nil
}

// Stat describes a file without a request.
func (r *Repository) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return r.stat("stat", name)
}

func (r *Repository) stat(op, name string) (fs.FileInfo, error) {
	if e, ok := r.files[name]; ok {
		return fileInfo{path.Base(name), e.Size, 0o444}, nil
	}
	if _, ok := r.dirs[name]; ok {
		return fileInfo{path.Base(name), 0, fs.ModeDir | 0o555}, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// ReadDir lists a directory without a request.
func (r *Repository) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, ok := r.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(entries), nil
}

type fileInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fileInfo) Sys() any           { return nil }

// An openFile makes its first request when it is read.
type openFile struct {
	repository *Repository
	name       string
	info       fs.FileInfo

	mu     sync.Mutex
	r      *Reader
	closed bool
	off    int64 // of Read
}

// reader opens the file once. A failure is tried again by the next read.
func (f *openFile) reader() (*Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fs.ErrClosed
	}
	if f.r == nil {
		h := f.repository.hub
		r, err := h.open(path.Join(h.path, f.name), f.info.Size())
		if err != nil {
			return nil, err
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

// Read is for one goroutine.
func (f *openFile) Read(p []byte) (int, error) {
	if f.off >= f.info.Size() {
		return 0, io.EOF
	}
	n, err := f.ReadAt(p[:min(int64(len(p)), f.info.Size()-f.off)], f.off)
	f.off += int64(n)
	return n, err
}

// Name and Companion make it a tensor.Companion: files next to it are of the same commit.
func (f *openFile) Name() string { return f.info.Name() }

func (f *openFile) Companion(name string) (io.ReaderAt, int64, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	in, err := f.repository.Open(path.Join(path.Dir(f.name), name))
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
	if f.r == nil {
		return nil
	}
	return f.r.Close()
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
