package format

import "fmt"

// maxWarnings bounds the memory that a hostile file can make an open Reader take.
const maxWarnings = 1000

// Warnings lists deviations from a format that did not prevent reading.
type Warnings struct {
	Strict bool   // makes Add return each warning as an error
	Format string // for the last warning, that there are more
	list   []error
}

// Add lists err, or returns it if Strict.
func (w *Warnings) Add(err error) error {
	switch n := len(w.list); {
	case w.Strict:
		return err
	case n < maxWarnings:
		w.list = append(w.list, err)
	case n == maxWarnings:
		w.list = append(w.list, fmt.Errorf("%s: more than %d warnings, the rest is not listed",
			w.Format, maxWarnings))
	}
	return nil
}

// Full reports whether Add ignores further warnings.
func (w *Warnings) Full() bool { return len(w.list) > maxWarnings }

// All returns the list.
func (w *Warnings) All() []error { return w.list }
