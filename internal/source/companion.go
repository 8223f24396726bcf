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
// weights. They are looked for in the directory of name, through an os.Root, so that no path, and no link, leads out of it;
// only regular files are opened. A companion's name uses slashes. What the function returns is an io.Closer too.
func Companions(name string) func(name string) (io.ReaderAt, int64, error) {
	return companions(name, openWithin)
}

// LinkedCompanions is Companions where links are followed, wherever they lead, as those of Hugging Face's caches do. The
// names themselves still cannot leave the directory.
func LinkedCompanions(name string, noMap bool) func(name string) (io.ReaderAt, int64, error) {
	return companions(name, func(dir, local string) (*Source, error) { return Open(filepath.Join(dir, local), noMap) })
}

func companions(name string, open func(dir, local string) (*Source, error)) func(name string) (io.ReaderAt, int64, error) {
	dir := filepath.Dir(name)
	return func(companion string) (io.ReaderAt, int64, error) {
		local := filepath.FromSlash(companion)
		// A backslash is a separator on one system and part of a name on the others: no file that is meant to travel may
		// depend on it.
		if !filepath.IsLocal(local) || strings.ContainsAny(companion, "\\\x00") {
			return nil, 0, &fs.PathError{Op: "open", Path: companion, Err: fmt.Errorf("%w: it leads out of the directory", fs.ErrInvalid)}
		}
		s, err := open(dir, local)
		if err != nil {
			return nil, 0, err // not s: a nil *Source in an interface is not nil
		}
		return s, s.Size(), nil
	}
}

func openWithin(dir, name string) (*Source, error) {
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
