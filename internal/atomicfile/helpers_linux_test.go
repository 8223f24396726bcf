package atomicfile

import (
	"strconv"
	"syscall"
)

// mountTmpfs makes a small disk of a directory; tests skip where it fails.
func mountTmpfs(dir string, size int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(size))
}

func unmount(dir string) { syscall.Unmount(dir, 0) }
