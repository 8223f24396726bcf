package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// An Error is why a file was not written, as opposed to why what was to be written could
// not be read.
type Error struct {
	Name string // as it was given to Create
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// wrap makes an Error of err, in which the names of temporary files become name.
func wrap(name string, err error) error {
	var known *Error
	if err == nil || err == fs.ErrClosed || errors.As(err, &known) {
		return err
	}
	switch e := err.(type) {
	case *fs.PathError:
		if _, ok := tempOf(filepath.Base(e.Path)); ok {
			err = &fs.PathError{Op: e.Op, Path: name, Err: e.Err}
		}
	case *os.LinkError:
		err = &fs.PathError{Op: e.Op, Path: name, Err: e.Err}
	}
	return &Error{name, err}
}
