package format

import (
	"context"
	"errors"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestFindingsSeparateErrorsAndWarnings(t *testing.T) {
	l := NewFindings(nil)
	l.Error(nil)
	l.Warn(nil)
	l.Warn(&tensor.FormatError{Format: "zt", Offset: 8, Field: "padding",
		Err: tensor.ErrMalformed})
	report, err := l.End(nil)
	if err != nil || len(report.Findings) != 1 {
		t.Fatalf("a warning alone: %v, %v", report.Findings, err)
	}
	f := report.Findings[0]
	if f.Severity != tensor.SeverityWarning || f.Class != tensor.ClassWarning || f.Offset != 8 ||
		f.Field != "padding" {
		t.Errorf("%+v", f)
	}
	l.Error(tensor.ErrChecksum)
	if report, err = l.End(nil); !errors.Is(err, tensor.ErrChecksum) || len(report.Findings) != 2 {
		t.Errorf("%v, %v", report.Findings, err)
	}
}

func TestStrictMakesWarningsErrors(t *testing.T) {
	l := NewFindings(&tensor.VerifyOptions{Strict: true})
	l.Warn(tensor.ErrMalformed)
	if report, err := l.End(nil); !errors.Is(err, tensor.ErrMalformed) ||
		report.Findings[0].Class != tensor.ClassMalformed {
		t.Errorf("%v, %v", report.Findings, err)
	}
}

// Whoever reads the report alone must not take an unfinished Verify for a good one.
func TestFindingsThatEndEarlyKeepTheError(t *testing.T) {
	l := NewFindings(nil)
	for range maxFindings + 5 {
		l.Error(tensor.ErrMalformed)
	}
	report, err := l.End(context.Canceled)
	if !errors.Is(err, context.Canceled) || !errors.Is(report.Err(), context.Canceled) ||
		!errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
}

func TestErrorsAreBounded(t *testing.T) {
	l := NewFindings(nil)
	for range maxFindings {
		l.Error(tensor.ErrMalformed)
	}
	if l.Full() {
		t.Fatal("full too early")
	}
	for range 10 {
		l.Error(tensor.ErrMalformed)
	}
	if !l.Full() || len(l.All()) != maxFindings+1 ||
		l.All()[maxFindings].Class != tensor.ClassLimit {
		t.Fatalf("%d findings", len(l.All()))
	}
}

// Any number of warnings is not damage, and an error after them is still listed.
func TestWarningsAreBoundedByThemselves(t *testing.T) {
	l := NewFindings(nil)
	for range 2 * maxFindings {
		l.Warn(tensor.ErrMalformed)
	}
	if l.Full() || l.Err() != nil || len(l.All()) != maxFindings+1 ||
		l.All()[maxFindings].Class != tensor.ClassWarning {
		t.Fatalf("%d findings, %v", len(l.All()), l.Err())
	}
	l.Error(tensor.ErrChecksum)
	if !errors.Is(l.Err(), tensor.ErrChecksum) {
		t.Error(l.Err())
	}
	strict := NewFindings(&tensor.VerifyOptions{Strict: true})
	for range 2 * maxFindings {
		strict.Warn(tensor.ErrMalformed)
	}
	if !strict.Full() || !errors.Is(strict.Err(), tensor.ErrLimit) {
		t.Error(strict.Err())
	}
}
