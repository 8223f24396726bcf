package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSetFailsAtEveryStep(t *testing.T) {
	all := setSteps(t)
	for _, want := range []string{"create", "write", "sync", "close", "journal", "remove",
		"rename", "sync directory", "remove journal"} {
		if !slices.Contains(all, want) {
			t.Errorf("no step %q among %q", want, all)
		}
	}
	for k, step := range all {
		dir := t.TempDir()
		if err := writeSet(dir, "old", oldSet, nil); err != nil {
			t.Fatal(err)
		}
		n := -1
		err := writeSet(dir, "new", newSet1, func(string) error {
			if n++; n == k {
				return errDisk
			}
			return nil
		})
		if !errors.Is(err, errDisk) {
			t.Fatalf("step %d, %s: the error was lost: %v", k, step, err)
		}
		var unfinished *UnfinishedError
		pending := Unfinished(filepath.Join(dir, setIndex))
		if got := readSet(t, dir); got != "old" && pending == nil {
			t.Errorf("step %d, %s: version %q, and no journal", k, step, got)
		}
		if pending == nil {
			onlyFiles(t, dir, "m-00001.zt", "m-00002.zt", "m-00003.zt", setIndex)
			continue
		}
		if !errors.As(pending, &unfinished) || unfinished.Busy {
			t.Errorf("step %d, %s: %v", k, step, pending)
		}
		finishSet(t, dir, k%2 == 0)
		if got := readSet(t, dir); got != "new" {
			t.Errorf("step %d, %s: version %q when finished", k, step, got)
		}
		onlyFiles(t, dir, "m-00001.zt", "m-00004.zt", setIndex)
	}
}

func TestSetsOfManyWritersAreNotMixed(t *testing.T) {
	if !canLock {
		t.Skip("no locks here")
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := range 5 {
				if err := writeSet(dir, fmt.Sprintf("%d.%d", i, k), newSet1, nil); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if readSet(t, dir) == "" {
		t.Error("no index")
	}
	onlyFiles(t, dir, "m-00001.zt", "m-00004.zt", setIndex)
}

func TestSetAbortLeavesTheOldFiles(t *testing.T) {
	dir := t.TempDir()
	if err := writeSet(dir, "old", oldSet, nil); err != nil {
		t.Fatal(err)
	}
	s, err := NewSet(filepath.Join(dir, setIndex))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range newSet1 {
		f, err := s.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Write([]byte("new")); i == 0 {
			f.Close()
			if b, err := os.ReadFile(f.Temp()); string(b) != "new" {
				t.Errorf("a complete piece is %q, %v", b, err)
			}
		}
	}
	if err := s.Commit(); err == nil {
		t.Error("a set with a piece that is not complete is committed")
	} else if !strings.Contains(err.Error(), "m-00004.zt") {
		t.Errorf("the message does not name the first such piece: %v", err)
	}
	if readSet(t, dir) != "old" {
		t.Error("the old set is gone")
	}
	onlyFiles(t, dir, "m-00001.zt", "m-00002.zt", "m-00003.zt", setIndex)
}

func TestSetRefusesUnsafeNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", dir + "/", dir + "/.."} {
		if s, err := NewSet(name); err == nil {
			t.Errorf("a set %q: %v", name, s)
		}
	}
	s, err := NewSet(filepath.Join(dir, setIndex))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Abort()
	for _, name := range []string{"", ".", "..", "a/b", "../x", "/x", temp("m"), "x",
		"mydata.db", "m-1.zt", "m-00001-of-00002.zt"} {
		if _, err := s.Create(name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("piece %q: %v", name, err)
		}
	}
	if _, err := s.Create("m-00001.zt"); err != nil {
		t.Error(err)
	}
	if _, err := s.Create("m-00001.zt"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a piece twice: %v", err)
	}
}

func TestCleanTellsStaleFilesFromOthers(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	mine := map[string]string{}
	for name, state := range map[string]string{
		tempName("f", 1): Stale, tempName("f", math.MaxUint64): Stale, tempName("f", 2): Recent,
		".g" + journalSuffix: "", ".f" + journalSuffix: "", "f": "", ".f.tmp-1": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old file"), 0o666); err != nil {
			t.Fatal(err)
		}
		if state != Recent {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		if state != "" {
			mine[name] = state
		}
	}
	f, err := Create(filepath.Join(dir, "written"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	if err := os.Chtimes(f.Temp(), old, old); err != nil {
		t.Fatal(err)
	}
	mine[filepath.Base(f.Temp())] = Held
	if !canLock {
		f.Abort()
		delete(mine, filepath.Base(f.Temp()))
	}
	if err := os.Mkdir(filepath.Join(dir, temp("d")), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", filepath.Join(dir, temp("l"))); err != nil {
		t.Log(err)
	}
	for _, remove := range []bool{false, true} {
		list, err := Clean(t.Context(), dir, &CleanOptions{Remove: remove})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, l := range list {
			if l.Err != nil || l.Journal || l.Size != 8 && l.State != Held {
				t.Errorf("%+v", l)
			}
			got[filepath.Base(l.Path)] = l.State
		}
		for name, want := range mine {
			if remove && want == Stale {
				want = Removed
			}
			_, err := os.Lstat(filepath.Join(dir, name))
			if got[name] != want || errors.Is(err, fs.ErrNotExist) != (want == Removed) {
				t.Errorf("remove %v: %s is %q, want %q, %v", remove, name, got[name], want, err)
			}
		}
		if len(got) != len(mine) {
			t.Errorf("remove %v: %v", remove, got)
		}
	}
	if _, err := Clean(t.Context(), filepath.Join(dir, "missing"), nil); !errors.Is(err,
		fs.ErrNotExist) {
		t.Error(err)
	}
}
