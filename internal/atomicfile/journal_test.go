package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/tensor"
)

// journalText is a journal of m.zt with these lines.
func journalText(lines ...string) string {
	return journalHead + "index \"m.zt\"\n" + strings.Join(lines, "\n") + "\nend\n"
}

func renameLine(from, to string) string {
	return fmt.Sprintf("rename %q %q %d", from, to, len(from))
}

func removeLine(name string) string { return fmt.Sprintf("remove %q", name) }

// state describes the files of a directory and their content.
func state(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(filepath.Join(dir, e.Name()))
			fmt.Fprintf(&s, "%s -> %s, %v\n", e.Name(), to, err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		fmt.Fprintf(&s, "%s: %q, %v\n", e.Name(), b, err)
	}
	return s.String()
}

// leftAlone fails if a writer of the set or of the single file m.zt, or Clean, changes
// anything, except that a writer writes its own files.
func leftAlone(t *testing.T, what, dir string) {
	t.Helper()
	before := state(t, dir)
	old := time.Now().Add(-48 * time.Hour)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() {
			os.Chtimes(filepath.Join(dir, e.Name()), old, old)
		}
	}
	if _, err := Clean(t.Context(), dir, &CleanOptions{Remove: true, Age: 1}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if after := state(t, dir); after != before {
		t.Errorf("%s: Clean changed\n%sto\n%s", what, before, after)
	}
	if s, err := NewSet(filepath.Join(dir, setIndex)); err == nil {
		s.Abort()
	}
	if after := state(t, dir); after != before {
		t.Errorf("%s: a writer of the set changed\n%sto\n%s", what, before, after)
	}
	name := filepath.Join(dir, setIndex)
	if had, err := os.ReadFile(name); err == nil {
		err := Write(name, func(w io.Writer) error { _, err := w.Write(had); return err })
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
		if after := state(t, dir); after != before {
			t.Errorf("%s: a writer of the file changed\n%sto\n%s", what, before, after)
		}
	}
}

// A journal may be of anybody: what it does beyond the files of its set is not done.
func TestJournalsAreUntrusted(t *testing.T) {
	const shard = "m-00001.zt"
	good := renameLine(temp(setIndex), setIndex)
	if _, err := parseJournal("", []byte(journalText(renameLine(temp(shard), shard), good,
		removeLine("m-00002.zt")))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"no renames":             journalHead + "index \"m.zt\"\nend\n",
		"a path to rename":       journalText(renameLine("../"+temp(shard), shard), good),
		"a path to rename to":    journalText(renameLine(temp(shard), "../"+shard), good),
		"an absolute path":       journalText(renameLine("/"+temp(shard), "/"+shard), good),
		"no temporary file":      journalText(renameLine("secret", shard), good),
		"another temporary file": journalText(renameLine(temp("m-00002.zt"), shard), good),
		"another file to write":  journalText(renameLine(temp("x"), "x"), good),
		"a file with a similar name to write": journalText(
			renameLine(temp("m1-00001.zt"), "m1-00001.zt"), good),
		"over a temporary file": journalText(
			renameLine(temp(temp("y")), temp("y")), good),
		"over a journal": journalText(renameLine(temp(".m-00001.zt"+journalSuffix),
			".m-00001.zt"+journalSuffix), good),
		"a temporary file of old": journalText("rename \".m.zt.tmp-1\" \"m.zt\" 10"),
		"twice to one name":       journalText(good, good),
		"the index first":         journalText(good, renameLine(temp(shard), shard)),
		"a negative size": journalText(fmt.Sprintf("rename %q \"m.zt\" -8",
			temp(setIndex))),
		"a size of 20 digits": journalText(fmt.Sprintf("rename %q \"m.zt\" 99999999999999999999",
			temp(setIndex))),
		"a path to remove":            journalText(good, removeLine("m.zt/../../x")),
		"another file to remove":      journalText(good, removeLine("x")),
		"a longer name to remove":     journalText(good, removeLine("model-00001.zt")),
		"another format to remove":    journalText(good, removeLine("m-00001.safetensors")),
		"a short number to remove":    journalText(good, removeLine("m-1.zt")),
		"a number and more to remove": journalText(good, removeLine("m-00001.zt.bak")),
		"a temporary file to remove":  journalText(good, removeLine(temp(shard))),
		"the directory to remove":     journalText(good, removeLine("")),
		"what it writes to remove":    journalText(good, removeLine(setIndex)),
		"a removal before a rename":   journalText(removeLine(shard), good),
		"an unknown verb":             journalText(good, "link \"m.zt\""),
		"a string not ended":          journalText(good, "remove \"m-00002.zt"),
		"an empty line":               journalText(good, ""),
		"more after the end":          journalText(good) + "end\n",
		"zeros after the end":         journalText(good) + "\x00\x00",
		"carriage returns":            strings.ReplaceAll(journalText(good), "\n", "\r\n"),
		"a path as index":             strings.Replace(journalText(good), "m.zt", "../m.zt", 1),
		"another index":               strings.ReplaceAll(journalText(good), "m.zt", "n.zt"),
		"no index":                    journalHead + good + "\nend\n",
		"a hidden index": strings.Replace(journalText(good), "\"m.zt\"",
			strconv.Quote(temp("m.zt")), 1),
		"another file":    "old file",
		"another version": strings.Replace(journalText(good), "journal 1", "journal 2", 1),
		"a later text":    journalHead + "index \"m.zt\"\nDear reader,",
		"another text":    "tensorfile journal of 2025\n",
	} {
		t.Run(name, func(t *testing.T) {
			files := []string{temp(setIndex), temp(shard), temp("x"), temp("m1-00001.zt"),
				temp("y"), temp(temp("y")), temp("n.zt"), ".m.zt.tmp-1", "secret", "x",
				"m1-00001.zt", setIndex, "m-00002.zt", "model-00001.zt", "m-00001.safetensors",
				"m-1.zt", "m-00001.zt.bak"}
			dir := journalFor(t, text, files...)
			if err := finishPending(filepath.Join(dir, setIndex), true); err == nil {
				t.Error("a set begins")
			}
			for _, f := range files { // which Clean removes, if no journal may name them
				if _, ok := tempOf(f); ok {
					os.Chtimes(filepath.Join(dir, f), time.Now(), time.Now().Add(100*time.Hour))
				}
			}
			onlyFiles(t, dir, append(files, journalBase)...)
			leftAlone(t, name, journalFor(t, text, slices.DeleteFunc(files, func(f string) bool {
				_, ok := tempOf(f)
				return ok
			})...))
		})
	}
}

// A journal that its writer did not complete, as it is when the writer is killed, or
// followed by zeros, as when power is lost. The next writer and Clean remove it, Clean if
// it is old and the set is there; nothing else happens.
func TestIncompleteJournalsAreIgnoredAndRemoved(t *testing.T) {
	whole := journalText(renameLine(temp("m-00001.zt"), "m-00001.zt"),
		renameLine(temp(setIndex), setIndex), removeLine("m-00002.zt"), removeLine("m-00003.zt"))
	files := []string{temp("m-00001.zt"), temp(setIndex), setIndex, "m-00002.zt"}
	for n := range len(whole) {
		if testing.Short() && n%13 > 0 {
			continue
		}
		for _, zeros := range []int{0, 1, 20, 4096} {
			text := whole[:n] + strings.Repeat("\x00", zeros)
			what := fmt.Sprintf("%d bytes and %d zeros", n, zeros)
			dir := journalFor(t, text, files...)
			name := filepath.Join(dir, setIndex)
			if err := Unfinished(name); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := UnfinishedFS(os.DirFS(dir), setIndex); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			before := state(t, dir)
			list, err := Clean(t.Context(), dir, &CleanOptions{Remove: true})
			if err != nil || len(list) != 3 || !list[0].Journal || list[0].State != Recent ||
				state(t, dir) != before {
				t.Fatalf("%s: recent: %+v, %v", what, list, err)
			}
			if err := finishPending(name, false); err != nil || state(t, dir) != before {
				t.Fatalf("%s: a single file: %v", what, err)
			}
			if n%2 == 0 {
				if err := finishPending(name, true); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				onlyFiles(t, dir, files...)
				continue
			}
			old := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(journalName(dir, setIndex), old, old); err != nil {
				t.Fatal(err)
			}
			list, err = Clean(t.Context(), dir, nil)
			if err != nil || list[0].State != Stale || state(t, dir) != before {
				t.Fatalf("%s: dry: %+v, %v", what, list, err)
			}
			list, err = Clean(t.Context(), dir, &CleanOptions{Remove: true})
			if err != nil || list[0].State != Removed || list[0].Err != nil {
				t.Fatalf("%s: %+v, %v", what, list, err)
			}
			onlyFiles(t, dir, files...)
			hasContent(t, name, []byte(setIndex))

			leftAlone(t, what+", no set", withoutSet(t, text))
		}
	}
	dir := journalFor(t, whole, files...)
	var unfinished *UnfinishedError
	err := Unfinished(filepath.Join(dir, setIndex))
	if !errors.As(err, &unfinished) || !errors.Is(err, tensor.ErrUnfinished) {
		t.Error(err)
	}
	list, err := Clean(t.Context(), dir, nil)
	if err != nil || len(list) != 3 || list[0].State != Stale ||
		!slices.Equal(list[0].Writes, []string{"m-00001.zt", setIndex}) ||
		!slices.Equal(list[0].Removes, []string{"m-00002.zt"}) {
		t.Errorf("%+v, %v", list, err)
	}
	if err := finishPending(filepath.Join(dir, setIndex), false); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, setIndex, "m-00001.zt")
	hasContent(t, filepath.Join(dir, setIndex), []byte(temp(setIndex)))
}

// withoutSet makes a directory in which a journal is next to files of other sets.
func withoutSet(t *testing.T, journal string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{".notes.zt" + journalSuffix: journal,
		"notes.txt": "n", "n-00001.zt": "n", "notes": "n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Hidden files of other programs that look like ours.
func TestOtherHiddenFilesAreLeftAlone(t *testing.T) {
	whole := journalText(renameLine(".m.zt.tmp-1", setIndex), removeLine("m-00002.zt"))
	for _, text := range []string{"", strings.Repeat("\x00", 20), strings.Repeat("\x00", 4096),
		journalHead, whole, "SQLite journal"} {
		dir := t.TempDir()
		for _, name := range []string{".m.zt.journal", ".out.zt.journal", ".journal", ".x.journal",
			"m.zt.journal", ".vimrc.tmp-2025", ".m.zt.tmp-1", ".m.zt.tmp-0000000000001",
			".m.tmp-1", ".cache.tmp-1700000000000", ".m.zt.tensorfile-tmp-1", "m-00002.zt",
			".m.zt.tensorfile-tmp-", ".m.zt.tensorfile-tmp-00000000000001",
			".m.zt.tensorfile-tmp-000000000000A", ".m.zt.tensorfile-tmp-zzzzzzzzzzzzz",
			".m.zt.tensorfile-tmp-+000000000001", ".m.zt.tensorfile-tmp-0000000000_01",
			".tensorfile-tmp-0000000000001", "..tensorfile-tmp-000000000001",
			"m.zt.tensorfile-tmp-0000000000001", ".m.zt.tensorfile-tmp-0000000000001.bak",
			".tensorfile-journal", "m.zt.tensorfile-journal", ".m.zt.tensorfile-journal2",
			"..tensorfile-journal", setIndex, "mydata.db", "model.safetensors"} {
			if name == "..tensorfile-journal" && text == whole {
				continue // an invalid journal, which is listed
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		leftAlone(t, fmt.Sprintf("%.30q", text), dir)
		list, err := Clean(t.Context(), dir, nil)
		if err != nil || len(list) > 0 {
			t.Errorf("%.30q: %+v, %v", text, list, err)
		}
	}
}

// A journal, or a piece, that is a link or a directory is not one.
func TestLinksAreNoJournals(t *testing.T) {
	whole := journalText(renameLine(temp("m-00001.zt"), "m-00001.zt"),
		renameLine(temp(setIndex), setIndex), removeLine("m-00002.zt"))
	for _, text := range []string{"", journalHead, whole} {
		dir := journalFor(t, text, setIndex, "m-00002.zt")
		journal := journalName(dir, setIndex)
		if err := os.Rename(journal, filepath.Join(dir, "target")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("target", journal); err != nil {
			t.Skip(err)
		}
		leftAlone(t, "a link", dir)
		if err := Unfinished(filepath.Join(dir, setIndex)); err != nil {
			t.Error(err)
		}
	}
	dir := journalFor(t, "", setIndex, "m-00002.zt")
	if err := os.Remove(journalName(dir, setIndex)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(journalName(dir, setIndex), 0o777); err != nil {
		t.Fatal(err)
	}
	leftAlone(t, "a directory", dir)

	// The piece is a link to a file of the right size: the set has lost it.
	dir = journalFor(t, whole, "target", setIndex, "m-00002.zt")
	secret := temp("m-00001.zt")
	if err := os.WriteFile(filepath.Join(dir, "target"), []byte(secret), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", filepath.Join(dir, secret)); err != nil {
		t.Skip(err)
	}
	list, err := Clean(t.Context(), dir, &CleanOptions{Remove: true})
	if err != nil || len(list) != 1 || !errors.Is(list[0].Err, errLost) {
		t.Errorf("%+v, %v", list, err)
	}
	onlyFiles(t, dir, secret, "target", setIndex, "m-00002.zt")
	hasContent(t, filepath.Join(dir, "target"), []byte(secret))
}

// A set that lost a piece cannot be completed: whoever replaces it starts anew.
func TestSetsThatLostAPieceAreNotCompleted(t *testing.T) {
	text := journalText(renameLine(temp("m-00001.zt"), "m-00001.zt"),
		renameLine(temp(setIndex), setIndex), removeLine("m-00002.zt"))
	dir := journalFor(t, text, temp(setIndex), "other", "m-00002.zt")
	list, err := Clean(t.Context(), dir, nil)
	if err != nil || len(list) != 2 || list[0].State != Stale || len(list[0].Writes) > 0 ||
		!slices.Equal(list[0].Removes, []string{temp(setIndex)}) {
		t.Errorf("%+v, %v", list, err)
	}
	list, err = Clean(t.Context(), dir, &CleanOptions{Remove: true})
	if err != nil || len(list) != 1 || !errors.Is(list[0].Err, errLost) {
		t.Errorf("%+v, %v", list, err)
	}
	onlyFiles(t, dir, "other", "m-00002.zt")
	dir = journalFor(t, text, temp(setIndex), "other", "m-00002.zt")
	if err := finishPending(filepath.Join(dir, setIndex), true); err != nil {
		t.Error(err)
	}
	onlyFiles(t, dir, "other", "m-00002.zt")
}

func TestASingleFileDoesNotPrecedeAJournal(t *testing.T) {
	dir := journalFor(t, journalText(renameLine(temp(setIndex), setIndex)), temp(setIndex))
	name := filepath.Join(dir, setIndex)
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("newest"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	finishSet(t, dir, true)
	hasContent(t, name, []byte("newest"))
	onlyFiles(t, dir, setIndex)
}

// Which files a set may have, and which of them it may remove.
func TestInSetAcceptsOnlyNamesOfShards(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		index, name     string
		writes, removes bool
	}{
		{"m.safetensors.index.json", "m.safetensors.index.json", true, true},
		{"m.safetensors.index.json", "m.safetensors", true, true},
		{"m.safetensors.index.json", "m", true, true},
		{"m.safetensors.index.json", "m-00001-of-00002.safetensors", true, true},
		{"m.safetensors.index.json", "m-123456-of-123456.safetensors", true, true},
		{"m.safetensors.index.json", "m-00001.safetensors", false, false},
		{"m.safetensors.index.json", "m-00001-of-00002.bin", false, false},
		{"m.safetensors.index.json", "model-00001-of-00002.safetensors", false, false},
		{"m.safetensors.index.json", "m-x-00001-of-00002.safetensors", false, false},
		{"m.safetensors.index.json", "m-0001-of-00002.safetensors", false, false},
		{"m.safetensors.index.json", "m-00001-of-0000x.safetensors", false, false},
		{"m.safetensors.index.json", "mydata.db", false, false},
		{"m.safetensors.index.json", "m.db", false, false},
		{"m.safetensors.index.json", "", false, false},
		{"a.b.safetensors.index.json", "a.b-00001-of-00002.safetensors", true, true},
		{"a.b.safetensors.index.json", "a-00001-of-00002.safetensors", false, false},
		{"x-00001-of-00002.safetensors.index.json",
			"x-00001-of-00002-00001-of-00003.safetensors", true, true},
		{"x-00001-of-00002.safetensors.index.json", "x-00002-of-00002.safetensors", false, false},
		{".safetensors.index.json", "-00001-of-00002.safetensors", true, true},
		{"m.zt", "m.zt", true, false},
		{"m.zt", "m-00001.zt", true, true},
		{"m.zt", "m-00001-of-00002.zt", false, false},
		{"m.zt", "m", false, false},
		{"m.ztensor", "m-00001.zt", true, true},
		{"m", "m-00001.zt", true, true},
		{"m", "m-00001-of-00002.npz", true, false},
		{"m", "m-00001-of-00002.safetensors", true, false},
		{"m", "model.safetensors", false, false},
		{"m", "mydata.db", false, false},
		{"m", "m_" + hash + ".ptd", true, false},
		{"m", "m_" + hash[1:] + ".ptd", false, false},
		{"m", "m_" + hash + ".pte", false, false},
		{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", true, false},
		{"m-00001-of-00002.gguf", "m-00002-of-00003.gguf", false, false},
		{"m-00001-of-00002.gguf", "n-00002-of-00002.gguf", false, false},
		{"m.pte", "data.ptd", true, false},
		{"m.bpte", "data.ptd", true, false},
		{"m.pte", "n.pte", false, false},
		{"", "", true, false},
	} {
		if got := InSet(c.index, c.name); got != c.writes {
			t.Errorf("a set of %s may have %s: %v", c.index, c.name, got)
		}
		if got := isReplaced(c.index, c.name); got != c.removes {
			t.Errorf("a set of %s may remove %s: %v", c.index, c.name, got)
		}
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(journalText(renameLine(temp("m-00001.zt"), "m-00001.zt"),
		renameLine(temp(setIndex), setIndex), removeLine("m-00002.zt"))))
	f.Add([]byte(strings.ReplaceAll(journalText(renameLine(temp("m.safetensors"), "m.safetensors"),
		removeLine("m.safetensors.index.json")), `"m.zt"`, `"m.safetensors.index.json"`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := parseJournal("dir", b)
		if err != nil {
			return
		}
		text := j.marshal()
		again, err := parseJournal("dir", text)
		if err != nil || !slices.Equal(j.renames, again.renames) ||
			!slices.Equal(j.remove, again.remove) {
			t.Errorf("%v, %v, %v", j, again, err)
		}
		for n := range text {
			if _, err := parseJournal("dir", text[:n]); err != errIncomplete {
				t.Fatalf("%d bytes of %q: %v", n, text, err)
			}
		}
		for _, r := range j.renames {
			if strings.ContainsAny(r.from+r.to, "/\x00") || r.to == ".." ||
				!InSet(j.index, r.to) || !isTemp(r.from, r.to) {
				t.Errorf("%+v", r)
			}
		}
		for _, name := range j.remove {
			if !isReplaced(j.index, name) || strings.ContainsAny(name, "/\x00") {
				t.Errorf("removes %q", name)
			}
		}
	})
}
