package source

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestCompanionsStayInTheDirectory(t *testing.T) {
	outside := file(t, []byte("outside"))
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte("inside"),
			0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"sub", "sub/deep"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	write("shard")
	write("sub/deep/shard")
	write("has space, and ümlaut")
	good := []string{"shard", "sub/deep/shard", "./shard", "sub/../shard", "has space, and ümlaut"}
	bad := []string{
		"", "/", outside, "../" + filepath.Base(dir) + "/shard", "sub/../../x", "..", ".", "sub",
		"missing", "sub/missing",
		"shard/", "shard/x", "shard\x00", "sub\\deep\\shard", "..\\x", `C:\x`, `\\server\share\x`,
		"//server/share/x",
	}
	if runtime.GOOS == "windows" {
		bad = append(bad, "NUL", "COM1", "C:shard", "sub/CON", "shard:stream")
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Logf("no links here: %v", err)
			bad = append(bad, name) // it does not exist, then
		}
	}
	link(outside, "link-out")
	link(filepath.Dir(outside), "dir-out")
	link("..", "up")
	link("loop", "loop")
	bad = append(bad, "link-out", "dir-out/f", "up/x", "loop")
	if err := os.Symlink("shard", filepath.Join(dir, "link-in")); err == nil {
		good = append(good, "link-in")
	}

	open := Companions(filepath.Join(dir, "main"), false, true)
	for _, name := range good {
		r, size, err := open(name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		b, err := io.ReadAll(io.NewSectionReader(r, 0, size))
		if err != nil || string(b) != "inside" {
			t.Errorf("%q: %q, %v", name, b, err)
		}
		c, ok := r.(io.Closer)
		if !ok {
			t.Fatalf("%q cannot be closed", name)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := r.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%q after Close: %v", name, err)
		}
	}
	for _, name := range bad {
		r, size, err := open(name)
		if err == nil || size != 0 {
			t.Errorf("%q opened: %d bytes", name, size)
		}
		if r != nil {
			t.Errorf("%q: an error and a reader: %v", name, r)
		}
	}
}

// The cache of Hugging Face's libraries: snapshots/REVISION has links to blobs.
func TestCompanionsThatAreLinksAreFollowedUnlessNoLinks(t *testing.T) {
	cache := t.TempDir()
	snapshot := filepath.Join(cache, "snapshots", "main")
	for _, d := range []string{snapshot, filepath.Join(cache, "blobs")} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(cache, "blobs", "sha"), []byte("inside"),
		0o666); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"shard": "../../blobs/sha", "dir": "../../blobs",
		"gone": "../../blobs/gone", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(snapshot, name)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	for _, noMap := range []bool{false, true} {
		open := Companions(filepath.Join(snapshot, "main"), noMap, false)
		for _, name := range []string{"shard", "dir/sha"} {
			r, size, err := open(name)
			if err != nil || size != 6 || noMap && r.(*Source).Mapped() {
				t.Fatalf("%q: %d bytes, %v", name, size, err)
			}
			r.(io.Closer).Close()
			if _, _, err := Companions(filepath.Join(snapshot, "main"), noMap,
				true)(name); err == nil {
				t.Errorf("%q is a link that leads out", name)
			}
		}
		for _, name := range []string{"../../blobs/sha", filepath.Join(cache, "blobs", "sha"),
			"dir", "gone", "loop", "dir/../../blobs/sha", "..", "", "shard\x00"} {
			if _, _, err := open(name); err == nil {
				t.Errorf("%q opened", name)
			}
		}
	}
}

func TestCompanionsAreFoundInTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("shard", []byte("inside"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, noMap := range []bool{false, true} {
		r, size, err := Companions("main", noMap, true)("shard")
		if err != nil || size != 6 || noMap && r.(*Source).Mapped() {
			t.Fatalf("%d, %v", size, err)
		}
		r.(io.Closer).Close()
	}
}
