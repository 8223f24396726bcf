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
	// Writes and Removes are the files that finishing the set of a journal writes and
	// removes, or has written and removed.
	Writes, Removes []string
}

// The states of a Leftover.
const (
	Held     = "held"     // a writer that runs has it
	Recent   = "recent"   // it is not old enough to be removed
	Named    = "named"    // a journal names it: finishing the set renames it
	Stale    = "stale"    // with Remove it is removed, or the set of a journal finished
	Removed  = "removed"  // it was removed
	Finished = "finished" // its set was finished
)

// CleanOptions control Clean. nil is the zero value.
type CleanOptions struct {
	// Remove finishes sets and removes temporary files; otherwise they are listed.
	Remove bool
	// Age is how long ago a temporary file, or a journal that is not complete, must have
	// been written last to be stale. Zero is an hour.
	Age time.Duration
}

// Clean lists what writers have left in a directory, journals first. With Remove it
// finishes the sets of the journals and removes temporary files that are older than Age,
// that no writer holds and no journal names, and journals that their writers did not
// complete. It fails if the directory cannot be read; errors of single files are in the
// list.
func Clean(ctx context.Context, dir string, opts *CleanOptions) ([]Leftover, error) {
	if opts == nil {
		opts = &CleanOptions{}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var temps, all []Leftover
	named, allNamed := map[string]bool{}, false
	var sets sets
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		index, isJournal := IndexOf(e.Name())
		_, isTemp := tempOf(e.Name())
		if !isJournal && !isTemp || !e.Type().IsRegular() {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			continue // it is gone
		}
		l := Leftover{Path: filepath.Join(dir, e.Name()), Size: fi.Size(), ModTime: fi.ModTime(),
			Journal: isJournal}
		switch {
		case !isJournal:
			temps = append(temps, l)
		case l.cleanJournal(opts, named, func() bool {
			if sets == nil {
				sets = setsOf(entries)
			}
			return sets.have(index)
		}):
			all = append(all, l)
			allNamed = allNamed || l.Err != nil && l.State == Stale // what it names is not known
		}
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

// cleanJournal adds to named the pieces of the set that the journal leaves. It is false
// for what is no journal of a set of the directory.
func (l *Leftover) cleanJournal(opts *CleanOptions, named map[string]bool,
	hasSet func() bool) bool {
	l.State = Stale
	j, err := openJournal(l.Path)
	incomplete := err == errIncomplete
	switch {
	case errors.Is(err, errNoJournal), incomplete && !hasSet():
		return false
	case err == nil:
		for _, r := range j.renames {
			named[r.from] = true
		}
		l.plan(j)
	case !incomplete:
		l.Err = err
	}
	f, err := tryLock(l.Path)
	if err != nil {
		l.State = Held
		return true
	}
	f.Close()
	switch {
	case incomplete && !opts.isOld(l.ModTime):
		l.State = Recent
		return true
	case !opts.Remove || l.Err != nil:
		return true
	}
	switch err := finishJournal(l.Path, true); {
	case err == nil && incomplete:
		l.State = Removed
	case err == nil:
		l.State = Finished
	case errors.Is(err, errHeld):
		l.State = Held
	case errors.Is(err, errLost):
		l.State, l.Err = Removed, err
	default:
		l.Err = err
	}
	return true
}

// plan lists what finishing the set of j does.
func (l *Leftover) plan(j *journal) {
	pending, err := j.pending()
	if err != nil { // it will be given up
		for _, r := range pending {
			l.Removes = append(l.Removes, r.from)
		}
		return
	}
	for _, r := range pending {
		l.Writes = append(l.Writes, r.to)
	}
	for _, name := range j.remove {
		if _, err := os.Lstat(filepath.Join(j.dir, name)); err == nil {
			l.Removes = append(l.Removes, name)
		}
	}
}

// isOld reports whether what was written last at that time may be removed.
func (o *CleanOptions) isOld(t time.Time) bool {
	return time.Since(t) >= cmp.Or(o.Age, time.Hour)
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
	// The age is read after the lock was taken: a set touches its pieces before it
	// releases them.
	fi, err := f.Stat()
	switch {
	case err != nil:
		l.Err = err
	case named:
		l.State = Named
	case !opts.isOld(fi.ModTime()):
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
