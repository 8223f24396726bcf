package repotest

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// eachTestFile calls f with every file of testdata that opens.
func eachTestFile(t *testing.T, f func(t *testing.T, f *tensorfile.File)) {
	t.Helper()
	opened := map[tensorfile.Format]int{}
	err := filepath.WalkDir("testdata", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := tensorfile.Open(name, nil)
		if err != nil {
			return nil
		}
		defer file.Close()
		opened[file.Format()]++
		t.Run(strings.TrimPrefix(filepath.ToSlash(name), "testdata/"), func(t *testing.T) {
			f(t, file)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range tensorfile.Formats() {
		if opened[format] == 0 {
			t.Errorf("no file of %v", format)
		}
	}
}

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
