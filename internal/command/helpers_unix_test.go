//go:build unix

package command

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

// The helpers of tests in several files that start processes.

// startChild starts the program in a process of its own.
func startChild(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c, _ := readtest.Child(t, "", childArgs+"="+strings.Join(args, "\n"))
	return c
}

// names are the names of the files in a directory, a line each.
func names(dir string) string {
	entries, _ := os.ReadDir(dir)
	var s strings.Builder
	for _, e := range entries {
		s.WriteString(e.Name() + "\n")
	}
	return s.String()
}
