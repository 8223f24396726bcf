package tensorfile

import (
	"context"
	"time"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
)

// A Leftover is a hidden file of a writer: what one that was killed has left, or what one
// that still runs will rename.
type Leftover struct {
	Path    string
	Journal bool // of a set of files that is being replaced; else a temporary file
	Size    int64
	ModTime time.Time
	// State is "held" (by a writer that runs), "recent", "named" (by a journal), or
	// "stale"; with CleanOptions.Remove it is "removed" or "finished" in place of
	// "stale".
	State string
	Err   error // why cleaning failed, or what is wrong with a journal
	// Writes and Removes are the files of the directory that finishing the set of a
	// journal writes and removes, or has written and removed.
	Writes, Removes []string
}

// CleanOptions control Clean. nil is the zero value.
type CleanOptions struct {
	// Remove finishes sets and removes stale files; otherwise they are only listed.
	Remove bool
	// Age is how long ago a temporary file, or a journal that is not complete, must have
	// been written last to be stale. Zero is an hour.
	Age time.Duration
}

// Clean lists what writers have left in a directory, journals first. A file NAME is
// written as .NAME.tensorfile-tmp-…, which a writer that is killed leaves. A writer that
// is killed while it replaces a set of shards leaves .INDEX.tensorfile-journal, which
// lists the renames; reading the set is tensor.ErrUnfinished then. With Remove, Clean
// finishes the sets of journals, which writes and removes files of these sets alone. It
// removes temporary files that are older than Age, that no writer holds and that no
// journal names, and journals that their writers did not complete. The error is of the
// directory; those of single files are in the list.
func Clean(ctx context.Context, dir string, opts *CleanOptions) ([]Leftover, error) {
	var o atomicfile.CleanOptions
	if opts != nil {
		o = atomicfile.CleanOptions(*opts)
	}
	list, err := atomicfile.Clean(ctx, dir, &o)
	all := make([]Leftover, len(list))
	for i, l := range list {
		all[i] = Leftover(l)
	}
	return all, err
}
