package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDir makes a directory and those above it; undo removes those that it made and that
// are empty.
func MakeDir(name string) (undo func(), err error) {
	var made []string
	for dir := filepath.Clean(name); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, dir)
	}
	if err := os.MkdirAll(name, 0o777); err != nil {
		return nil, &Error{Name: name, Err: err}
	}
	return func() {
		for _, dir := range made {
			os.Remove(dir)
		}
	}, nil
}
