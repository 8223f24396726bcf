package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// An extraction that the disk is too small for leaves no file, and lists none.
func TestExtractOnAFullDiskLeavesNoFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make a small disk")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("no small disk: %v", err)
	}
	defer syscall.Unmount(disk, 0)
	var ts []*tensor.Tensor
	for _, name := range []string{"a", "b", "c"} {
		ts = append(ts, tensor.New(name, tensor.Shape{150 << 10}, make([]uint8, 150<<10)))
	}
	in := created(t, t.TempDir(), "m.safetensors", st(safetensorsOptions), ts...)
	for _, flag := range []string{"", "--json"} {
		args := []string{"extract", in, "-o", filepath.Join(disk, "new", "dir")}
		if flag != "" {
			args = append(args, flag)
		}
		var out, errs strings.Builder
		status := run(t.Context(), args, nil, &out, &errs, func(string) string { return "" })
		if status != statusUnreadable || !strings.Contains(errs.String(), "no space left") ||
			strings.Contains(out.String(), "a.npy") {
			t.Errorf("exit status %d\n%s%s", status, &out, &errs)
		}
		if left := names(disk); left != names(t.TempDir()) {
			t.Errorf("%s is left", left)
		}
	}
}

// On a disk that is full, what is replaced stays, whole, and nothing else is left.
func TestFullDiskLeavesWhatWasToBeReplaced(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make a small disk")
	}
	work := t.TempDir()
	models(t, work)
	empty := filepath.Join(work, "empty.safetensors")
	if err := safetensors.WriteFile(t.Context(), empty, tensor.Of(), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		args       func(model, out string) []string
	}{
		{"extract", "t0.npy", func(model, out string) []string {
			return []string{"extract", model + ".safetensors", "-o", out, "--force"}
		}},
		{"split safetensors", "m.safetensors.index.json", func(model, out string) []string {
			return []string{"split", model + ".safetensors", "-o", out, "--max", "200000",
				"--force"}
		}},
		{"split ztensor", "m.zt", func(model, out string) []string {
			return []string{"split", model + ".zt", "-o", out, "--max", "200000", "--force"}
		}},
		{"split ptd", "*.ptd", func(model, out string) []string {
			return []string{"split", model + ".ptd", "-o", out, "--max", "2000000", "--force"}
		}},
		{"merge", "m.safetensors", func(model, out string) []string {
			return []string{"merge", model + ".safetensors", empty,
				filepath.Join(out, "m.safetensors"), "--force"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := t.TempDir()
			if err := syscall.Mount("tmpfs", out, "tmpfs", 0, "size=1100k"); err != nil {
				t.Skipf("no small disk: %v", err)
			}
			defer syscall.Unmount(out, 0)
			do := func(model string) (int, string) {
				var errs strings.Builder
				args := c.args(filepath.Join(work, model, "m"), out)
				return run(t.Context(), args, nil, &strings.Builder{}, &errs,
					func(string) string { return "" }), errs.String()
			}
			if status, errs := do("a"); status != statusOK {
				t.Fatalf("exit status %d\n%s", status, errs)
			}
			// The files that extract replaces one by one fit: it takes more to fill the
			// disk.
			if c.name == "extract" {
				if err := os.WriteFile(filepath.Join(out, "filler"), make([]byte, 280<<10),
					0o666); err != nil {
					t.Fatal(err)
				}
			}
			before := names(out)
			status, errs := do("b")
			if status != statusUnreadable || !strings.Contains(errs, "no space left") ||
				strings.Contains(errs, ".tensorfile-tmp-") {
				t.Errorf("exit status %d\n%s", status, errs)
			}
			files, _ := filepath.Glob(filepath.Join(out, c.file))
			if len(files) == 0 {
				t.Errorf("%s is gone", c.file)
			}
			for _, name := range files {
				if got := value(t, name); got != 1 {
					t.Errorf("%s has the value %d", name, got)
				}
			}
			if after := names(out); after != before {
				t.Errorf("the directory has %s, and had %s", after, before)
			}
		})
	}
}
