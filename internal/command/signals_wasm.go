//go:build js || wasip1

package command

import "os"

// endSignals returns the signals that end the program.
func endSignals() []os.Signal { return []os.Signal{os.Interrupt} }

func statusOfSignal(os.Signal) int { return statusInterrupted }
