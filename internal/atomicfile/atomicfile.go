// Package atomicfile writes files that appear whole, or not at all: into a temporary
// file in the directory of the target, which is flushed to the disk and then renamed
// over it. An error, a panic, a killed process or lost power before the rename leaves the
// target as it was; at worst a file .NAME.tensorfile-tmp-RANDOM is left next to it.
//
// It is built for files of many gigabytes as well: space is reserved ahead of the data,
// and the disk begins while more is written.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// pieceSize is how much is handed to the system at a time: larger pieces are no faster,
// and less steady. A piece that is no shorter than largePiece is not gathered: a copy
// would cost more than the call.
const (
	pieceSize  = 1 << 20
	largePiece = 256 << 10
)

// A File is a file on its way to appear. It is for one goroutine at a time, but for
// WriteAt, which several may call while nobody calls anything else.
type File struct {
	name   string // as given
	target string // links resolved
	temp   string
	f      *os.File
	hook   hook
	noSync bool
	set    *Set // Close leaves the renaming to it

	waiting atomic.Int64 // written since the disk was last told to begin

	buf      []byte     // gathered by Write, to be put at end
	mu       sync.Mutex // of what follows, among calls of WriteAt
	end      int64      // everything before it was written, but for holes that WriteAt left
	reserved int64      // space is reserved up to here
	err      error      // the first that happened; final

	isNew  bool // nothing is replaced
	done   bool // closed or aborted
	result error
}

// Temp is the temporary file that has what was written, once Close of a piece of a Set
// has succeeded.
func (f *File) Temp() string { return f.temp }

// A hook lets tests break the disk: it is asked before each step, and its error is then
// the step's. Nil in production.
type hook func(step string) error

func (h hook) before(step string) error {
	if h == nil {
		return nil
	}
	return h(step)
}

// Create begins a file that Close will put in the place of name. Where name is a link,
// what it leads to is replaced, not the link. An existing file keeps its permissions,
// and its owner where we may give files away; a new one gets those that os.Create gives.
// It is an error if name exists and is not a regular file.
func Create(name string) (*File, error) { return create(name, nil) }

func create(name string, h hook) (*File, error) {
	target, old, err := resolve(name)
	if err == nil {
		err = finishPending(target, false)
	}
	if err != nil {
		return nil, wrap(name, err)
	}
	return createAt(name, target, old, h)
}

// CreateNew is Create for a file that does not exist: otherwise it fails with
// fs.ErrExist, and so does Close if the file exists by then.
func CreateNew(name string) (*File, error) {
	if _, err := os.Lstat(name); err == nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	f, err := Create(name)
	if err == nil {
		f.isNew = true
	}
	return f, err
}

// Write makes the file of that name with what write writes, as Create does: it appears
// whole, or not at all.
func Write(name string, write func(w io.Writer) error) error {
	f, err := Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return err
	}
	return f.Close()
}

// CreateNoFollow is Create for a name that may be a link: the link is replaced, not what
// it leads to.
func CreateNoFollow(name string) (*File, error) { return createNoFollow(name, nil) }

func createNoFollow(name string, h hook) (*File, error) {
	old, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && old.Mode()&fs.ModeSymlink != 0:
		old = nil
	case err != nil:
		return nil, wrap(name, err)
	case !old.Mode().IsRegular():
		return nil, wrap(name, notRegular(name, old))
	}
	return createAt(name, name, old, h)
}

func notRegular(name string, fi fs.FileInfo) error {
	return &fs.PathError{Op: "create", Path: name,
		Err: fmt.Errorf("%w: not a regular file (%v)", fs.ErrInvalid, fi.Mode())}
}

// createAt begins a file that replaces target, of which old is the description if it
// exists.
func createAt(name, target string, old fs.FileInfo, h hook) (*File, error) {
	if err := h.before("create"); err != nil {
		return nil, wrap(name, err)
	}
	perm := fs.FileMode(0o666) // the system takes the umask off
	if old != nil {
		// from the beginning: a secret is never readable by others, not even half of it
		perm = old.Mode().Perm()
	}
	f, err := createTemp(target, perm)
	if err != nil {
		return nil, wrap(name, err)
	}
	w := &File{name: name, target: target, temp: f.Name(), f: f, hook: h}
	if old != nil {
		if err = h.before("chmod"); err == nil {
			err = inherit(f, old)
		}
		if err != nil {
			w.Abort()
			return nil, wrap(name, err)
		}
	}
	return w, nil
}

// NoSync leaves it to the system when the file gets to the disk: Close does not wait for
// that. The file still appears whole or not at all to whoever looks, but when power is
// lost soon afterwards, what is found under its name may be neither the old nor the new
// one.
func (f *File) NoSync() { f.noSync = true }

// resolve follows the links at name, the last of which may lead to nothing yet, and
// returns what is to be replaced, with its description if it exists.
func resolve(name string) (target string, old fs.FileInfo, err error) {
	if _, base := filepath.Split(name); base == "" {
		return "", nil, &fs.PathError{Op: "create", Path: name,
			Err: fmt.Errorf("%w: no file name", fs.ErrInvalid)}
	}
	target = name
	for range 40 { // as many as Linux follows
		fi, err := os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil, nil
		case err != nil:
			return "", nil, err
		case fi.Mode().IsRegular():
			return target, fi, nil
		case fi.Mode()&fs.ModeSymlink == 0:
			return "", nil, notRegular(name, fi)
		}
		link, err := os.Readlink(target)
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsAbs(link) {
			// Not filepath.Join of the two: if the directory is reached by links, the
			// link's ".." is relative to its real place.
			dir, err := filepath.EvalSymlinks(filepath.Dir(target))
			if err != nil {
				return "", nil, err
			}
			link = filepath.Join(dir, link)
		}
		target = link
	}
	return "", nil, &fs.PathError{Op: "create", Path: name, Err: errors.New("too many links")}
}

// Write appends p to what was written. Small pieces are gathered. An error is final:
// everything afterwards fails with it, Close too.
func (f *File) Write(p []byte) (written int, err error) {
	if err := f.usable(); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		if len(p) >= largePiece {
			if err := f.flush(); err != nil {
				return written, err
			}
			n, err := f.put(p[:min(len(p), pieceSize)])
			if written += n; err != nil {
				return written, err
			}
			p = p[n:]
			continue
		}
		n := min(len(p), pieceSize-len(f.buf))
		f.buf = append(f.buf, p[:n]...)
		written += n
		p = p[n:]
		if len(f.buf) == pieceSize {
			if err := f.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// Reserve says that the file will be n bytes long, so that its space can be found in one
// piece. It is a hint: the file may become longer or shorter. But when the disk has no
// such space, the next Write fails instead of the last.
func (f *File) Reserve(n int64) {
	if f.usable() != nil || n <= f.reserved {
		return
	}
	err := f.hook.before("reserve")
	if err == nil {
		err = preallocate(f.f, f.end, n-f.end)
	}
	switch {
	case err == nil:
		f.reserved = n
	case noSpace(err):
		f.err = wrap(f.name, err)
	}
}

// WriteAt writes p at off, which may lie beyond the end; Write goes on after the last
// byte that was written. Several goroutines may call it at once, as long as their ranges
// differ.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	err := f.usable()
	if err == nil && off < 0 {
		err = &fs.PathError{Op: "writeat", Path: f.target,
			Err: fmt.Errorf("%w: negative offset", fs.ErrInvalid)}
	}
	if err == nil {
		err = f.flush()
	}
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := f.writeAt(p, off)
	err = wrap(f.name, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > 0 {
		f.end = max(f.end, off+int64(n))
	}
	if err != nil && f.err == nil {
		f.err = err
	}
	return n, err
}

// ReadAt reads what was written.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	err := f.usable()
	if err == nil {
		err = f.flush()
	}
	if err != nil {
		return 0, err
	}
	n, err := f.f.ReadAt(p[:max(0, min(int64(len(p)), f.end-off))], off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Truncate drops what was written from that byte on: Write goes on there. It does nothing
// where so much was not written.
func (f *File) Truncate(size int64) error {
	err := f.usable()
	if err == nil {
		err = f.flush()
	}
	if err == nil && size < f.end {
		f.reserved = max(f.reserved, f.end) // Close cuts off what is not written again
		f.end = size
	}
	return err
}

// Close makes the file appear under its name: whatever was written is flushed to the
// disk, then takes the place of the target, then the directory is flushed. After an
// error the target is untouched and the temporary file gone; the one exception is an
// error of the last of these steps. A second Close returns what the first did.
func (f *File) Close() error {
	if f.done {
		return f.result
	}
	f.result = wrap(f.name, f.finish())
	f.done, f.buf = true, nil
	return f.result
}

func (f *File) finish() error {
	err := f.complete()
	if f.set != nil && err == nil {
		return nil // it stays open, and locked, until the set is committed
	}
	if cerr := f.f.Close(); err == nil {
		if err = f.hook.before("close"); err == nil {
			err = cerr // counts: network file systems report a full disk here
		}
	}
	if err == nil {
		err = f.appear()
	}
	if err != nil {
		os.Remove(f.temp)
		return err
	}
	return f.flushDir()
}

// appear gives the file its final name.
func (f *File) appear() error {
	if f.isNew {
		err := os.Link(f.temp, f.target)
		if err == nil {
			return os.Remove(f.temp)
		}
		if _, found := os.Lstat(f.target); found == nil {
			return fs.ErrExist
		}
		// A file system without links: a file that is created from here on is replaced.
	}
	return rename(f.temp, f.target, f.hook, inUse, time.Sleep)
}

// complete brings everything that was written to the disk.
func (f *File) complete() error {
	err := f.err
	if err == nil {
		err = f.flush()
	}
	if err == nil && f.reserved > f.end {
		if err = f.hook.before("truncate"); err == nil {
			err = f.f.Truncate(f.end) // gives back what was reserved and not used
		}
	}
	if err == nil && !f.noSync {
		if err = f.hook.before("sync"); err == nil {
			err = f.f.Sync() // never tried again: the kernel reports a failed write-back only once
		}
	}
	return err
}

func (f *File) flushDir() error {
	if f.noSync {
		return nil
	}
	if err := f.hook.before("sync directory"); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.target))
}

// Abort drops the file: the target stays as it was. After Close it does nothing.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done, f.result, f.buf = true, fs.ErrClosed, nil
	f.f.Close()
	os.Remove(f.temp)
}

func (f *File) usable() error {
	if f.done {
		return fs.ErrClosed
	}
	return f.err
}

func (f *File) flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	_, err := f.put(f.buf)
	f.buf = f.buf[:0]
	return err
}

// Space is reserved in growing steps from the first on, when the size is not known.
const (
	firstStep   = 4 << 20
	largestStep = 256 << 20
)

// behind is how much is written until the system starts to write it to the disk.
const behind = 16 << 20

// put writes p at the end.
func (f *File) put(p []byte) (int, error) {
	if after := f.end + int64(len(p)); after >= firstStep && after > f.reserved {
		// An error is no matter here: the file may still fit, or be on a file system
		// that cannot reserve.
		step := min(max(f.end, firstStep), largestStep)
		if f.hook.before("reserve") == nil {
			preallocate(f.f, f.end, step)
		}
		f.reserved = f.end + step
	}
	n, err := f.writeAt(p, f.end)
	err = wrap(f.name, err)
	f.end += int64(n)
	if err != nil {
		f.err = err
	}
	return n, err
}

func (f *File) writeAt(p []byte, off int64) (int, error) {
	if err := f.hook.before("write"); err != nil {
		return 0, err
	}
	n, err := f.f.WriteAt(p, off)
	if f.noSync {
		return n, err
	}
	if waiting := f.waiting.Add(int64(n)); waiting >= behind &&
		f.waiting.CompareAndSwap(waiting, 0) {
		writeBehind(f.f)
	}
	return n, err
}
