//go:build unix

package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/readtest"
)

// These tests run their own program again, as a process that can be killed. Its task
// is in the environment.
const (
	childTask = "ATOMICFILE_CHILD" // what to do
	childName = "ATOMICFILE_NAME"  // the target
)

// TestChild is not a test of its own, but what a child does.
func TestChild(t *testing.T) {
	task, name := os.Getenv(childTask), os.Getenv(childName)
	switch {
	case task == "": // nobody's child
	case task == "versions": // forever, each of another byte
		for v := 1; ; v++ {
			f, err := Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(version(v)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	case task == "limit":
		limit := syscall.Rlimit{Cur: 3 << 20, Max: 3 << 20}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Skip(err)
		}
		f, err := Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Reserve(2 << 20) // fits
		_, err = f.Write(content(4 << 20))
		if cerr := f.Close(); err == nil || cerr != err {
			t.Errorf("Close after %v: %v", err, cerr)
		}
		fmt.Println("error:", err)
	case strings.HasPrefix(task, "set "):
		if err := writeSet(filepath.Dir(name), "new", newSet1,
			killBefore(t, task[4:])); err != nil {
			t.Fatal(err)
		}
	default: // the number of the step before which to die
		f, err := create(name, killBefore(t, task))
		if err != nil {
			t.Fatal(err)
		}
		if err := writeNew(f, content(newSize)); err != nil {
			t.Fatal(err)
		}
	}
}

// killBefore ends the process before the step of that number.
func killBefore(t *testing.T, number string) hook {
	step, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return func(string) error {
		if step--; step < 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
}

// version is content that shows whether it is complete: its length says which byte it
// consists of.
func version(v int) []byte { return bytes.Repeat([]byte{byte(v)}, 2<<20+v) }

func child(t *testing.T, task, name string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	return readtest.Child(t, "TestChild", childTask+"="+task, childName+"="+name)
}

func TestKilledBeforeEachStepLeavesOldOrNew(t *testing.T) {
	data := content(newSize)
	var olds, news, temps int
	for k, step := range steps(t, data) {
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		c, out := child(t, strconv.Itoa(k), name)
		err := c.Wait()
		if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok ||
			ws.Signal() != syscall.SIGKILL {
			t.Fatalf("before step %d, %s: not killed: %v\n%s", k, step, err, out)
		}
		got, err := os.ReadFile(name)
		switch {
		case err != nil:
			t.Errorf("before step %d, %s: %v", k, step, err)
		case string(got) == "old" && step != "sync directory":
			olds++
		case bytes.Equal(got, data) && step == "sync directory":
			news++
		default:
			t.Errorf("before step %d, %s: the target has %d bytes, neither the old nor the new ones", k, step, len(got))
		}
		temps += readtest.OnlyTemps(t, dir, "f")
	}
	if olds < 20 || news != 1 {
		t.Errorf("old %d times, new %d times", olds, news)
	}
	t.Logf("killed %d times: old %d, new %d, torn 0, %d temporary files left", olds+news, olds,
		news, temps)
}

func TestSetKilledBeforeEachStepIsOldOrNew(t *testing.T) {
	all := setSteps(t)
	var olds, news, journals int
	for k, step := range all {
		dir := t.TempDir()
		if err := writeSet(dir, "old", oldSet, nil); err != nil {
			t.Fatal(err)
		}
		c, out := child(t, "set "+strconv.Itoa(k), filepath.Join(dir, setIndex))
		err := c.Wait()
		if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok ||
			ws.Signal() != syscall.SIGKILL {
			t.Fatalf("before step %d, %s: not killed: %v\n%s", k, step, err, out)
		}
		readSet(t, dir)
		want := "old"
		if Unfinished(filepath.Join(dir, setIndex)) != nil && k > slices.Index(all, "journal") {
			want = "new"
			journals++
		}
		finishSet(t, dir, k%2 == 0)
		switch got := readSet(t, dir); {
		case got != want:
			t.Errorf("before step %d, %s: version %q when finished, want %q", k, step, got, want)
		case got == "old":
			olds++
		default:
			news++
		}
		if _, err := Clean(t.Context(), dir, &CleanOptions{Remove: true, Age: 1}); err != nil {
			t.Error(err)
		}
		if want == "old" {
			onlyFiles(t, dir, "m-00001.zt", "m-00002.zt", "m-00003.zt", setIndex)
		} else {
			onlyFiles(t, dir, "m-00001.zt", "m-00004.zt", setIndex)
		}
	}
	if olds < 10 || news < 8 {
		t.Errorf("old %d times, new %d times", olds, news)
	}
	t.Logf("killed %d times: old %d, new %d, mixed 0, %d journals finished", olds+news, olds,
		news, journals)
}

func TestKilledAtAnyTimeLeavesAWholeFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, version(0), 0o666); err != nil {
		t.Fatal(err)
	}
	versions := 0
	kills := 40
	if n, err := strconv.Atoi(os.Getenv("TENSORFILE_KILLS")); err == nil {
		kills = n
	}
	for range kills {
		c, out := child(t, "versions", name)
		// Starting takes some of it; the rest is somewhere in the writing.
		time.Sleep(15*time.Millisecond + rand.N(40*time.Millisecond))
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Wait()
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		v := len(got) - len(version(0))
		if v < 0 || !bytes.Equal(got, version(v)) {
			t.Fatalf("torn: %d bytes\n%s", len(got), out)
		}
		if v > 0 {
			versions++
		}
	}
	temps := readtest.OnlyTemps(t, dir, "f")
	t.Logf("killed %d times, %d times with a new version in place, torn 0, %d temporary files left", kills, versions, temps)
}

func TestLimitOnTheSizeOfFilesLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	c, out := child(t, "limit", name)
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := syscall.EFBIG.Error(); !strings.Contains(out.String(), "error:") ||
		!strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	hasContent(t, name, []byte("old"))
	onlyFiles(t, dir, "f")
}

// ENOSPC of a real disk.
func TestFullDiskLeavesTheOldFile(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("needs root and Linux to make a small disk")
	}
	dir := t.TempDir()
	if err := mountTmpfs(dir, 512<<10); err != nil {
		t.Skipf("no small disk: %v", err)
	}
	defer unmount(dir)
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{400 << 10, 600 << 10, 3 << 20} {
		for _, reserve := range []bool{false, true} {
			err := func() error {
				f, err := Create(name)
				if err != nil {
					return err
				}
				defer f.Abort()
				if reserve {
					f.Reserve(int64(size))
				}
				data := content(size)
				for len(data) > 0 {
					n, err := f.Write(data[:min(len(data), 10_000)])
					if err != nil {
						return err
					}
					data = data[n:]
				}
				return f.Close()
			}()
			if fits := size < 512<<10; fits != (err == nil) || !fits &&
				!errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%d bytes, reserve %v: %v", size, reserve, err)
			} else if fits {
				hasContent(t, name, content(size))
				if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			hasContent(t, name, []byte("old"))
			onlyFiles(t, dir, "f")
		}
	}
}
