package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A Set is several files of one directory that are replaced together: pieces, and the
// index that readers open. It is not safe for concurrent use, but its Files are
// independent of each other.
//
// All pieces are written under temporary names. Commit writes a journal of the renames,
// removes the old index, renames the pieces, the index last, and removes the journal.
// Killed before the journal is complete, a writer leaves the old set and temporary
// files; killed later, it leaves the journal, and whoever writes the set next, or Clean,
// finishes the work. While there is an index, it and all pieces belong to the same set.
type Set struct {
	dir, index string
	files      []*File
	obsolete   []string
	hook       hook
	noSync     bool
	done       bool
}

// NewSet begins to replace the set whose index is the file of that name. If an earlier
// writer was killed while it replaced the set, its work is finished first.
func NewSet(index string) (*Set, error) { return newSet(index, nil) }

func newSet(index string, h hook) (*Set, error) {
	dir, base := filepath.Split(index)
	if !isBase(base) {
		return nil, &fs.PathError{Op: "create", Path: index,
			Err: fmt.Errorf("%w: no file name", fs.ErrInvalid)}
	}
	if !isFinal(base) {
		return nil, &fs.PathError{Op: "create", Path: index,
			Err: fmt.Errorf("%w: a name for temporary files", fs.ErrInvalid)}
	}
	if err := finishPending(index, true); err != nil {
		return nil, wrap(index, err)
	}
	return &Set{dir: dir, index: base, hook: h}, nil
}

// Create begins a piece, or the index, of that name in the directory of the set. Close
// completes and flushes it; it appears under its name with Commit. Links are replaced.
func (s *Set) Create(name string) (*File, error) {
	if s.done {
		return nil, fs.ErrClosed
	}
	if err := s.check(name); err != nil {
		return nil, err
	}
	f, err := createNoFollow(filepath.Join(s.dir, name), s.hook)
	if err != nil {
		return nil, err
	}
	f.set, f.noSync = s, s.noSync
	s.files = append(s.files, f)
	return f, nil
}

func (s *Set) check(name string) error {
	err := fs.ErrInvalid
	switch {
	case !isFinal(name) || !InSet(s.index, name):
	case slices.ContainsFunc(s.files,
		func(f *File) bool { return filepath.Base(f.target) == name }):
		err = fs.ErrExist
	default:
		return nil
	}
	return &fs.PathError{Op: "create", Path: filepath.Join(s.dir, name), Err: err}
}

// isBase reports whether name is the name of a file in a directory, on every system.
func isBase(name string) bool {
	return name != "" && name != "." && name != ".." && filepath.Base(name) == name &&
		filepath.IsLocal(name)
}

// Obsolete names files of the directory that the set replaces without a successor:
// Commit removes them after the renames, the index before them. A name that a set of the
// index cannot have is an error of Commit. Names of pieces, and of files that do not
// exist, do no harm.
func (s *Set) Obsolete(names ...string) { s.obsolete = append(s.obsolete, names...) }

// NoSync leaves it to the system when the pieces created afterwards, and the renames,
// get to the disk. See File.NoSync.
func (s *Set) NoSync() { s.noSync = true }

// Commit makes all pieces appear. After an error before the renames, the old set is
// untouched and the temporary files are gone. After a later one the journal stays, as if
// the process had been killed. Afterwards Abort does nothing.
func (s *Set) Commit() error { return wrap(filepath.Join(s.dir, s.index), s.commit()) }

func (s *Set) commit() error {
	if s.done {
		return fs.ErrClosed
	}
	j, err := s.journal()
	if err != nil {
		s.Abort()
		return err
	}
	s.done = true
	f, err := s.writeJournal(j)
	if err == nil {
		// A cleaner that runs meanwhile must not have taken a piece.
		if err = j.check(); err != nil {
			removeLocked(f)
		}
	}
	if err != nil {
		s.removeTemps()
		return err
	}
	if err := j.finish(s.hook, !s.noSync); err != nil {
		f.Close()
		return fmt.Errorf("%w; %w", err, &UnfinishedError{Dir: s.dir, Index: s.index})
	}
	if err := s.hook.before("remove journal"); err != nil {
		f.Close()
		return err
	}
	return removeLocked(f)
}

// journal closes the pieces and lists what is to be done with them, the index last.
func (s *Set) journal() (*journal, error) {
	j := &journal{dir: s.dir, index: s.index}
	var last []renaming
	for _, f := range s.files {
		if !f.done || f.result != nil {
			return nil, fmt.Errorf("%s was not completed: %w", f.target,
				errors.Join(f.result, f.err))
		}
		// Clean removes old files that are not locked.
		now := time.Now()
		os.Chtimes(f.temp, now, now)
		if err := f.hook.before("close"); err != nil {
			return nil, err
		}
		if err := f.f.Close(); err != nil {
			return nil, err
		}
		r := renaming{from: filepath.Base(f.temp), to: filepath.Base(f.target), size: f.end}
		if r.to == s.index {
			last = append(last, r)
		} else if !j.addRename(r) {
			return nil, fmt.Errorf("%s: %w: not a name of the set", f.target, fs.ErrInvalid)
		}
	}
	for _, r := range last {
		j.addRename(r)
	}
	for _, name := range s.obsolete {
		if !j.written[name] && !j.addRemove(name) {
			return nil, fmt.Errorf("%s: %w: not a name of the set", filepath.Join(s.dir, name),
				fs.ErrInvalid)
		}
	}
	if len(j.renames) == 0 {
		return nil, fmt.Errorf("%w: a set without files", fs.ErrInvalid)
	}
	return j, nil
}

// Abort drops what was written: the old set stays as it was. After Commit it does
// nothing.
func (s *Set) Abort() {
	if s.done {
		return
	}
	s.done = true
	s.removeTemps()
}

func (s *Set) removeTemps() {
	for _, f := range s.files {
		if f.done {
			f.f.Close()
			os.Remove(f.temp)
		} else {
			f.Abort()
		}
	}
}
