//go:build unix

package command

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// A mapped file that is truncated at a random moment while a command works on it is an error of
// the command: the process survives. $TENSORFILE_TRUNCATIONS says how often this is tried.
func TestCommandsOnFilesTruncatedAtAnyTime(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("TENSORFILE_TRUNCATIONS"))
	runs = max(runs, 8)
	dir := t.TempDir()
	do := func(args ...string) int {
		return run(t.Context(), args, strings.NewReader(""), io.Discard, io.Discard, os.Getenv)
	}
	data := make([]float32, 1<<19)
	for i := range data {
		data[i] = float32(i % 1000)
	}
	x := tensor.New("a", tensor.Shape{1 << 9, 1 << 10}, data)
	sound := filepath.Join(dir, "sound.safetensors")
	if err := safetensors.WriteFile(t.Context(), sound, tensor.Of(x), nil); err != nil {
		t.Fatal(err)
	}
	var sources [][]byte
	for _, to := range []string{"safetensors", "ztensor@1.2", "ztensor@2", "ptd", "npz", "npy", "rten", "primitiv"} {
		name := filepath.Join(dir, "source")
		if status := do("convert", sound, name, "--to", to, "--force", "--allow", "all"); status != statusOK {
			t.Fatalf("convert --to %s: exit status %d", to, status)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, b)
	}
	in, out, failed := filepath.Join(dir, "in"), filepath.Join(dir, "out"), 0
	for i := range runs {
		r := rand.New(rand.NewPCG(2, uint64(i)))
		source := sources[r.IntN(len(sources))]
		if err := os.WriteFile(in, source, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(out, 0o700); err != nil {
			t.Fatal(err)
		}
		replacer := strings.NewReplacer("SOUND", sound, "OUT", out, "NAME", "a", "IN", in)
		var args []string
		for _, word := range strings.Fields(mutantCommands[i%len(mutantCommands)]) {
			args = append(args, replacer.Replace(word))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(time.Duration(r.IntN(int(20 * time.Millisecond))))
			if err := os.Truncate(in, r.Int64N(int64(len(source)))); err != nil {
				t.Error(err)
			}
		}()
		var stderr bytes.Buffer
		status := run(t.Context(), args, strings.NewReader(""), io.Discard, &stderr, os.Getenv)
		<-done
		switch status {
		case statusOK, statusFound, statusUsage, statusLimit:
		case statusUnreadable:
			failed++
		default:
			t.Errorf("%q: exit status %d: %s", args, status, stderr.Bytes())
		}
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	if runs >= 100 && failed == 0 {
		t.Error("no command failed: the files were truncated too late")
	}
}
