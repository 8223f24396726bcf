package tensor

import (
	"errors"
	"fmt"
	"io"
)

// Severity separates damage from a departure that does not prevent reading.
type Severity uint8

const (
	SeverityError Severity = iota
	SeverityWarning
)

func (s Severity) String() string {
	if s == SeverityWarning {
		return "warning"
	}
	return "error"
}

// A Finding is one thing that Verify has to say about a file.
type Finding struct {
	Severity Severity
	Class    Class  // ClassWarning for warnings
	Offset   int64  // -1 when there is none
	Field    string // in the format's own words
	Err      error
}

func (f Finding) String() string { return f.Severity.String() + ": " + f.Err.Error() }

// Depth says how much Verify looks at. Every depth includes those before it in
// the order VerifyStructure, VerifyDigests, VerifyCanonical.
type Depth uint8

const (
	VerifyDigests   Depth = iota // the default: also every digest and every encoded payload
	VerifyStructure              // metadata, ranges, padding: no payload is decoded
	VerifyCanonical              // also the one way in which a canonical writer would have written it
)

// VerifyOptions control a Reader's Verify. nil is the zero value.
type VerifyOptions struct {
	// Strict makes warnings errors.
	Strict bool
	// Depth says how much is looked at; zero is VerifyDigests.
	Depth Depth
	// Companion opens a file that the verified one refers to by name, in place
	// of the Reader's own. nil keeps that one.
	Companion func(name string) (io.ReaderAt, int64, error)
	// External finds a tensor that the file expects to be kept elsewhere, such
	// as the weights of a .pte in a .ptd. nil: such tensors are not checked.
	External func(name string) *Tensor
	// Report, if not nil, is called with each finding as it is made, warnings
	// included, from the goroutine that called Verify.
	Report func(Finding)
	// Progress, if not nil, is called now and then with the bytes looked at so
	// far and in all, from the goroutine that called Verify.
	Progress func(done, total int64)
}

// maxFindings bounds the memory that a hostile file can make a report take: so many
// errors and so many warnings are listed.
const maxFindings = 10_000

// FindingList collects what a Verify finds. The zero value has no options; see
// [NewFindingList].
type FindingList struct {
	opts  VerifyOptions
	list  []Finding
	errs  int
	warns int
}

// NewFindingList makes a list that follows Strict and Report of opts, which may
// be nil.
func NewFindingList(opts *VerifyOptions) *FindingList {
	l := new(FindingList)
	if opts != nil {
		l.opts = *opts
	}
	return l
}

// Error notes damage. An error that is a *FormatError, or wraps one, gives the
// finding its offset and field; nil is ignored. An error of several findings,
// as another Verify returns, is noted one by one.
func (l *FindingList) Error(err error) { l.add(SeverityError, err) }

// Warn notes a departure that does not prevent reading; with Strict it is an
// error.
func (l *FindingList) Warn(err error) {
	if l.opts.Strict {
		l.add(SeverityError, err)
		return
	}
	l.add(SeverityWarning, err)
}

func (l *FindingList) add(sev Severity, err error) {
	for _, f := range Findings(err) {
		if sev == SeverityWarning {
			f.Severity, f.Class = SeverityWarning, ClassWarning
		}
		n := &l.warns
		if f.Severity == SeverityError {
			n = &l.errs
		}
		switch *n++; {
		case *n > maxFindings+1:
			continue
		case *n <= maxFindings:
		case f.Severity == SeverityError:
			f = Finding{Severity: SeverityError, Class: ClassLimit, Offset: -1,
				Err: fmt.Errorf("%w: more than %d findings, the rest is not listed", ErrLimit, maxFindings)}
		default: // no damage, however many there are; errors are still listed
			f = Finding{Severity: SeverityWarning, Class: ClassWarning, Offset: -1,
				Err: fmt.Errorf("more than %d warnings, the rest is not listed", maxFindings)}
		}
		l.list = append(l.list, f)
		if l.opts.Report != nil {
			l.opts.Report(f)
		}
	}
}

// Full reports that further errors will not be listed, so that a Verify may
// stop early.
func (l *FindingList) Full() bool { return l.errs > maxFindings }

// All returns the findings so far, warnings included.
func (l *FindingList) All() []Finding { return l.list }

// Err is what Verify returns: nil when there are only warnings, else an error
// that [Findings] takes apart and that errors.Is sees through.
func (l *FindingList) Err() error {
	if l.errs == 0 {
		return nil
	}
	return &findingsError{l.list, l.errs}
}

type findingsError struct {
	list []Finding
	errs int
}

func (e *findingsError) Error() string {
	for _, f := range e.list {
		if f.Severity != SeverityError {
			continue
		}
		if e.errs == 1 {
			return f.Err.Error()
		}
		return fmt.Sprintf("%v (and %d more findings)", f.Err, e.errs-1)
	}
	return "no findings"
}

func (e *findingsError) Unwrap() []error {
	errs := make([]error, 0, len(e.list))
	for _, f := range e.list {
		if f.Severity == SeverityError {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// Findings takes the error of a Verify apart, in the order in which things were
// found. Any other error is one finding; nil has none.
func Findings(err error) []Finding {
	if err == nil {
		return nil
	}
	var all *findingsError
	if errors.As(err, &all) {
		return all.list
	}
	f := Finding{Severity: SeverityError, Class: ClassOf(err), Offset: -1, Err: err}
	var fe *FormatError
	if errors.As(err, &fe) {
		f.Offset, f.Field = fe.Offset, fe.Field
	}
	return []Finding{f}
}
