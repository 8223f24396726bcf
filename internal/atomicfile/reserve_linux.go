package atomicfile

import (
	"os"
	"syscall"
)

const keepSize = 1 // FALLOC_FL_KEEP_SIZE, of linux/falloc.h

// preallocate reserves space for n bytes at off, without making the file longer.
func preallocate(f *os.File, off, n int64) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = c.Control(func(fd uintptr) {
		for range 10 { // a signal may come in between, but not for ever
			if ferr = syscall.Fallocate(int(fd), keepSize, off, n); ferr != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return ferr
}
