//go:build unix

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe by its name, as of a shell's <(COMMAND), is refused without waiting for it.
func TestNamedPipesAreRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	var o *Options
	for _, args := range [][]string{{"info", name}, {"hash", name, "--resume", name}} {
		var out, errs bytes.Buffer
		status := o.run(t.Context(), args, strings.NewReader(""), &out, &errs, os.Getenv)
		if status != statusUnreadable || !strings.Contains(errs.String(), "not a regular file") {
			t.Errorf("%q: status %d: %s", args, status, errs.String())
		}
	}
	var errs bytes.Buffer
	o.run(t.Context(), []string{"info", name}, strings.NewReader(""), &errs, &errs, os.Getenv)
	if !strings.Contains(errs.String(), "try: - in its place") {
		t.Errorf("%s", errs.String())
	}
}
