//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// errHeld is that another process, or another part of this one, has the file locked.
var errHeld = errors.New("the file is in use")

// closeBeforeRemove: an open file can be removed, and so its lock protects it to the
// end.
const closeBeforeRemove = false

const canLock = true

// Lock locks a file until it is closed, or the process ends.
func Lock(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = c.Control(func(fd uintptr) {
		for {
			lockErr = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
			if lockErr != syscall.EINTR {
				return
			}
		}
	})
	if lockErr == syscall.EWOULDBLOCK {
		return errHeld
	}
	return errors.Join(err, lockErr)
}

// tryLock opens a regular file for reading and locks it. errHeld is that it cannot be
// locked now, whatever the reason.
func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || Lock(f) != nil ||
		!isSame(f, name) {
		f.Close()
		return nil, errHeld
	}
	return f, nil
}
