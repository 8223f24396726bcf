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

	"github.com/tensorfile/tensorfile/internal/naming"
)

// A journal lists what makes a set of written pieces the set of its directory. Read from
// a file it is untrusted: it renames temporary files to the names that they were made
// for, and removes files, all of its own directory and with names of its own set.
//
//	tensorfile journal 1
//	index "m.safetensors.index.json"
//	rename ".m-00001-of-00002.safetensors.tensorfile-tmp-…" "m-00001-of-…" 4096
//	remove "m-00003-of-00003.safetensors"
//	end
type journal struct {
	dir, index string
	renames    []renaming
	remove     []string
	written    map[string]bool // the targets of renames
}

type renaming struct {
	from, to string
	size     int64
}

const (
	journalMark    = "tensorfile journal "
	journalHead    = journalMark + "1\n"
	journalTail    = "end\n"
	maxJournalSize = 16 << 20
)

// Errors of reading a journal. Under one that its writer did not complete nothing was
// renamed. The others are not from a writer of this version, and nobody finishes them.
var (
	errIncomplete = errors.New("the journal is not complete")
	errNoJournal  = errors.New("it is not a journal")
	errInvalid    = errors.New("the journal is invalid")
)

// journalName is where the journal of a set is.
func journalName(dir, index string) string {
	return filepath.Join(dir, "."+shortened(index)+journalSuffix)
}

func (j *journal) name() string { return journalName(j.dir, j.index) }

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

// parseJournal reads a journal of the directory. errIncomplete is only for the beginning
// of what a writer writes, also if a loss of power left zeros after it; the journal has
// what there is of it.
func parseJournal(dir string, b []byte) (*journal, error) {
	text := string(bytes.TrimRight(b, "\x00"))
	rest, ok := strings.CutPrefix(text, journalHead)
	switch {
	case ok:
	case strings.HasPrefix(journalHead, text):
		return nil, errIncomplete
	case strings.HasPrefix(text, journalMark) && strings.HasSuffix(text, "\n"+journalTail):
		return nil, fmt.Errorf("%w: a journal of another version", errors.ErrUnsupported)
	default:
		return nil, errNoJournal
	}
	j := &journal{dir: dir}
	for n := 2; ; n++ {
		line, after, ok := strings.Cut(rest, "\n")
		switch {
		case !ok && j.mayBegin(line):
			return j, errIncomplete
		case ok && line+"\n" == journalTail && len(j.renames) > 0:
			if after != "" || len(text) < len(b) {
				return nil, errNoJournal
			}
			return j, nil
		case !ok || !j.add(line):
			return nil, fmt.Errorf("%w: line %d, %s", errInvalid, n, naming.Quote(line))
		}
		rest = after
	}
}

// mayBegin reports whether the next line may begin like that.
func (j *journal) mayBegin(line string) bool {
	next := []string{`index "`}
	switch {
	case len(j.remove) > 0:
		next = []string{`remove "`, "end"}
	case len(j.renames) > 0:
		next = []string{`rename "`, `remove "`, "end"}
	case j.index != "":
		next = []string{`rename "`}
	}
	return slices.ContainsFunc(next, func(s string) bool {
		return strings.HasPrefix(s, line) || strings.HasPrefix(line, s)
	})
}

// add takes a line, and reports whether it is one that the journal may have there.
func (j *journal) add(line string) bool {
	verb, rest, _ := strings.Cut(line, " ")
	var args []string
	for strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return false
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return false
		}
		args = append(args, arg)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	switch {
	case j.index == "":
		if verb == "index" && len(args) == 1 && rest == "" && isFinal(args[0]) {
			j.index = args[0]
			return true
		}
	case verb == "rename" && len(args) == 2 && len(j.remove) == 0:
		size, err := strconv.ParseInt(rest, 10, 64)
		return err == nil && size >= 0 && j.addRename(renaming{args[0], args[1], size})
	case verb == "remove" && len(args) == 1 && len(j.renames) > 0 && rest == "":
		return j.addRemove(args[0])
	}
	return false
}

// addRename takes a renaming if it is one of the set. The index is the last.
func (j *journal) addRename(r renaming) bool {
	if !isBase(r.from) || !isFinal(r.to) || !isTemp(r.from, r.to) || !InSet(j.index, r.to) ||
		j.written[r.to] || j.written[j.index] {
		return false
	}
	if j.written == nil {
		j.written = map[string]bool{}
	}
	j.written[r.to] = true
	j.renames = append(j.renames, r)
	return true
}

// addRemove takes a removal if it is of a file that the set may have had.
func (j *journal) addRemove(name string) bool {
	if !isFinal(name) || !isReplaced(j.index, name) || j.written[name] {
		return false
	}
	j.remove = append(j.remove, name)
	return true
}

// isFinal reports whether name is the name of a file in a directory, and not the name of
// a temporary file or a journal.
func isFinal(name string) bool {
	_, temp := tempOf(name)
	_, journal := IndexOf(name)
	return isBase(name) && !temp && !journal
}

// IndexOf returns the name of the index of a set whose journal has that name. It is false
// for other names; a long name is shortened.
func IndexOf(name string) (index string, ok bool) {
	index, ok = strings.CutSuffix(name, journalSuffix)
	index, hidden := strings.CutPrefix(index, ".")
	return index, ok && hidden && index != ""
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

// pending lists the renames that are still to be done; with errLost, the pieces that are
// left of a set that cannot be completed.
func (j *journal) pending() (pending []renaming, err error) {
	for _, r := range j.renames {
		switch {
		case isRegular(filepath.Join(j.dir, r.from), r.size):
			pending = append(pending, r)
		case err == nil && !isRegular(filepath.Join(j.dir, r.to), r.size):
			err = fmt.Errorf("%w: %s is missing", errLost, filepath.Join(j.dir, r.to))
		}
	}
	return pending, err
}

// finish does what the journal lists, as far as it is not yet done. It may be called
// again after it failed, and after it succeeded.
func (j *journal) finish(h hook, sync bool) error {
	pending, err := j.pending()
	if err != nil {
		return err
	}
	flush := func() error {
		if err := h.before("sync directory"); err != nil || !sync {
			return err
		}
		return syncDir(filepath.Clean(j.dir))
	}
	last := j.renames[len(j.renames)-1]
	if slices.Contains(j.remove, j.index) ||
		last.to == j.index && len(pending) > 1 && slices.Contains(pending, last) {
		// From here on readers find no set; the disk must know that before it knows a
		// piece.
		if err := j.removeFile(j.index, h); err != nil {
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
		return finishPending(filepath.Join(j.dir, j.index), true)
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
// A set that cannot be completed is given up: whoever calls this replaces it. For a new
// journal of the set, the name of the journal is free then.
func finishPending(index string, newJournal bool) error {
	dir, base := filepath.Split(index)
	name := journalName(dir, base)
	var err error
	retry(func() bool {
		switch fi, e := os.Lstat(name); {
		case errors.Is(e, fs.ErrNotExist):
			err = nil
		case e == nil && !fi.Mode().IsRegular():
			err = errNoJournal
		default:
			err = finishJournal(name, newJournal)
		}
		return !errors.Is(err, errHeld)
	}, time.Sleep)
	switch {
	case err == nil, errors.Is(err, errLost):
		return nil
	case errors.Is(err, errHeld):
		return &UnfinishedError{Dir: dir, Index: base, Busy: true}
	case !newJournal && (err == errIncomplete || errors.Is(err, errNoJournal) ||
		errors.Is(err, errInvalid)):
		return nil // nobody will rename anything over what is written now
	}
	return fmt.Errorf("%s: %w", name, err)
}

// finishJournal does what the journal of that name lists and removes it, one whose set
// has lost pieces with the pieces left. One that is not complete is removed if that is
// asked for.
func finishJournal(name string, incomplete bool) error {
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
	case err == nil, err == errIncomplete && incomplete:
		return removeLocked(f)
	case errors.Is(err, errLost):
		left, _ := j.pending()
		for _, r := range left {
			os.Remove(filepath.Join(j.dir, r.from))
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
		return nil, fmt.Errorf("%w: it has %d bytes", errNoJournal, fi.Size())
	}
	b := make([]byte, fi.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	dir, base := filepath.Split(f.Name())
	j, err := parseJournal(dir, b)
	if j != nil && j.index != "" && filepath.Base(j.name()) != base {
		return nil, fmt.Errorf("%w: it is the journal of %q", errInvalid, j.index)
	}
	return j, err
}
