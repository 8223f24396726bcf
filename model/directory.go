package model

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A directory is what is known of the files of a model. Names are relative to it.
type directory struct {
	fsys       fs.FS
	dir        string     // within fsys
	roots      []string   // where links may lead to: dir, and of a cache the blobs; without links
	local      string     // of the root of fsys on this machine; "" elsewhere
	cache      *cache     // nil: not in Hugging Face's cache
	repository Repository // nil: not one
	limits     tensor.Limits
	noLinks    bool
	only       *naming.Shard // of the group of these shards; nil for all files

	entries map[string]*entry
}

// An entry is a name in the directory.
type entry struct {
	name    string
	size    int64
	regular bool   // links followed
	link    string // what it contains, where it is a link
	outside bool   // a link in its path points out of the directory and its cache
	err     error  // of looking at it, or at the link's target
}

// dangling reports whether it is a link without a target, or in a cycle.
func (e *entry) dangling() bool {
	return e.link != "" && e.err != nil && !errors.Is(e.err, fs.ErrPermission)
}

// missing reports whether there is no such file.
func (e *entry) missing() bool { return !e.regular && !e.unreadable() }

// unreadable reports whether the system does not say what there is.
func (e *entry) unreadable() bool {
	return e.err != nil && !e.dangling() && !slices.ContainsFunc(notThere, func(err error) bool {
		return errors.Is(e.err, err)
	})
}

// notThere are errors of names that no file has: also below a file, or too long.
var notThere = []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ENAMETOOLONG}

// path returns the name of a file for the fs.FS.
func (d *directory) path(name string) string { return path.Join(d.dir, name) }

// list enters what a directory has, and with all what those below it have.
func (d *directory) list(sub string, all bool) error {
	names, err := fs.ReadDir(d.fsys, d.path(sub))
	if err != nil {
		return err
	}
	for _, n := range names {
		name := path.Join(sub, n.Name())
		switch s, _ := parseShard(name); {
		case d.only != nil && s.Group() != *d.only:
		case n.Type()&fs.ModeSymlink != 0:
			d.entry(name)
		case n.IsDir() && all:
			if err := d.list(name, all); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		case n.Type().IsRegular():
			e := &entry{name: name, regular: true}
			info, err := n.Info()
			if err == nil {
				e.size = info.Size()
			}
			e.regular, e.err = err == nil, err
			d.entries[name] = e
		}
		if int64(len(d.entries)) > d.limits.MaxTensors {
			return fmt.Errorf("%w: more than %d files", tensor.ErrLimit, d.limits.MaxTensors)
		}
	}
	return nil
}

// entry enters what there is under a name, which may be in a directory that was not
// listed, while the model is opened.
func (d *directory) entry(name string) *entry {
	e := d.look(name)
	d.entries[name] = e
	return e
}

// look returns what there is under a name.
func (d *directory) look(name string) *entry {
	if e := d.entries[name]; e != nil {
		return e
	}
	e := &entry{name: name}
	at, err := source.Follow(d.fsys, d.local, d.path(name))
	e.outside = err != nil && err != source.ErrCycle ||
		err == nil && !source.IsBelow(at, d.roots...)
	info, err := fs.Lstat(d.fsys, d.path(name))
	isLink := err == nil && info.Mode()&fs.ModeSymlink != 0
	if isLink {
		e.link, err = fs.ReadLink(d.fsys, d.path(name))
	}
	if e.outside && d.noLinks {
		return e
	}
	if isLink && err == nil {
		info, err = fs.Stat(d.fsys, d.path(name))
	}
	if e.err = err; err == nil {
		e.size, e.regular = info.Size(), info.Mode().IsRegular()
	}
	return e
}

// maxJSON bounds an index or a configuration, as safetensors bounds a header.
const maxJSON = 100_000_000

// readBounded reads a small file whole.
func readBounded(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit = min(limit, maxJSON)
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", tensor.ErrLimit, limit)
	}
	return b, err
}
