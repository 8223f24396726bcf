package pte

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// TestHostileFilesGetTheirVerdict opens malformed programs of every kind.
func TestHostileFilesGetTheirVerdict(t *testing.T) {
	for _, h := range hostiles {
		t.Run(h.name, func(t *testing.T) {
			b := h.make(t)
			var r *Reader
			var err, verdict error
			var report *tensor.Report
			if r, err = OpenBytes(b, nil); err == nil {
				report, verdict = r.Verify(t.Context(), nil)
			}
			if h.open != nil {
				if !errors.Is(err, h.open) {
					t.Fatalf("Open: %v, want %v", err, h.open)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			err = verdict
			if h.verify == nil && err != nil || h.verify != nil && !errors.Is(err, h.verify) {
				t.Fatalf("Verify: %v, want %v", err, h.verify)
			}
			for _, f := range report.Findings {
				var fe *tensor.FormatError
				if !errors.As(f.Err, &fe) || fe.Field == "" &&
					f.Severity == tensor.SeverityError || f.Offset < 0 ||
					f.Offset > int64(len(b)) {
					t.Errorf("a finding without its place: %+v", f)
				}
			}
			var warned bool
			for _, w := range r.Warnings() {
				warned = warned || h.warn != "" && fieldOf(w) == h.warn
			}
			if h.warn != "" && !warned {
				t.Errorf("no warning is of %s: %v", h.warn, r.Warnings())
			}
			if h.warn == "" && h.verify == nil && len(r.Warnings()) > 0 {
				t.Errorf("warnings: %v", r.Warnings())
			}
			if strict, err := OpenBytes(b,
				&ReaderOptions{Strict: true}); (err == nil) != (h.verify == nil && h.warn == "") {
				t.Errorf("strictly: %v, %v", strict, err)
			}
			walkAll(t, r)
			writeAll(t, r)
		})
	}
}

// TestRuntimeJudgesHostileFilesAsTheTableSays holds what the table says of the runtime
// against the runtime.
func TestRuntimeJudgesHostileFilesAsTheTableSays(t *testing.T) {
	run := etrun(t)
	for _, h := range hostiles {
		if h.runtime == "" {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.pte")
			if err := os.WriteFile(file, h.make(t), 0o666); err != nil {
				t.Fatal(err)
			}
			err := exec.Command(run, "run", file).Run()
			got := "runs"
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if got = "refuses"; exit.ExitCode() != 1 {
					got = "dies"
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if h.runtime == "any" {
				t.Logf("today it %s", got)
			} else if got != h.runtime {
				t.Errorf("the runtime %s, not %s", got, h.runtime)
			}
			if got != "runs" && h.open == nil && h.verify == nil {
				t.Errorf("the runtime %s, and Verify has only warnings", got)
			}
		})
	}
}
