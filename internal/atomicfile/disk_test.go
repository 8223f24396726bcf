package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ENOSPC and EIO at every call.
func TestEveryStepOfADiskCanFail(t *testing.T) {
	data := content(newSize)
	all := steps(t, data)
	for _, want := range []string{"create", "chmod", "reserve", "write", "truncate", "sync",
		"close", "rename", "sync directory"} {
		if !strings.Contains(strings.Join(all, ","), want) {
			t.Errorf("no step %q among %q", want, all)
		}
	}
	for k, step := range all {
		t.Run(fmt.Sprintf("%d %s", k, step), func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "f")
			if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
				t.Fatal(err)
			}
			n := -1
			f, err := create(name, func(string) error {
				if n++; n == k {
					return errDisk
				}
				return nil
			})
			if err == nil {
				err = writeNew(f, data)
			}
			if step == "reserve" { // a hint
				if err != nil {
					t.Fatal(err)
				}
				hasContent(t, name, data)
				onlyFiles(t, dir, "f")
				return
			}
			if !errors.Is(err, errDisk) {
				t.Fatalf("the error was lost: %v", err)
			}
			if f != nil {
				if err := f.Close(); !errors.Is(err, errDisk) {
					t.Errorf("Close: %v", err)
				}
				f.Abort()
			}
			if step == "sync directory" { // too late
				hasContent(t, name, data)
			} else {
				hasContent(t, name, []byte("old"))
			}
			onlyFiles(t, dir, "f")
		})
	}
}

func TestNoSyncWaitsForNoDisk(t *testing.T) {
	got, all := steps(t, content(newSize), (*File).NoSync), steps(t, content(newSize))
	want := slices.DeleteFunc(all, func(step string) bool {
		return strings.HasPrefix(step,
			"sync")
	})
	if !slices.Equal(got, want) || len(want) == len(all) {
		t.Errorf("steps %q, want %q", got, want)
	}
}

func TestErrorsNameTheTarget(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing", "f")
	_, err := Create(name)
	var e *Error
	var pe *fs.PathError
	if !errors.As(err, &e) || e.Name != name || !errors.As(err, &pe) || pe.Path != name {
		t.Errorf("%#v", err)
	}
}

func TestErrorsOfWritingStay(t *testing.T) {
	dir := t.TempDir()
	broken := false
	f, err := create(filepath.Join(dir, "f"), func(string) error {
		if broken {
			return errDisk
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("gathered")); err != nil {
		t.Fatal(err)
	}
	broken = true
	if n, err := f.WriteAt([]byte("x"), 0); n != 0 || !errors.Is(err, errDisk) {
		t.Errorf("WriteAt = %d, %v", n, err)
	}
	broken = false
	if n, err := f.Write([]byte("x")); n != 0 || !errors.Is(err, errDisk) {
		t.Errorf("Write = %d, %v", n, err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, errDisk) {
		t.Errorf("WriteAt: %v", err)
	}
	if err := f.Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close: %v", err)
	}
	onlyFiles(t, dir)
}

func TestAPanicLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Abort()
		f.Write(content(3 << 20))
		panic("in the source of a tensor")
	}()
	hasContent(t, name, []byte("old"))
	onlyFiles(t, dir, "f")
}

func TestTheLastOfManyWritersWins(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	const writers = 8
	var wg sync.WaitGroup
	for i := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 3 {
				f, err := Create(name)
				if err != nil {
					t.Error(err)
					return
				}
				for range 30 {
					f.Write(bytes.Repeat([]byte{byte(i)}, 50_000))
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1_500_000 || !bytes.Equal(got, bytes.Repeat(got[:1], len(got))) ||
		got[0] >= writers {
		t.Errorf("a mixture of %d bytes", len(got))
	}
	onlyFiles(t, dir, "f")
}

func TestTemporaryFilesCanBeRecognised(t *testing.T) {
	for _, base := range []string{"f", "model.zt", strings.Repeat("n", 255),
		strings.Repeat("ü", 127)} {
		dir := t.TempDir()
		f, err := Create(filepath.Join(dir, base))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Abort()
		temps, err := filepath.Glob(filepath.Join(dir, ".*.tensorfile-tmp-*"))
		if err != nil || len(temps) != 1 {
			t.Fatalf("%q: %q, %v", base, temps, err)
		}
		got := filepath.Base(temps[0])
		stem, _, _ := strings.Cut(got[1:], tempMark)
		if !strings.HasPrefix(base, stem) || len(base) < 200 && stem != base ||
			!strings.Contains("."+base, got[:2]) {
			t.Errorf("%q is written to %q", base, got)
		}
		if f.Write([]byte("x")); f.Close() != nil {
			t.Errorf("%q cannot be written", base)
		}
		onlyFiles(t, dir, base)
	}
}

func TestNamesThatCannotBeFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", dir, dir + "/", filepath.Join(dir, "missing") + "/", ".",
		"..", os.DevNull} {
		if f, err := Create(name); err == nil {
			f.Abort()
			t.Errorf("%q can be created", name)
		}
	}
	if _, err := Create(filepath.Join(dir, "missing", "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that does not exist: %v", err)
	}
	onlyFiles(t, dir)
}

func TestRenameIsTriedAgainWhileTheTargetIsInUse(t *testing.T) {
	errUse := errors.New("in use")
	dir := t.TempDir()
	temp, target := filepath.Join(dir, "temp"), filepath.Join(dir, "target")
	for _, failures := range []int{0, 1, 5} {
		if err := os.WriteFile(temp, []byte("new"), 0o666); err != nil {
			t.Fatal(err)
		}
		n := 0
		err := rename(temp, target, func(string) error {
			if n++; n <= failures {
				return errUse
			}
			return nil
		}, func(err error) bool { return err == errUse }, func(time.Duration) {})
		if err != nil || n != failures+1 {
			t.Errorf("after %d failures: %v, tried %d times", failures, err, n)
		}
		onlyFiles(t, dir, "target")
	}
	for _, passing := range []bool{true, false} {
		n, waited := 0, time.Duration(0)
		err := rename(temp, target, func(string) error { n++; return errUse },
			func(error) bool { return passing }, func(d time.Duration) { waited += d })
		if !errors.Is(err, errUse) || passing != (n == tries) ||
			passing != (waited > time.Second) || waited > 3*time.Second {
			t.Errorf("passing %v: %v, tried %d times with pauses of %v", passing, err, n, waited)
		}
	}
}
