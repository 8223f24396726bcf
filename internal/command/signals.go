//go:build !js && !wasip1

package command

import (
	"os"
	"os/signal"
	"syscall"
)

// endSignals returns the signals that end the program, after it has removed temporary
// files.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// statusOfSignal is the exit status of a process that a signal ends, as shells have it.
func statusOfSignal(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return statusInterrupted
}
