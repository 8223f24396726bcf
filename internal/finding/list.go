// Package finding collects what a Verify finds.
package finding

import (
	"fmt"

	"github.com/tensorfile/tensorfile/tensor"
)

// max bounds the memory that a hostile file can make a report take: so many errors
// and so many warnings are listed.
const max = 10_000

// A List is a tensor.Report in the making.
type List struct {
	Options     tensor.VerifyOptions // of the Verify
	report      *tensor.Report
	errs, warns int
}

// NewList returns an empty list with a copy of opts, which may be nil.
func NewList(opts *tensor.VerifyOptions) *List {
	l := &List{report: &tensor.Report{Findings: []tensor.Finding{}}}
	if opts != nil {
		l.Options = *opts
	}
	return l
}

// Error adds damage; nil is ignored.
func (l *List) Error(err error) {
	if err == nil {
		return
	}
	switch l.errs++; {
	case l.errs <= max:
		l.add(tensor.FindingOf(err))
	case l.errs == max+1:
		l.add(tensor.FindingOf(fmt.Errorf("%w: more than %d findings, the rest is not listed",
			tensor.ErrLimit, max)))
	}
}

// Warn adds a departure that does not prevent reading; with Strict it is an error.
func (l *List) Warn(err error) {
	if l.Options.Strict {
		l.Error(err)
		return
	}
	if err == nil {
		return
	}
	switch l.warns++; {
	case l.warns > max+1:
		return
	case l.warns == max+1:
		err = fmt.Errorf("more than %d warnings, the rest is not listed", max)
	}
	f := tensor.FindingOf(err)
	f.Severity, f.Class = tensor.SeverityWarning, tensor.ClassWarning
	l.add(f)
}

func (l *List) add(f tensor.Finding) { l.report.Findings = append(l.report.Findings, f) }

// Full reports whether further errors would not be listed, so that a Verify may
// stop early.
func (l *List) Full() bool { return l.errs > max }

// All returns the findings so far, warnings included.
func (l *List) All() []tensor.Finding { return l.report.Findings }

// Err returns nil if there are only warnings so far.
func (l *List) Err() error { return l.report.Err() }

// End returns what Verify returns: the report and its error. err is why the Verify
// ended early, if it did; it is listed in any case.
func (l *List) End(err error) (*tensor.Report, error) {
	if err != nil {
		l.add(tensor.FindingOf(err))
	}
	return l.report, l.report.Err()
}
