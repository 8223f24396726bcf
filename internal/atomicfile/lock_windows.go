package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// errHeld is that another process, or another part of this one, has the file open.
var errHeld = errors.New("the file is in use")

// closeBeforeRemove: a file that is open cannot be removed.
const closeBeforeRemove = true

const canLock = true

// Lock does nothing: a file that is open is locked enough, see tryLock.
func Lock(*os.File) error { return nil }

// tryLock opens a file for reading, and for nobody else. errHeld is that somebody has it
// open.
func tryLock(name string) (*os.File, error) {
	p, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(p, syscall.GENERIC_READ, 0, nil, syscall.OPEN_EXISTING,
		syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case inUse(err):
		return nil, errHeld
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(h), name)
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, errHeld
	}
	return f, nil
}
