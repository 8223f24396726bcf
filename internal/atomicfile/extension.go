package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// An Extension is what is being written after the end of a file that exists, of which
// not a byte changes. For formats whose last bytes say where everything is: a file that
// was cut off within an extension is what it was once it is truncated to its old length,
// and Abort and an error of Close do that. It is for one goroutine at a time.
type Extension struct {
	f    *os.File
	name string
	hook hook

	start, end int64
	buf        []byte
	err        error // final
	done       bool
	result     error
}

// Extend begins to write after the end of the regular file of that name, or the one that
// a link of that name leads to.
func Extend(name string) (*Extension, error) { return extend(name, nil) }

func extend(name string, h hook) (*Extension, error) {
	if fi, err := os.Stat(name); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() { // asked before it is opened: opening a pipe waits
		return nil, &fs.PathError{Op: "extend", Path: name,
			Err: fmt.Errorf("%w: not a regular file (%v)", fs.ErrInvalid, fi.Mode())}
	}
	// Appending, so that nothing that another process writes meanwhile is overwritten.
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "extend", Path: name,
			Err: fmt.Errorf("%w: not a regular file (%v)", fs.ErrInvalid, fi.Mode())}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Extension{f: f, name: name, hook: h, start: fi.Size(), end: fi.Size()}, nil
}

// Start is how long the file was.
func (e *Extension) Start() int64 { return e.start }

// Write appends p. Small pieces are gathered. An error is final.
func (e *Extension) Write(p []byte) (written int, err error) {
	if err := e.usable(); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		n := min(len(p), pieceSize-len(e.buf))
		if len(e.buf) == 0 && n == pieceSize {
			err = e.put(p[:n])
		} else if e.buf = append(e.buf, p[:n]...); len(e.buf) == pieceSize {
			err = e.flush()
		}
		if err != nil {
			return written, err
		}
		written += n
		p = p[n:]
	}
	return written, nil
}

// Sync returns when all that was written is on the disk. The bytes that make the rest
// valid are to be written after it.
func (e *Extension) Sync() error {
	if err := e.usable(); err != nil {
		return err
	}
	if err := e.flush(); err != nil {
		return err
	}
	return e.fail(e.sync())
}

func (e *Extension) sync() error {
	err := e.alone()
	if err == nil {
		err = e.hook.before("sync")
	}
	if err == nil {
		err = e.f.Sync()
	}
	return err
}

// alone checks that the file still ends where the last write ended.
func (e *Extension) alone() error {
	fi, err := e.f.Stat()
	if err == nil && fi.Size() != e.end {
		err = &fs.PathError{Op: "extend", Path: e.name,
			Err: fmt.Errorf("%w: it has %d bytes, not %d: somebody else writes to it",
				errChanged, fi.Size(), e.end)}
	}
	return err
}

// errChanged keeps Abort from cutting off what others wrote.
var errChanged = errors.New("the file has changed")

// Close completes the extension: everything is on the disk. After an error the file is
// as it was, as far as the disk lets it. A second Close returns what the first did.
func (e *Extension) Close() error {
	if e.done {
		return e.result
	}
	e.Sync()
	if e.err == nil {
		if err := e.hook.before("close"); err != nil {
			e.err = err
		}
	}
	if e.err != nil {
		e.Abort()
		e.result = e.err
		return e.err
	}
	e.done = true
	e.result = e.f.Close()
	return e.result
}

// Abort gives the file its old length again. After Close it does nothing.
func (e *Extension) Abort() {
	if e.done {
		return
	}
	e.done, e.result, e.buf = true, fs.ErrClosed, nil
	fi, err := e.f.Stat()
	e.f.Close()
	if err == nil && fi.Size() > e.start && fi.Size() <= e.end && !errors.Is(e.err, errChanged) {
		e.cut(fi)
	}
}

// cut gives the file its old length, if it is still the one that was described. It
// is opened once more, because a file that is open for appending alone cannot be
// cut on windows.
func (e *Extension) cut(was fs.FileInfo) {
	f, err := os.OpenFile(e.name, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && os.SameFile(fi, was) && fi.Size() == was.Size() {
		f.Truncate(e.start)
	}
}

func (e *Extension) usable() error {
	if e.done {
		return fs.ErrClosed
	}
	return e.err
}

func (e *Extension) fail(err error) error {
	if e.err == nil {
		e.err = err
	}
	return e.err
}

func (e *Extension) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	err := e.put(e.buf)
	e.buf = e.buf[:0]
	return err
}

func (e *Extension) put(p []byte) error {
	err := e.alone()
	if err == nil {
		err = e.hook.before("write")
	}
	if err != nil {
		return e.fail(err)
	}
	n, err := e.f.Write(p)
	e.end += int64(n)
	return e.fail(err)
}
