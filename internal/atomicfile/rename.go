package atomicfile

import (
	"os"
	"time"
)

// tries is how often an operation that others prevent is tried: for some two seconds.
const tries = 24

// retry calls do up to tries times, with a pause after each, until it reports success.
func retry(do func() bool, pause func(time.Duration)) {
	wait := 5 * time.Millisecond
	for n := 1; !do() && n < tries; n++ {
		pause(wait)
		wait = min(2*wait, 100*time.Millisecond)
	}
}

// rename moves temp over target. On windows that is refused while somebody has one of
// them open, such as a virus scanner: it is tried again.
func rename(temp, target string, h hook, inUse func(error) bool, pause func(time.Duration)) error {
	var err error
	retry(func() bool {
		if err = h.before("rename"); err == nil {
			err = os.Rename(temp, target)
		}
		return err == nil || !inUse(err)
	}, pause)
	return err
}
