package atomicfile

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Reserved space that was not used must not stay with the file.
func TestReservedSpaceIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		reserve int64
		size    int
	}{
		{"in steps", 0, 20 << 20},
		{"far too much", 200 << 20, 1 << 20},
		{"too little", 1 << 20, 20 << 20},
		{"exactly", 5 << 20, 5 << 20},
	} {
		name := filepath.Join(t.TempDir(), "f")
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Reserve(c.reserve)
		if _, err := f.Write(content(c.size)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		used := fi.Sys().(*syscall.Stat_t).Blocks * 512
		if fi.Size() != int64(c.size) || used > int64(c.size)+1<<20 {
			t.Errorf("%s: %d bytes take %d", c.name, fi.Size(), used)
		}
	}
}

// Whoever replaces a file of a group that is not theirs must not hand it to their own
// group.
func TestAGroupThatCannotBeKeptLosesItsRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	dir, err := os.MkdirTemp("/tmp", "atomicfile") // others may not pass $TMPDIR
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "f")
	write(t, name, "old")
	if err := os.Chown(name, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o764); err != nil {
		t.Fatal(err)
	}
	// Only this thread becomes somebody else, and it dies with the goroutine.
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := syscall.Setfsgid(4321); err != nil {
			t.Error(err)
			return
		}
		if err := syscall.Setfsuid(1234); err != nil {
			t.Error(err)
			return
		}
		write(t, name, "new")
	}()
	<-done
	hasContent(t, name, []byte("new"))
	if uid, _ := owner(t, name); uid != 1234 {
		t.Skipf("the file belongs to %d: threads cannot become somebody else here", uid)
	}
	if got := mode(t, name); got != 0o744 {
		t.Errorf("mode %v, want 0744", got)
	}
}
