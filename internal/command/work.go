package command

import (
	"context"
	"errors"
)

// isInterrupt reports whether err only says that the user interrupted the command.
func isInterrupt(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
