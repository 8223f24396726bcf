//go:build !unix && !windows

package atomicfile

import (
	"io/fs"
	"os"
)

// inherit is a wish here: wasi knows no permissions.
func inherit(f *os.File, old fs.FileInfo) error {
	_ = f.Chmod(old.Mode().Perm())
	return nil
}

func syncDir(string) error { return nil }

func inUse(error) bool { return false }

func noSpace(error) bool { return false }
