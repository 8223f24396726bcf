package main

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile"
)

// openRemote opens a file by its address.
func (a *app) openRemote(in *input, opts *tensorfile.Options) error {
	return fmt.Errorf("%w: addresses are not read by this version", errors.ErrUnsupported)
}
