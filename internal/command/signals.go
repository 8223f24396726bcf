//go:build !js && !wasip1

package command

import (
	"os"
	"os/signal"
	"syscall"
)

// endSignals returns the signals after which the program removes temporary files and
// ends.
func endSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// statusOfSignal returns the exit status of a process that a signal ends, as in shells.
func statusOfSignal(s os.Signal) int {
	switch s {
	case syscall.SIGHUP:
		return 128 + 1
	case syscall.SIGTERM:
		return 128 + 15
	}
	return statusInterrupted
}
