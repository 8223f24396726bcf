package atomicfile

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Leftover is what a writer that was killed has left in a directory, or what one that
// still runs is about to replace.
type Leftover struct {
	Path    string
	Journal bool // of a set of files; else a temporary file
	Size    int64
	ModTime time.Time
	State   string // one of the states below
	Err     error  // why cleaning failed, or what is wrong with a journal
}

// The states of a Leftover.
const (
	Held     = "held"     // a writer that runs has it
	Recent   = "recent"   // it is not old enough to be removed
	Named    = "named"    // a journal names it: finishing the set renames it
	Stale    = "stale"    // with Remove it is removed, or, of a journal, its set finished
	Removed  = "removed"  // it was removed
	Finished = "finished" // its set was finished
)

// CleanOptions control Clean. nil is the zero value.
type CleanOptions struct {
	// Remove finishes sets and removes temporary files; otherwise they are listed.
	Remove bool
	// Age is how long ago a temporary file must have been written last to be stale. Zero
	// is an hour.
	Age time.Duration
}

// Clean lists what writers have left in a directory, journals first. With Remove it
// finishes the sets of the journals and removes temporary files that are older than Age,
// that no writer holds and no journal names. An error is of the directory; those of
// single files are in the list.
func Clean(ctx context.Context, dir string, opts *CleanOptions) ([]Leftover, error) {
	if opts == nil {
		opts = &CleanOptions{}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var journals, temps []Leftover
	for _, e := range entries {
		name := e.Name()
		_, isJournal := IndexOf(name)
		if !isJournal && !isTemp(name, "") || !e.Type().IsRegular() {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			continue // it is gone
		}
		l := Leftover{Path: filepath.Join(dir, name), Size: fi.Size(), ModTime: fi.ModTime(),
			Journal: isJournal}
		if !isJournal {
			temps = append(temps, l)
		} else if startsAsJournal(l.Path) {
			journals = append(journals, l)
		}
	}
	named, all := map[string]bool{}, journals
	allNamed := false
	for i := range journals {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		j := &journals[i]
		j.cleanJournal(opts.Remove, named)
		allNamed = allNamed || j.Err != nil && j.State == Stale // what it names is not known
	}
	for i := range temps {
		l := &temps[i]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, err := os.Lstat(l.Path); errors.Is(err, fs.ErrNotExist) {
			continue // finishing a set took it
		}
		l.cleanTemp(opts, allNamed || named[filepath.Base(l.Path)])
		all = append(all, *l)
	}
	return all, nil
}

// startsAsJournal reports whether a file is a journal, if perhaps the beginning of one.
func startsAsJournal(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, len(journalMark))
	n, _ := f.ReadAt(b, 0)
	return IsJournal(b[:n])
}

// cleanJournal adds to named the pieces of the set that the journal leaves.
func (l *Leftover) cleanJournal(remove bool, named map[string]bool) {
	l.State = Stale
	j, err := openJournal(l.Path)
	if err == nil {
		for _, r := range j.renames {
			named[r.from] = true
		}
	} else if err != errIncomplete {
		l.Err = err
	}
	f, err := tryLock(l.Path)
	if err != nil {
		l.State = Held
		return
	}
	f.Close()
	if !remove || l.Err != nil {
		return
	}
	switch err := finishJournal(l.Path); {
	case err == nil:
		l.State = Finished
	case errors.Is(err, errHeld):
		l.State = Held
	case errors.Is(err, errLost):
		l.State, l.Err = Removed, err
	default:
		l.Err = err
	}
}

func openJournal(name string) (*journal, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readJournal(f)
}

func (l *Leftover) cleanTemp(opts *CleanOptions, named bool) {
	f, err := tryLock(l.Path)
	if err != nil {
		l.State = Held
		return
	}
	// Its age only now: a set makes its pieces young before it unlocks them.
	fi, err := f.Stat()
	switch {
	case err != nil:
		l.Err = err
	case named:
		l.State = Named
	case time.Since(fi.ModTime()) < cmp.Or(opts.Age, time.Hour):
		l.State = Recent
	case !opts.Remove:
		l.State = Stale
	default:
		if l.Err = removeLocked(f); l.Err == nil {
			l.State = Removed
			return
		}
		l.State = Stale
	}
	f.Close()
}
