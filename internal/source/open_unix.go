//go:build unix

package source

import "syscall"

// nonblock keeps open from waiting for a writer, should the file have become a pipe
// since it was looked at.
const nonblock = syscall.O_NONBLOCK
