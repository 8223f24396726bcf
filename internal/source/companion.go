package source

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Companions returns a function that opens the files that the named file refers
// to: its shards, its external weights. Their names use slashes and cannot leave the
// directory of name; links are followed wherever they lead, as in Hugging Face's
// caches must be, or with noLinks only within the directory. Only regular files are
// opened. The result of the function is an io.Closer too.
func Companions(name string, noMap, noLinks bool) func(name string) (io.ReaderAt, int64, error) {
	dir := filepath.Dir(name)
	return func(companion string) (io.ReaderAt, int64, error) {
		local := filepath.FromSlash(companion)
		// A backslash is a separator on one system and part of a name on the others.
		if !filepath.IsLocal(local) || strings.ContainsAny(companion, "\\\x00") {
			err := fmt.Errorf("%w: it leads out of the directory", fs.ErrInvalid)
			return nil, 0, &fs.PathError{Op: "open", Path: companion, Err: err}
		}
		var s *Source
		var err error
		if noLinks {
			s, err = openWithin(dir, local, noMap)
		} else {
			s, err = Open(filepath.Join(dir, local), noMap)
		}
		if err != nil {
			return nil, 0, err // not s: a nil *Source in an interface is not nil
		}
		return s, s.Size(), nil
	}
}

// openWithin opens a file of dir through an os.Root, so that no link leads out of it.
func openWithin(dir, name string, noMap bool) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fi, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := regular(name, fi); err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	return OfFile(f, noMap) // never by name, which would go round the Root
}

// Siblings lists the regular files in the directory of name by their size, sorted, for
// [Companions] to open.
func Siblings(name string) map[int64][]string {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return nil
	}
	all := make(map[int64][]string)
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
			all[fi.Size()] = append(all[fi.Size()], e.Name())
		}
	}
	return all
}
