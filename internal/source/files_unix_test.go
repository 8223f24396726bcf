//go:build unix

package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// within fails the test when do has not ended after a while.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan bool)
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("blocks")
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Skipf("no pipes with names: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(fifo, link); err != nil {
		t.Fatal(err)
	}
	names := []string{fifo, link, dir, "/dev/null", "/dev/zero", "/dev/full", "/dev/random"}
	if l, err := net.Listen("unix", filepath.Join(dir, "s")); err == nil {
		defer l.Close()
		names = append(names, filepath.Join(dir, "s"))
	}
	if runtime.GOOS == "linux" && emulator == "" {
		// Regular files of size 0 that have content, and one that only sometimes has.
		names = append(names, "/proc/self/maps", "/proc/self/cmdline", "/proc/cpuinfo",
			"/proc/kmsg")
	}
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			t.Logf("not here: %v", err)
			continue
		}
		for _, noMap := range []bool{false, true} {
			within(t, func() {
				if s, err := Open(name, noMap); err == nil {
					t.Errorf("%s opened, %d bytes", name, s.Size())
					s.Close()
				} else if !errors.Is(err, fs.ErrInvalid) && !strings.HasPrefix(name, "/proc/") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
}

// Between the look at the name and its opening, the file may have become a pipe.
func TestAPipeThatSlippedInIsRefused(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Skipf("no pipes with names: %v", err)
	}
	within(t, func() {
		f, err := os.OpenFile(fifo, os.O_RDONLY|nonblock, 0)
		if err != nil {
			t.Error(err)
			return
		}
		if err := new(Source).ofFile(f, fifo, descriptorPath(f)); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("opened: %v", err)
		}
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("left open: %v", err)
		}
	})
}

func TestOpenFollowsLinks(t *testing.T) {
	name := file(t, []byte("content"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	if b, err := open(t, link).Metadata(0, 7); string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}

// A file of /sys says that it is a page long, and has less; it cannot be mapped.
func TestAFileShorterThanItSaysIsAnError(t *testing.T) {
	const name = "/sys/kernel/mm/transparent_hugepage/enabled"
	fi, err := os.Stat(name)
	if err != nil || fi.Size() < 100 {
		t.Skip("no such file here")
	}
	s := open(t, name)
	if _, err := s.Metadata(0, s.Size()); err == nil {
		t.Error("read more than there is")
	}
}

func TestClosedSourcesLeaveNoFileAndNoMapping(t *testing.T) {
	count := func() (fds, maps int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc here")
		}
		m, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), strings.Count(string(m), t.Name()) // the name of the directory
	}
	name := file(t, make([]byte, 10_000))
	empty := file(t, nil)
	fds, maps := count()
	for i := range 400 {
		s, err := Open(name, i%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if s, err = Open(empty, false); err != nil {
			t.Fatal(err)
		}
		s.Close()
		Open(filepath.Dir(name), false)
		Open("/proc/self/maps", false)
	}
	if f, m := count(); f != fds || m != maps {
		t.Errorf("%d descriptors and %d mappings before, %d and %d after", fds, maps, f, m)
	}
}

// A process that is killed leaves no spooled file behind: its name is gone while it is
// read.
func TestASpooledFileHasNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, remove, err := Spool(strings.NewReader("spooled"))
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
	if b, err := s.Metadata(0, s.Size()); err != nil || string(b) != "spooled" {
		t.Errorf("%q, %v", b, err)
	}
}

// Also one that is killed while it writes the file.
func TestATemporaryFileHasNoName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	f, err := NewTemp()
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A small tensor stays in memory, a larger one does not, and the end of the context
// ends either.
func TestHoldSpoolsLargeTensors(t *testing.T) {
	for _, n := range []int{0, 1, held, held + 1, 3 * held} {
		want := bytes.Repeat([]byte("held"), n/4+1)[:n]
		s, release, err := Hold(t.Context(), bytes.NewReader(want))
		if err != nil {
			t.Fatal(n, err)
		}
		if got, err := s.Metadata(0, s.Size()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: other ones, %v", n, err)
		}
		release()
		ctx, cancel := context.WithCancel(t.Context())
		if _, _, err := Hold(ctx,
			io.MultiReader(bytes.NewReader(want),
				readerFunc(func([]byte) (int, error) {
					cancel()
					return 0, nil
				}))); err != context.Canceled {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
