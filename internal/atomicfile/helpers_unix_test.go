//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// write writes a file with that content at once.
func write(t *testing.T, name, content string) {
	t.Helper()
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	if _, err := f.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, name string) fs.FileMode {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Mode()
}

func owner(t *testing.T, name string) (uid, gid uint32) {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid
}
