//go:build unix

package readtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Child starts one test of the program that runs, in a process of its own with more in
// its environment: for what is killed, or lives under limits. The caller waits for it.
func Child(t *testing.T, test string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	c.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); errors.Is(err, syscall.ENOEXEC) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("this program cannot start itself (emulated?): %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return c, &out
}

// OnlyTemps fails if the directory holds anything but base and temporary files of it, and
// returns their number.
func OnlyTemps(t *testing.T, dir, base string) (temps int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+base+".tensorfile-tmp-") {
			temps++
		} else if e.Name() != base {
			t.Errorf("%s is left behind", e.Name())
		}
	}
	return temps
}
