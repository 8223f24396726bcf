//go:build unix

package command

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A command that a signal ends while it writes leaves no temporary file: the terminal that is
// closed sends SIGHUP.
func TestSignalsLeaveNoTemporaryFile(t *testing.T) {
	const size = 4 << 30 // of a hole, so that the command does not end before the signal
	header := `{"a":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]}}`
	in := filepath.Join(t.TempDir(), "in.safetensors")
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if err := os.WriteFile(in, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(in, int64(len(b))+size); err != nil {
		t.Skipf("no file of 4 GiB here: %v", err)
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		if signal.Ignored(s) {
			continue // as under nohup, and the command leaves that so
		}
		for _, command := range [][]string{
			{"convert", in, "OUT/x.zt"}, {"extract", in, "-o", "OUT"},
			{"split", in, "-o", "OUT", "--max", "1GB"}, {"edit", in, "OUT/x.safetensors", "--set", "a=b"},
		} {
			out := t.TempDir()
			args := slices.Clone(command)
			for i := range args {
				if dir, name := filepath.Split(args[i]); dir == "OUT/" || args[i] == "OUT" {
					args[i] = filepath.Join(out, name)
					if args[i] == filepath.Join(out, "OUT") {
						args[i] = out
					}
				}
			}
			c := startChild(t, args...)
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			for len(names(out)) == 0 && len(ended) == 0 {
				time.Sleep(time.Millisecond)
			}
			c.Process.Signal(s)
			var status *exec.ExitError
			if err := <-ended; !errors.As(err, &status) || status.ExitCode() != 128+int(s) {
				t.Errorf("%v: %s: %v", s, args[0], err)
			}
			if left := names(out); left != "" {
				t.Errorf("%v: %s leaves %q", s, args[0], left)
			}
		}
	}
}
