package main

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile"
)

// openRemote opens a file by its address.
func (a *app) openRemote(address string, opts *tensorfile.Options) (*tensorfile.File, error) {
	return nil, fmt.Errorf("%w: addresses are not read by this version", errors.ErrUnsupported)
}
