package atomicfile

import (
	"os"
	"time"
)

// rename moves temp over target. On windows a target that somebody has open, if only a virus scanner looking at the
// new file, refuses it: that is tried again for two seconds.
func rename(temp, target string, h hook) error {
	wait := 5 * time.Millisecond
	for deadline := time.Now().Add(2 * time.Second); ; {
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
