//go:build unix

package readtest

import (
	"syscall"
	"time"
)

// spent is the time that processors have worked for this process, which does not count the work of others on a busy machine.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
