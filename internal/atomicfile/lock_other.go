//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package atomicfile

import (
	"errors"
	"os"
)

// errHeld is never returned: this system has no locks that end with the process.
var errHeld = errors.New("the file is in use")

const closeBeforeRemove = true

// canLock: without locks the age of a temporary file has to do, and two writers of one
// set at the same moment are not kept apart.
const canLock = false

// Lock does nothing: this system has no locks that end with the process.
func Lock(*os.File) error { return nil }

func tryLock(name string) (*os.File, error) {
	if fi, err := os.Lstat(name); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, errHeld
	}
	return os.Open(name)
}
