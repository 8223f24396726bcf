package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/tensorfile/tensorfile/tensor"
)

// An UnfinishedError says that a set of files was not replaced completely:
// tensor.ErrUnfinished.
type UnfinishedError struct {
	Dir, Index string
	Busy       bool // the writer still runs
}

func (e *UnfinishedError) Error() string {
	dir := filepath.Clean(e.Dir)
	if e.Busy {
		return fmt.Sprintf("another process is replacing the files of %s in %s: try again later",
			strconv.Quote(e.Index), strconv.Quote(dir))
	}
	return fmt.Sprintf("replacing the files of %s was interrupted: tensorfile.Clean with Remove, "+
		"or 'tensorfile clean --yes %s', completes it", strconv.Quote(e.Index), strconv.Quote(dir))
}

func (e *UnfinishedError) Unwrap() error { return tensor.ErrUnfinished }

// Unfinished returns an *UnfinishedError if there is a complete journal of the set whose
// index has that name, or is named like the file and .index.json, else nil. An index that
// exists is whole nevertheless, together with its set.
func Unfinished(index string) error {
	dir, base := filepath.Split(index)
	for _, base := range []string{base, base + indexSuffix} {
		name := journalName(dir, base)
		if fi, err := os.Lstat(name); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		f, err := tryLock(name)
		if err == nil {
			_, err = readJournal(f)
			f.Close()
		}
		if busy := errors.Is(err, errHeld); busy || isPending(err) {
			return &UnfinishedError{Dir: dir, Index: base, Busy: busy}
		}
	}
	return nil
}

// isPending reports whether a journal is complete that was read with that error. One of a
// later version is.
func isPending(err error) bool { return err == nil || errors.Is(err, errors.ErrUnsupported) }

// UnfinishedFS is Unfinished for a file of a file system. A writer that still runs is not
// told from one that was killed.
func UnfinishedFS(fsys fs.FS, index string) error {
	dir, base := path.Split(index)
	for _, base := range []string{base, base + indexSuffix} {
		name := path.Join(dir, filepath.Base(journalName("", base)))
		if fi, err := fs.Lstat(fsys, name); err != nil || !fi.Mode().IsRegular() {
			continue // opening a pipe waits
		}
		f, err := fsys.Open(name)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(f, maxJournalSize))
		f.Close()
		if err == nil {
			if _, err = parseJournal("", b); isPending(err) {
				return &UnfinishedError{Dir: dir, Index: base}
			}
		}
	}
	return nil
}

// UnfinishedOf returns the method Unfinished of a source of another package, which knows
// the directory of its file; else nil.
func UnfinishedOf(source any) func() error {
	if s, ok := source.(interface{ Unfinished() error }); ok {
		return s.Unfinished
	}
	return nil
}

// Explain puts pending, why a set of files is not complete, before an error of reading
// it, if both are there. A file that is missing for that reason is not fs.ErrNotExist: it
// will be there when the set is finished.
func Explain(format string, pending, err error) error {
	switch {
	case pending == nil || err == nil || errors.Is(err, tensor.ErrUnfinished):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: %v", format, pending, err)
	}
	return fmt.Errorf("%s: %w: %w", format, pending, err)
}
