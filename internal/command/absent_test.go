package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A tensor that a file does not have is named, with the status of wrong usage: it is not
// a file that is absent.
func TestAbsentTensorsAreNamed(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for _, file := range []string{"safetensors/rank8.safetensors", "ztensor/crate-1.2.3-dtypes.zt",
		"ztensor/crate-2.1.1-dtypes.zt", "ptd/et-1.5.1-dtypes.ptd", "npy/stored.npz",
		"rten/convert-0.22.0-basic.rten", "pte/export-1.5.1-conv.pte",
		"primitiv/model-nested.primitiv"} {
		name := filepath.Join("../../testdata", file)
		for _, args := range [][]string{{"cat", name, "gone"}, {"cat", name, "gone[0]"},
			{"stats", name, "gone"}, {"edit", name, out, "--drop", "gone"},
			{"edit", name, out, "--rename", "gone=there"}} {
			var stdout, stderr strings.Builder
			status := run(t.Context(), args, nil, &stdout, &stderr, os.Getenv)
			if status != statusUsage || !strings.Contains(stderr.String(), `"gone`) {
				t.Errorf("%q: exit status %d: %s", args, status, &stderr)
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q wrote a file", args)
			}
		}
	}
}

// The library's error for it has its name, and is not taken for an absent file.
func TestErrNoTensorIsNotAnAbsentFile(t *testing.T) {
	var stdout, stderr strings.Builder
	a := newApp(t.Context(), nil, &stdout, &stderr, os.Getenv)
	f, err := tensorfile.Open("../../testdata/safetensors/rank8.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.Lookup("gone")
	a.fail("model.safetensors", err)
	text := stderr.String()
	if !errors.Is(err, tensor.ErrNoTensor) || a.status != statusUnreadable ||
		!strings.Contains(text, `"gone"`) || !strings.Contains(text, "tensorfile ls") {
		t.Errorf("%v: exit status %d: %s", err, a.status, text)
	}
}
