//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestPermissionsAreKept(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	name := filepath.Join(t.TempDir(), "f")
	write(t, name, "new")
	if got := mode(t, name); got != 0o640 {
		t.Errorf("a new file is %v, want 0666 less the umask", got)
	}
	for _, want := range []fs.FileMode{0o600, 0o664, 0o777, 0o444, 0o400, 0o000} {
		if err := os.Chmod(name, want); err != nil {
			t.Fatal(err)
		}
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		temps, _ := filepath.Glob(filepath.Join(filepath.Dir(name), ".f.tensorfile-tmp-*"))
		if len(temps) != 1 {
			t.Fatalf("%q", temps)
		}
		if got := mode(t, temps[0]); got != want {
			t.Errorf("%v while it is written, want %v", got, want)
		}
		if _, err := f.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := mode(t, name); got != want {
			t.Errorf("%v in the end, want %v", got, want)
		}
	}
}

func TestRootKeepsTheOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	name := filepath.Join(t.TempDir(), "f")
	write(t, name, "old")
	if err := os.Chown(name, 1234, 4321); err != nil {
		t.Skipf("not even root, here: %v", err)
	}
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	write(t, name, "new")
	if uid, gid := owner(t, name); uid != 1234 || gid != 4321 {
		t.Errorf("owner %d:%d", uid, gid)
	}
	if got := mode(t, name); got != 0o640 {
		t.Errorf("mode %v", got)
	}
	hasContent(t, name, []byte("new"))
}

func TestLinksAreFollowed(t *testing.T) {
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	// a directory that is reached by a link, and whose ".." is not the one of the link
	other := t.TempDir()
	for _, d := range []string{"real", "real/deep"} {
		if err := os.Mkdir(filepath.Join(other, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		// build makes links in dir and returns the name to write, and the file that must
		// change.
		build func(dir string) (name, target string)
	}{
		{"a relative link", func(dir string) (string, string) {
			link("target", dir+"/link")
			return dir + "/link", dir + "/target"
		}},
		{"an absolute link", func(dir string) (string, string) {
			link(dir+"/target", dir+"/link")
			return dir + "/link", dir + "/target"
		}},
		{"a chain of links", func(dir string) (string, string) {
			for i, to := range []string{"target", "l0", "./l1", dir + "/l2"} {
				link(to, dir+"/l"+string(rune('0'+i)))
			}
			return dir + "/l3", dir + "/target"
		}},
		{"a link in a directory that is a link", func(dir string) (string, string) {
			link(other+"/real/deep", dir+"/dir")
			os.Remove(other + "/real/deep/link")
			link("../target", other+"/real/deep/link")
			return dir + "/dir/link", other + "/real/target"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, old := range []string{"", "old"} {
				name, target := c.build(t.TempDir())
				if old != "" {
					write(t, target, old)
					if err := os.Chmod(target, 0o604); err != nil { // whatever the umask
						t.Fatal(err)
					}
				}
				write(t, name, "new")
				if mode := func() fs.FileMode {
					fi,
						_ := os.Lstat(name)
					return fi.Mode()
				}(); mode&fs.ModeSymlink == 0 {
					t.Error("the link was replaced")
				}
				hasContent(t, target, []byte("new"))
				if old != "" && mode(t, target) != 0o604 {
					t.Errorf("mode %v", mode(t, target))
				}
				if temps, _ := filepath.Glob(filepath.Join(filepath.Dir(target),
					".*.tensorfile-tmp-*")); len(temps) != 0 {
					t.Errorf("left: %q", temps)
				}
				os.Remove(target)
			}
		})
	}
	dir := t.TempDir()
	link("b", dir+"/a")
	link("a", dir+"/b")
	if _, err := Create(dir + "/a"); err == nil {
		t.Error("links in a circle lead somewhere")
	}
}

func TestPipesAndDevicesAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Skipf("no pipes with names: %v", err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "null")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, filepath.Join(dir, "null"), "/dev/null", "/dev/full",
		dir} {
		if f, err := Create(name); !errors.Is(err, fs.ErrInvalid) {
			if f != nil {
				f.Abort()
			}
			t.Errorf("%s: %v", name, err)
		}
	}
}
