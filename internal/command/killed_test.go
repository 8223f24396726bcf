//go:build unix

package command

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// listing describes a directory, so that a change of it can be seen.
func listing(dir string) string {
	entries, _ := os.ReadDir(dir)
	var s strings.Builder
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			fmt.Fprintln(&s, e.Name(), fi.Size() == 0, fi.ModTime())
		}
	}
	return s.String()
}

// killed runs a command and kills it as soon as the directory was seen to change for the
// nth time. It reports whether the command ended before that.
func killed(t *testing.T, n int, dir string, args ...string) (ended bool) {
	t.Helper()
	before := listing(dir)
	c := startChild(t, args...)
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for {
		select {
		case <-done:
			return true
		default:
		}
		if now := listing(dir); now != before {
			before = now
			if n--; n <= 0 {
				c.Process.Kill()
				<-done
				return false
			}
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// Killed at each change of the directory, the commands that replace files leave old
// or new ones, never torn or mixed ones, and the next call, or clean, completes a
// set.
func TestKilledCommandsLeaveOldOrNewFiles(t *testing.T) {
	work := t.TempDir()
	models(t, work)
	for _, c := range []struct {
		name  string
		args  []string // IN stands for the model, OUT for the directory
		files func(dir string) []string
	}{
		{"extract", []string{"extract", "IN.safetensors", "-o", "OUT", "--force"},
			func(dir string) []string {
				names, _ := filepath.Glob(filepath.Join(dir, "*.npy"))
				return names
			}},
		{"split safetensors", []string{"split", "IN.safetensors", "-o", "OUT", "--max", "200000",
			"--force"}, func(dir string) []string {
			return []string{filepath.Join(dir, "m.safetensors.index.json")}
		}},
		{"split ztensor", []string{"split", "IN.zt", "-o", "OUT", "--max", "200000", "--force"},
			func(dir string) []string { return []string{filepath.Join(dir, "m.zt")} }},
		{"split ptd", []string{"split", "IN.ptd", "-o", "OUT", "--max", "200000", "--force"},
			func(dir string) []string {
				names, _ := filepath.Glob(filepath.Join(dir, "*.ptd"))
				return names
			}},
		{"merge", []string{"merge", "IN.safetensors", "EMPTY", "OUT/m.safetensors", "--force"},
			func(dir string) []string {
				return []string{filepath.Join(dir, "m.safetensors")}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			empty := filepath.Join(t.TempDir(), "empty.safetensors")
			if err := safetensors.WriteFile(t.Context(), empty, tensor.Of(), nil); err != nil {
				t.Fatal(err)
			}
			args := func(model string) []string {
				all := slices.Clone(c.args)
				for i := range all {
					all[i] = strings.NewReplacer("IN", filepath.Join(work, model, "m"), "OUT",
						out, "EMPTY", empty).Replace(all[i])
				}
				return all
			}
			if err := startChild(t, args("a")...).Wait(); err != nil {
				t.Fatal(err)
			}
			kills, ends, rounds := 0, 0, 1
			if n, err := strconv.Atoi(os.Getenv("TENSORFILE_KILLS")); err == nil {
				rounds = n / 20
			}
			for n, at := 1, 1; ends < rounds && n < 100*rounds; n++ {
				model := []string{"a", "b"}[n%2]
				if killed(t, at, out, args(model)...) {
					ends++
					at = 1
				} else {
					kills++
					at++
				}
				for _, name := range c.files(out) {
					value(t, name)
				}
				switch n % 3 {
				case 0: // the next call finishes what this one began
				case 1:
					startChild(t, "clean", "--yes", out).Wait()
				case 2:
					if err := startChild(t, args(model)...).Wait(); err != nil {
						t.Errorf("after a kill: %v", err)
					}
					for _, name := range c.files(out) {
						if got, want := value(t, name), byte(model[0]-'a'+1); got != want {
							t.Errorf("%s has the value %d, want %d", name, got, want)
						}
					}
				}
			}
			if kills == 0 {
				t.Error("never killed")
			}
			t.Logf("killed %d times: torn 0, mixed 0", kills)
			left, err := tensorfile.Clean(t.Context(), out,
				&tensorfile.CleanOptions{Remove: true, Age: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range left {
				if l.State != "removed" && l.State != "finished" {
					t.Errorf("%+v", l)
				}
			}
			entries, _ := filepath.Glob(filepath.Join(out, ".*"))
			if len(entries) > 0 {
				t.Errorf("left: %q", entries)
			}
		})
	}
}

// A dtype that the format does not have is damage, since the reference refuses the file,
// but the tensor is listed.
func TestVerifyCallsAnUnknownDTypeDamage(t *testing.T) {
	for _, dtype := range []string{"F128", "f32"} {
		header := fmt.Sprintf(`{"a":{"dtype":%q,"shape":[1],"data_offsets":[0,2]}}`, dtype)
		b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+"12"...)
		name := filepath.Join(t.TempDir(), "x.safetensors")
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		getenv := func(string) string { return "" }
		if status := run(t.Context(), []string{"verify", name}, nil, &out, &errs,
			getenv); status != statusFound {
			t.Errorf("%s: exit status %d\n%s%s", dtype, status, &out, &errs)
		}
		out.Reset()
		if status := run(t.Context(), []string{"ls", name}, nil, &out, &errs,
			getenv); status != statusOK || !strings.Contains(out.String(), dtype) {
			t.Errorf("%s: exit status %d\n%s%s", dtype, status, &out, &errs)
		}
	}
}

// A file that is cut is damage wherever its format still shows, within a header too.
func TestVerifyCallsFilesThatAreCutDamaged(t *testing.T) {
	for _, file := range []string{"safetensors/dtypes.safetensors", "npy/le-f4.npy",
		"npy/stored.npz", "gguf/types.gguf", "torch/values.pt", "torch/script.pt",
		"torch/deflated.pt", "torch/legacy.pt", "ptd/et-1.5.1-dtypes.ptd",
		"pte/export-1.5.1-conv.pte", "rten/convert-0.22.0-basic.rten",
		"ztensor/crate-1.0.0-dtypes.zt", "ztensor/crate-1.2.3-digests.zt",
		"ztensor/crate-2.1.1-dtypes.zt", "primitiv/model-nested.primitiv"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "cut")
		for _, n := range []int{50, 100, len(b) / 4, len(b) / 2, len(b) - 20} {
			if err := os.WriteFile(name, b[:n], 0o666); err != nil {
				t.Fatal(err)
			}
			var out, errs strings.Builder
			if status := run(t.Context(), []string{"verify", name}, nil, &out, &errs,
				func(string) string { return "" }); status != statusFound {
				t.Errorf("%d bytes of %s: exit status %d\n%s%s", n, file, status, &out, &errs)
			}
		}
	}
}
