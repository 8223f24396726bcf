package source

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Companions returns a function that opens the files which the file called name refers to: its shards, its external
// weights. They are looked for in the folder of name, through an os.Root, so that no path, and no link, leads out of it;
// only regular files are opened. A companion's name uses slashes. What the function returns is an io.Closer too.
func Companions(name string) func(name string) (io.ReaderAt, int64, error) {
	folder := filepath.Dir(name)
	return func(companion string) (io.ReaderAt, int64, error) {
		s, err := openIn(folder, companion)
		if err != nil {
			return nil, 0, err // not s: a nil *Source in an interface is not nil
		}
		return s, s.Size(), nil
	}
}

func openIn(folder, name string) (*Source, error) {
	local := filepath.FromSlash(name)
	// os.Root would refuse these as well; said here, the reason is plain. A backslash is a separator on one
	// system and part of a name on the others: no file that is meant to travel may depend on it.
	if !filepath.IsLocal(local) || strings.ContainsAny(name, "\\\x00") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: it leads out of the folder", fs.ErrInvalid)}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	fi, err := root.Stat(local)
	if err != nil {
		return nil, err
	}
	if err := regular(name, fi); err != nil {
		return nil, err
	}
	f, err := root.OpenFile(local, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	s := new(Source)
	if err := s.ofFile(f, name, descriptorPath(f)); err != nil { // never by name: that would go round the Root
		return nil, err
	}
	return s, nil
}

// Siblings lists the regular files in the folder of name by their size, sorted, for [Companions] to open.
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
