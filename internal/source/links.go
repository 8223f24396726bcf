package source

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks bounds how many links of one path are followed, as operating systems do.
const maxLinks = 255

// Errors of links.
var (
	// ErrCycle is the error of links that form a cycle.
	ErrCycle   = errors.New("too many links, or a cycle of them")
	errOutside = fmt.Errorf("%w: a link leads out of the directory", fs.ErrInvalid)
)

// Follow walks along the links of a path of fsys, element by element, since "a/.." is not
// "." if a is a link, and returns the path without links. local is the name of the root
// of fsys on this machine, to which absolute links are relative; "" if there is none. It
// fails with fs.ErrInvalid for a link out of fsys, and with ErrCycle for a cycle. An
// element that is absent is no error.
func Follow(fsys fs.FS, local, name string) (string, error) {
	rest := strings.Split(name, "/")
	at := "."
	for links := 0; len(rest) > 0; {
		element := rest[0]
		rest = rest[1:]
		switch element {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", errOutside
			}
			at = path.Dir(at)
			continue
		}
		at = path.Join(at, element)
		link, err := fs.ReadLink(fsys, at)
		if err != nil { // not a link
			continue
		}
		if links++; links > maxLinks {
			return "", ErrCycle
		}
		at, link = path.Dir(at), filepath.ToSlash(link)
		if path.IsAbs(link) || filepath.IsAbs(link) {
			below, ok := strings.CutPrefix(link, strings.TrimSuffix(local, "/")+"/")
			if local == "" || !ok {
				return "", errOutside
			}
			at, link = ".", below
		}
		rest = slices.Concat(strings.Split(link, "/"), rest)
	}
	return at, nil
}

// IsBelow reports whether a path is one of the directories or in one of them.
func IsBelow(name string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
	})
}

// Confine returns fsys without what is not in one of the directories once all links of a
// path are followed, those in the middle of it too. Names of links themselves can be
// read wherever they lead. See [Follow] for local.
func Confine(fsys fs.FS, local string, dirs ...string) fs.FS {
	w := &confined{fsys: fsys, local: local}
	for _, dir := range dirs {
		if at, err := Follow(fsys, local, dir); err == nil {
			w.dirs = append(w.dirs, at)
		}
	}
	return w
}

type confined struct {
	fsys  fs.FS
	local string
	dirs  []string // without links
}

// check fails if a path leads out of the directories.
func (w *confined) check(op, name string) error {
	at, err := Follow(w.fsys, w.local, name)
	if err == nil && !IsBelow(at, w.dirs...) {
		err = errOutside
	}
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (w *confined) Open(name string) (fs.File, error) {
	if err := w.check("open", name); err != nil {
		return nil, err
	}
	return w.fsys.Open(name)
}

func (w *confined) Stat(name string) (fs.FileInfo, error) {
	if err := w.check("stat", name); err != nil {
		return nil, err
	}
	return fs.Stat(w.fsys, name)
}

func (w *confined) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := w.check("readdir", name); err != nil {
		return nil, err
	}
	return fs.ReadDir(w.fsys, name)
}

// Lstat and ReadLink are about the link itself, which has to be in the directories.
func (w *confined) Lstat(name string) (fs.FileInfo, error) {
	if err := w.check("lstat", path.Dir(name)); err != nil {
		return nil, err
	}
	return fs.Lstat(w.fsys, name)
}

func (w *confined) ReadLink(name string) (string, error) {
	if err := w.check("readlink", path.Dir(name)); err != nil {
		return "", err
	}
	return fs.ReadLink(w.fsys, name)
}
