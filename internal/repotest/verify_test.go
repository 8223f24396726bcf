package repotest

import (
	"context"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestVerifyReportsWarningsOfOpening(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	eachTestFile(t, func(t *testing.T, f *tensorfile.File) {
		report, err := f.Verify(t.Context(), nil)
		if (err == nil) != (report.Err() == nil) {
			t.Errorf("Verify returns %v, and a report of %v", err, report.Err())
		}
		for _, w := range f.Warnings() {
			want := tensor.FindingOf(w)
			if !slices.ContainsFunc(report.Findings, func(x tensor.Finding) bool {
				return x.Offset == want.Offset && x.Field == want.Field
			}) {
				t.Errorf("not in the report: %v", w)
			}
		}
		report, err = f.Verify(canceled, nil)
		if (err == nil) != (report.Err() == nil) {
			t.Errorf("canceled: Verify returns %v, and a report of %v", err, report.Err())
		}
	})
}
