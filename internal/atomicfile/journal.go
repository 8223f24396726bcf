package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A journal lists what makes a set of written pieces the set of its directory. Read from
// a file it is untrusted: it renames temporary files to the names that they were made
// for and removes files named like the index, all of its own directory, and nothing
// else.
//
//	tensorfile journal 1
//	index "m.safetensors.index.json"
//	rename ".m-00001-of-00002.safetensors.tmp-1y2p" "m-00001-of-00002.safetensors" 4096
//	remove "m-00003-of-00003.safetensors"
//	end
type journal struct {
	dir, index string
	renames    []renaming
	remove     []string
}

type renaming struct {
	from, to string
	size     int64
}

const (
	journalMark    = "tensorfile journal "
	journalHead    = journalMark + "1\n"
	journalTail    = "end\n"
	journalSuffix  = ".journal"
	maxJournalSize = 16 << 20
)

// errIncomplete is what a journal is whose writer did not complete it: nothing was
// renamed.
var errIncomplete = errors.New("the journal is not complete")

// journalName is where the journal of a set is.
func journalName(dir, index string) string {
	return filepath.Join(dir, "."+shortened(index)+journalSuffix)
}

func (j *journal) name() string { return journalName(j.dir, j.index) }

// An UnfinishedError says that a set of files was not replaced completely.
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
	return fmt.Sprintf(
		"replacing the files of %s was interrupted: 'tensorfile clean --yes %s' completes it",
		strconv.Quote(e.Index), strconv.Quote(dir))
}

// Unfinished returns an *UnfinishedError if there is a journal of the set whose index
// has that name, else nil. An index that exists is whole nevertheless, together with its
// set.
func Unfinished(index string) error {
	dir, base := filepath.Split(index)
	fi, err := os.Lstat(journalName(dir, base))
	if err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	e := &UnfinishedError{Dir: dir, Index: base}
	if f, err := tryLock(journalName(dir, base)); err == nil {
		f.Close()
	} else {
		e.Busy = errors.Is(err, errHeld)
	}
	return e
}

func (j *journal) marshal() []byte {
	b := []byte(journalHead)
	b = fmt.Appendf(b, "index %q\n", j.index)
	for _, r := range j.renames {
		b = fmt.Appendf(b, "rename %q %q %d\n", r.from, r.to, r.size)
	}
	for _, name := range j.remove {
		b = fmt.Appendf(b, "remove %q\n", name)
	}
	return append(b, journalTail...)
}

// parseJournal reads a journal of the directory.
func parseJournal(dir string, b []byte) (*journal, error) {
	text, complete := strings.CutSuffix(string(b), "\n"+journalTail)
	body, ok := strings.CutPrefix(text+"\n", journalHead)
	switch {
	case !IsJournal(b):
		return nil, errors.New("it is not a journal")
	case !complete:
		return nil, errIncomplete
	case !ok:
		return nil, fmt.Errorf("%w: a journal of another version", errors.ErrUnsupported)
	}
	j := &journal{dir: dir}
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		var args []string
		for strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				break
			}
			arg, err := strconv.Unquote(quoted)
			if err != nil {
				break
			}
			args = append(args, arg)
			rest = strings.TrimPrefix(rest[len(quoted):], " ")
		}
		size, sizeErr := strconv.ParseInt(rest, 10, 64)
		switch {
		case verb == "index" && len(args) == 1 && i == 0 && rest == "":
			j.index = args[0]
		case verb == "rename" && len(args) == 2 && sizeErr == nil && size >= 0:
			j.renames = append(j.renames, renaming{args[0], args[1], size})
		case verb == "remove" && len(args) == 1 && rest == "":
			j.remove = append(j.remove, args[0])
		default:
			return nil, fmt.Errorf("line %d of the journal is invalid", i+2)
		}
	}
	return j, j.valid()
}

// IndexOf returns the name of the index of a set whose journal has that name. It is false
// for other names; a long name is shortened.
func IndexOf(name string) (index string, ok bool) {
	index, ok = strings.CutSuffix(name, journalSuffix)
	index, hidden := strings.CutPrefix(index, ".")
	return index, ok && hidden && index != ""
}

// IsJournal reports whether a file begins as a journal does, or is the beginning of one,
// also one of which a loss of power left zeros.
func IsJournal(b []byte) bool {
	b = bytes.TrimRight(b[:min(len(b), len(journalMark))], "\x00")
	return strings.HasPrefix(journalMark, string(b))
}

// valid checks what a journal may do.
func (j *journal) valid() error {
	stem := j.index
	if dot := strings.IndexByte(stem[min(1, len(stem)):], '.'); dot >= 0 {
		stem = stem[:dot+1]
	}
	if !isBase(j.index) || len(j.renames) == 0 {
		return errors.New("the journal has no index, or no renames")
	}
	seen := map[string]bool{}
	for i, r := range j.renames {
		if !isBase(r.from) || !isBase(r.to) || !isTemp(r.from, r.to) || isTemp(r.to, "") ||
			seen[r.to] {
			return fmt.Errorf("the journal renames %q to %q", r.from, r.to)
		}
		if r.to == j.index && i != len(j.renames)-1 {
			return errors.New("the journal does not rename the index last")
		}
		seen[r.to] = true
	}
	for _, name := range j.remove {
		if !isBase(name) || !strings.HasPrefix(name, stem) || seen[name] {
			return fmt.Errorf("the journal removes %q", name)
		}
	}
	return nil
}

// check reports what is missing before anything was renamed.
func (j *journal) check() error {
	for _, r := range j.renames {
		if !isRegular(filepath.Join(j.dir, r.from), r.size) {
			return fmt.Errorf("%s: %w or has changed", filepath.Join(j.dir, r.from),
				fs.ErrNotExist)
		}
	}
	return nil
}

func isRegular(name string, size int64) bool {
	fi, err := os.Lstat(name)
	return err == nil && fi.Mode().IsRegular() && fi.Size() == size
}

// errLost is that pieces of a set are gone, so that it cannot be completed.
var errLost = errors.New("the set cannot be completed")

// finish does what the journal lists, as far as it is not yet done. It may be called
// again after it failed, and after it succeeded.
func (j *journal) finish(h hook, sync bool) error {
	last := j.renames[len(j.renames)-1]
	pending := j.renames[:0:0]
	for _, r := range j.renames {
		switch {
		case isRegular(filepath.Join(j.dir, r.from), r.size):
			pending = append(pending, r)
		case !isRegular(filepath.Join(j.dir, r.to), r.size):
			return fmt.Errorf("%w: %s is missing", errLost, filepath.Join(j.dir, r.to))
		}
	}
	flush := func() error {
		if err := h.before("sync directory"); err != nil || !sync {
			return err
		}
		return syncDir(filepath.Clean(j.dir))
	}
	if last.to == j.index && len(pending) > 1 && slices.Contains(pending, last) {
		// From here on readers find no set; the disk must know that before it knows a
		// piece.
		if err := j.removeFile(last.to, h); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
	}
	for _, r := range pending {
		if r == last && len(pending) > 1 { // the pieces before their index
			if err := flush(); err != nil {
				return err
			}
		}
		if err := rename(filepath.Join(j.dir, r.from), filepath.Join(j.dir, r.to), h, inUse,
			time.Sleep); err != nil {
			return err
		}
	}
	for _, name := range j.remove {
		if err := j.removeFile(name, h); err != nil {
			return err
		}
	}
	return flush()
}

// removeFile removes a file or link, if it exists, but no directory.
func (j *journal) removeFile(name string, h hook) error {
	if err := h.before("remove"); err != nil {
		return err
	}
	name = filepath.Join(j.dir, name)
	fi, err := os.Lstat(name)
	if err == nil && fi.IsDir() {
		return notRegular(name, fi)
	}
	if err == nil {
		err = os.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeJournal writes the journal, flushed and locked, when there is no other one.
func (s *Set) writeJournal(j *journal) (*os.File, error) {
	f, err := createLocked(j.name(), func() error {
		return finishPending(filepath.Join(j.dir,
			j.index))
	})
	if err != nil {
		return nil, err
	}
	if err = s.hook.before("journal"); err == nil {
		_, err = f.Write(j.marshal())
	}
	if err == nil && !s.noSync {
		if err = s.hook.before("sync"); err == nil {
			err = f.Sync()
		}
		if err == nil {
			if err = s.hook.before("sync directory"); err == nil {
				err = syncDir(filepath.Clean(j.dir))
			}
		}
	}
	if err != nil {
		removeLocked(f)
		return nil, err
	}
	return f, nil
}

// createLocked creates a file of that name and locks it. Where one exists, finish is
// called to get rid of it.
func createLocked(name string, finish func() error) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			if err = finish(); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if Lock(f) != errHeld && isSame(f, name) {
			return f, nil
		}
		f.Close() // another process took it for a journal that was left, and removes it
		time.Sleep(time.Millisecond)
	}
	return nil, &fs.PathError{Op: "create", Path: name, Err: errHeld}
}

// isSame reports whether the open file still has that name.
func isSame(f *os.File, name string) bool {
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(fi, now)
}

// removeLocked removes a file and its lock.
func removeLocked(f *os.File) error {
	if closeBeforeRemove {
		f.Close()
	} else {
		defer f.Close()
	}
	if err := os.Remove(f.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// finishPending finishes what another writer of the set has left, if there is anything.
// A set that cannot be completed is given up: whoever calls this replaces it.
func finishPending(index string) error {
	dir, base := filepath.Split(index)
	name := journalName(dir, base)
	var err error
	retry(func() bool {
		if _, e := os.Lstat(name); errors.Is(e, fs.ErrNotExist) {
			err = nil
		} else {
			err = finishJournal(name)
		}
		return !errors.Is(err, errHeld)
	}, time.Sleep)
	switch {
	case err == nil, errors.Is(err, errLost):
		return nil
	case errors.Is(err, errHeld):
		return &UnfinishedError{Dir: dir, Index: base, Busy: true}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// finishJournal does what the journal of that name lists and removes it. One that is not
// complete is removed only, one whose set has lost pieces also, with the pieces left.
func finishJournal(name string) error {
	f, err := tryLock(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	j, err := readJournal(f)
	if err == nil {
		err = j.finish(nil, true)
	}
	switch {
	case err == nil, err == errIncomplete:
		return removeLocked(f)
	case errors.Is(err, errLost):
		for _, r := range j.renames {
			if isRegular(filepath.Join(j.dir, r.from), r.size) {
				os.Remove(filepath.Join(j.dir, r.from))
			}
		}
		if e := removeLocked(f); e != nil {
			return e
		}
		return err
	}
	f.Close()
	return err
}

// readJournal reads a journal from its open file.
func readJournal(f *os.File) (*journal, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() > maxJournalSize {
		return nil, fmt.Errorf("a journal of %d bytes", fi.Size())
	}
	b := make([]byte, fi.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	dir, base := filepath.Split(f.Name())
	j, err := parseJournal(dir, b)
	if err == nil && filepath.Base(j.name()) != base {
		return nil, fmt.Errorf("it is the journal of %q", j.index)
	}
	return j, err
}
