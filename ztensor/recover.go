package ztensor

import (
	"errors"
	"os"

	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// Recover undoes an append to a file of version 2 that was interrupted: it cuts off what
// follows the last edition that is complete, and returns how many bytes that was. A file
// that can be opened stays as it is. It is an error if there is no complete edition.
func Recover(name string) (cut int64, err error) {
	cut, err = Recoverable(name)
	if cut == 0 || err != nil {
		return 0, err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err == nil {
		err = f.Truncate(fi.Size() - cut)
	}
	if err == nil {
		err = f.Sync()
	}
	return cut, err
}

// Recoverable returns how many bytes Recover would cut off, and changes nothing.
func Recoverable(name string) (cut int64, err error) {
	r, err := Open(name, nil)
	if err == nil {
		return 0, r.Close()
	}
	var broken *rule.Error
	if !errors.As(err, &broken) || broken.Rule != rule.FooterMagic {
		return 0, err
	}
	f, e := os.Open(name)
	if e != nil {
		return 0, e
	}
	defer f.Close()
	fi, e := f.Stat()
	if e != nil {
		return 0, e
	}
	size, e := v2.LastEdition(f, fi.Size())
	if e != nil {
		return 0, e
	}
	if size == 0 {
		return 0, err
	}
	return fi.Size() - size, nil
}
