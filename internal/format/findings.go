package format

import (
	"fmt"

	"github.com/tensorfile/tensorfile/tensor"
)

// maxFindings is how many errors, and how many warnings, a report lists at most: a
// hostile file could have any number.
const maxFindings = 10_000

// Findings collect errors and warnings for a tensor.Report.
type Findings struct {
	Options     tensor.VerifyOptions
	report      *tensor.Report
	errs, warns int
}

// NewFindings returns an empty list with a copy of opts, which may be nil.
func NewFindings(opts *tensor.VerifyOptions) *Findings {
	l := &Findings{report: &tensor.Report{Findings: []tensor.Finding{}}}
	if opts != nil {
		l.Options = *opts
	}
	return l
}

// Error adds an error; nil is ignored.
func (l *Findings) Error(err error) {
	if err == nil {
		return
	}
	switch l.errs++; {
	case l.errs <= maxFindings:
		l.add(tensor.FindingOf(err))
	case l.errs == maxFindings+1:
		l.add(tensor.FindingOf(fmt.Errorf("%w: more than %d findings, the rest is not listed",
			tensor.ErrLimit, maxFindings)))
	}
}

// Warn adds a warning, or with Options.Strict an error; nil is ignored.
func (l *Findings) Warn(err error) {
	if l.Options.Strict {
		l.Error(err)
		return
	}
	if err == nil {
		return
	}
	switch l.warns++; {
	case l.warns > maxFindings+1:
		return
	case l.warns == maxFindings+1:
		err = fmt.Errorf("more than %d warnings, the rest is not listed", maxFindings)
	}
	f := tensor.FindingOf(err)
	f.Severity, f.Class = tensor.SeverityWarning, tensor.ClassWarning
	l.add(f)
}

func (l *Findings) add(f tensor.Finding) { l.report.Findings = append(l.report.Findings, f) }

// Full reports whether further errors are not listed, so that Verify may stop.
func (l *Findings) Full() bool { return l.errs > maxFindings }

// All returns the findings so far, warnings included.
func (l *Findings) All() []tensor.Finding { return l.report.Findings }

// Err returns nil if there are only warnings so far.
func (l *Findings) Err() error { return l.report.Err() }

// End returns the results of Verify: the report and its error. err, if not nil, is why
// Verify stopped early; it becomes the last finding.
func (l *Findings) End(err error) (*tensor.Report, error) {
	if err != nil {
		l.add(tensor.FindingOf(err))
	}
	return l.report, l.report.Err()
}
