package atomicfile

import (
	"os"
	"path/filepath"
	"time"
)

// patience is how long others may keep what we need to replace.
const patience = 2 * time.Second

// Rename gives a file that Create made another name in the same directory, for good:
// whatever has that name is replaced.
func Rename(old, name string) error {
	if err := rename(old, name, nil, inUse, patience); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// rename moves temp over target. On windows that is refused while somebody has one of
// them open, if only a virus scanner that looks at the new file: it is tried again for
// that long.
func rename(temp, target string, h hook, inUse func(error) bool, patience time.Duration) error {
	wait := 5 * time.Millisecond
	for deadline := time.Now().Add(patience); ; {
		err := h.before("rename")
		if err == nil {
			err = os.Rename(temp, target)
		}
		if err == nil || !inUse(err) || time.Now().Add(wait).After(deadline) {
			return err
		}
		time.Sleep(wait)
		wait = min(2*wait, 100*time.Millisecond)
	}
}
