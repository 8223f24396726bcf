package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// inherit does nothing: access is inherited from the directory, and a target that is
// read-only cannot be replaced.
func inherit(*os.File, fs.FileInfo) error { return nil }

// syncDir does nothing: windows flushes no directories.
func syncDir(string) error { return nil }

const errSharingViolation = syscall.Errno(32)

// inUse reports errors that pass when another process closes the file.
func inUse(err error) bool {
	return errors.Is(err, syscall.ERROR_ACCESS_DENIED) || errors.Is(err, errSharingViolation)
}

func noSpace(error) bool { return false }
