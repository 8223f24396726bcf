package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
)

// mayWrite refuses a target that exists, unless it may be replaced.
func mayWrite(name string, force bool) error {
	if force {
		return nil
	}
	_, err := os.Lstat(name)
	switch {
	case err == nil:
		return fmt.Errorf("%w; --force replaces it", fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// mayWriteOut is mayWrite where - is standard output.
func mayWriteOut(name string, force bool) error {
	if name == "" || name == "-" {
		return nil
	}
	return mayWrite(name, force)
}

// writeOut writes a whole small file, or to standard output where there is no
// name.
func (a *app) writeOut(name string, b []byte, force bool) error {
	if name == "" || name == "-" {
		_, err := a.out.Write(b)
		return err
	}
	if err := mayWriteOut(name, force); err != nil {
		return err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Close()
}
