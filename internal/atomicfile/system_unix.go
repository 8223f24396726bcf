//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// inherit gives f the owner and the permissions of the file that it will replace.
func inherit(f *os.File, old fs.FileInfo) error {
	perm := old.Mode().Perm()
	if want, ok := old.Sys().(*syscall.Stat_t); ok {
		fi, err := f.Stat()
		if err != nil {
			return err
		}
		if have, ok := fi.Sys().(*syscall.Stat_t); ok &&
			(have.Uid != want.Uid || have.Gid != want.Gid) {
			if f.Chown(int(want.Uid), int(want.Gid)) != nil && have.Gid != want.Gid &&
				f.Chown(-1, int(want.Gid)) != nil {
				// The permissions of the old group are not for ours: it gets what
				// everybody has.
				perm = perm&^0o070 | perm&0o007<<3
			}
		}
	}
	return f.Chmod(perm) // after chown; and past the umask
}

// syncDir flushes the directory, so that the rename survives a loss of power. Some
// file systems cannot.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil // one may write into directories that one must not read
		}
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

func inUse(error) bool { return false }

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EFBIG)
}
