package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The helpers of tests in several files.

// content returns n bytes that differ from piece to piece.
func content(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// hasContent fails unless the file of that name holds want.
func hasContent(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d other bytes than the %d wanted", name, len(got), len(want))
	}
}

// onlyFiles fails unless the names are all that is in the directory.
func onlyFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(got, want) {
		t.Fatalf("the directory holds %q, want %q", got, want)
	}
}

// finishSet has a set finished by the next writer, or by Clean.
func finishSet(t *testing.T, dir string, byClean bool) {
	t.Helper()
	if byClean {
		list, err := Clean(t.Context(), dir, &CleanOptions{Remove: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			if l.Err != nil || l.Journal && l.State != Finished &&
				(l.State != Recent || l.Size > 0) {
				t.Errorf("%+v", l)
			}
		}
		return
	}
	s, err := NewSet(filepath.Join(dir, setIndex))
	if err != nil {
		t.Fatal(err)
	}
	s.Abort()
}

var errDisk = errors.New("the disk is on fire")

// Writing the new file of these tests takes every step that there is: reserving at once
// and in steps, writes gathered, direct and at an offset, the truncation of what was
// reserved.
const newSize = 6<<20 + 500_000

func writeNew(f *File, data []byte) error {
	f.Reserve(1 << 20)
	if _, err := f.Write(data[:1000]); err != nil {
		return err
	}
	off := 1000
	for off < 3<<20 {
		n, err := f.WriteAt(data[off:off+150_000], int64(off))
		if err != nil {
			return err
		}
		off += n
	}
	for off < len(data) {
		n, err := f.Write(data[off:min(off+1_500_000, len(data))])
		if err != nil {
			return err
		}
		off += n
	}
	return f.Close()
}

// steps lists what happens when the new file is written over an old one.
func steps(t *testing.T, data []byte, prepare ...func(f *File)) (steps []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := create(name, func(step string) error { steps = append(steps, step); return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range prepare {
		do(f)
	}
	if err := writeNew(f, data); err != nil {
		t.Fatal(err)
	}
	hasContent(t, name, data)
	return steps
}

// temp is the name of a temporary file for a name.
func temp(name string) string { return tempName(name, 1) }

// journalFor puts files, which have their names for content, and the journal of m.zt into
// a new directory.
func journalFor(t *testing.T, text string, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(journalName(dir, setIndex), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

var journalBase = filepath.Base(journalName("", setIndex))

const setIndex = "m.zt"

// oldSet and newSet1 are the pieces of two sets of one directory, which share a name.
var (
	oldSet  = []string{"m-00001.zt", "m-00002.zt", "m-00003.zt"}
	newSet1 = []string{"m-00001.zt", "m-00004.zt"}
)

// writeSet replaces the set of dir by one of that version: each file has the version and
// the index the names too.
func writeSet(dir, version string, names []string, h hook) error {
	s, err := newSet(filepath.Join(dir, setIndex), h)
	if err != nil {
		return err
	}
	defer s.Abort()
	for _, name := range append(slices.Clone(names), setIndex) {
		f, err := s.Create(name)
		if err != nil {
			return err
		}
		content := version
		if name == setIndex {
			content += " " + strings.Join(names, " ")
		}
		if _, err := f.Write([]byte(content)); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	s.Obsolete(oldSet...)
	s.Obsolete("m-00009.zt")
	return s.Commit()
}

// readSet returns the version of the set of dir, "" if there is no index, and fails
// where a piece is of another version.
func readSet(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, setIndex))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(b))
	for _, name := range words[1:] {
		piece, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(piece) != words[0] {
			t.Errorf("%s is %q under an index of version %s, %v", name, piece, words[0], err)
		}
	}
	return words[0]
}

func setSteps(t *testing.T) (steps []string) {
	t.Helper()
	dir := t.TempDir()
	if err := writeSet(dir, "old", oldSet, nil); err != nil {
		t.Fatal(err)
	}
	err := writeSet(dir, "new", newSet1, func(step string) error {
		steps = append(steps,
			step)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := readSet(t, dir); v != "new" {
		t.Fatalf("version %q", v)
	}
	onlyFiles(t, dir, "m-00001.zt", "m-00004.zt", setIndex)
	return steps
}
