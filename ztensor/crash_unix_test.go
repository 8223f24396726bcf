//go:build unix

package ztensor

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
)

// Failures that take a process of their own: one that is killed, and one that may
// not write more than so many bytes.
const (
	childTask = "ZTENSOR_CHILD"
	childName = "ZTENSOR_NAME"
)

// revision is what a file has that was written as number v: v in all its bytes.
func revision(v int) []*tensor.Tensor {
	var all []*tensor.Tensor
	for i, n := range []int{1, 300_000, 70_000, 0} {
		all = append(all, tensor.New(fmt.Sprint("t", i), tensor.Shape{int64(n)},
			bytes.Repeat([]byte{byte(v)}, n)))
	}
	return all
}

func TestChildWritesUntilItIsKilled(t *testing.T) {
	name := os.Getenv(childName)
	switch os.Getenv(childTask) {
	case "write":
		for v := 1; ; v++ {
			if err := WriteFile(t.Context(), name, tensor.Of(revision(v)...),
				&WriterOptions{Version: "1.0", Digest: CRC32C, Level: v % 2}); err != nil {
				t.Fatal(err)
			}
		}
	case "amend":
		for v := 1; ; v++ {
			for _, ten := range revision(v) {
				if err := replace(name, ten); err != nil {
					t.Fatal(err)
				}
			}
			w, err := Append(name, &WriterOptions{Version: "1.0", Digest: SHA256})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Add(tensor.New("more", tensor.Shape{3}, []uint8{1, 2, 3})),
				w.Close(), remove(name, "more")); err != nil {
				t.Fatal(err)
			}
		}
	case "limit":
		whole := int64(len(write(t, &WriterOptions{Version: "1.0", Digest: CRC32C},
			func(w *Writer) { w.AddAll(t.Context(), tensor.Of(revision(9)...)) })))
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Skip(err)
		}
		refused := 0
		for n := int64(1); n < whole; n += whole/40 + 1 {
			now := limit
			setLimit(&now.Cur, n)
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &now); err != nil {
				t.Skip(err)
			}
			err := WriteFile(t.Context(), name, tensor.Of(revision(9)...),
				&WriterOptions{Version: "1.0", Digest: CRC32C})
			if !errors.Is(err, syscall.EFBIG) {
				t.Errorf("no more than %d bytes: %v", n, err)
			}
			refused++
			if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
				t.Errorf("no more than %d bytes: %d files, %v", n, len(left), err)
			}
		}
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit) // for what go test writes
		fmt.Println("refused:", refused)
	}
}

// setLimit hides that limits are signed on some systems.
func setLimit[T int64 | uint64](limit *T, n int64) { *limit = T(n) }

func startChild(t *testing.T, task, name string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	return readtest.Child(t, "TestChildWritesUntilItIsKilled", childTask+"="+task,
		childName+"="+name)
}

// wantRevision fails unless the file is one of the revisions, or between two where
// mixed, and returns its number.
func wantRevision(t *testing.T, name string, mixed bool) (v int) {
	t.Helper()
	r, err := Open(name, nil)
	if err != nil {
		t.Fatal("torn:", err)
	}
	defer r.Close()
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Fatal("torn:", err)
	}
	v = -1
	for i, want := range revision(0) {
		ten := r.Tensor(want.Name)
		b, err := tensor.Load[uint8](ten)
		if err != nil || !slices.Equal(ten.Shape, want.Shape) {
			t.Fatalf("torn: %s: %v", want.Name, err)
		}
		for _, x := range b {
			if x != b[0] || !mixed && i > 0 && int(x) != v {
				t.Fatalf("torn: %s is of revision %d or %d, the file of %d", ten.Name, b[0], x, v)
			}
		}
		if len(b) > 0 {
			v = int(b[0])
		}
	}
	return v
}

// kill -9 at any time leaves the old file or the new one. TENSORFILE_KILLS
// says how often.
func TestKilledAtAnyTimeLeavesOldOrNew(t *testing.T) {
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("TENSORFILE_KILLS")); err == nil {
		kills = n
	}
	for _, task := range []string{"write", "amend"} {
		dir := t.TempDir()
		name := filepath.Join(dir, "x.zt")
		if err := WriteFile(t.Context(), name, tensor.Of(revision(0)...),
			&WriterOptions{Version: "1.0"}); err != nil {
			t.Fatal(err)
		}
		newer := 0
		for range kills / 2 {
			before := wantRevision(t, name, task == "amend")
			c, _ := startChild(t, task, name)
			time.Sleep(15*time.Millisecond + rand.N(40*time.Millisecond))
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			c.Wait()
			if wantRevision(t, name, task == "amend") != before {
				newer++
			}
		}
		temps := readtest.OnlyTemps(t, dir, "x.zt")
		t.Logf("%s: killed %d times, %d times with a newer file in place, %d temporary files left",
			task, kills/2, newer, temps)
	}
}

// A file that may not grow beyond any of forty sizes (EFBIG, as ENOSPC)
// leaves the old one and nothing else.
func TestLimitOnTheSizeOfFilesLeavesTheOldFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.zt")
	if err := WriteFile(t.Context(), name, tensor.Of(revision(7)...),
		&WriterOptions{Version: "1.0"}); err != nil {
		t.Fatal(err)
	}
	c, out := startChild(t, "limit", name)
	if err := c.Wait(); err != nil || !strings.Contains(out.String(), "refused: ") &&
		!strings.Contains(out.String(), "SKIP") {
		t.Fatalf("%v\n%s", err, out)
	}
	if v := wantRevision(t, name, false); v != 7 {
		t.Errorf("revision %d", v)
	}
}
