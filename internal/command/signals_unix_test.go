//go:build unix

package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stalledFile serves a .safetensors of 1 GiB, of which no more than the header ever
// comes.
func stalledFile(t *testing.T) (address string) {
	t.Helper()
	const size = 1 << 30
	header := fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%[1]d]}}`, size)
	start := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	start = append(start, make([]byte, 1<<16)...)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var first, last int
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last)
		if last >= len(start) {
			<-r.Context().Done()
			return
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last,
			size+len(header)+8))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(start[first : last+1])
	}))
	t.Cleanup(s.Close)
	return s.URL + "/in.safetensors"
}

// A command that a signal ends while it writes leaves no temporary file: the terminal
// that is closed sends SIGHUP.
func TestSignalsLeaveNoTemporaryFile(t *testing.T) {
	in := stalledFile(t)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		if signal.Ignored(s) {
			continue // as under nohup, and the command leaves that so
		}
		for _, command := range [][]string{
			{"convert", in, "OUT/x.zt"}, {"extract", in, "-o", "OUT"},
			{"split", in, "-o", "OUT", "--max", "1GB"},
			{"edit", in, "OUT/x.safetensors", "--set", "a=b"},
			{"cat", in, "a", "-o", "OUT/x.npy", "--npy"},
		} {
			out := t.TempDir()
			args := slices.Clone(command)
			for i := range args {
				args[i] = filepath.FromSlash(strings.Replace(args[i], "OUT", out, 1))
			}
			if status := endBy(t, s, out, args); status != 128+int(s) {
				t.Errorf("%v: %s: status %d", s, args[0], status)
			}
			if left := names(out); left != "" {
				t.Errorf("%v: %s leaves %q", s, args[0], left)
			}
		}
	}
}

// A list of files that a signal ends has the status of the signal.
func TestSignalsEndLists(t *testing.T) {
	in := stalledFile(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		out := t.TempDir()
		ledger := filepath.Join(out, "ledger")
		status := endBy(t, s, out, []string{"hash", "--resume", ledger, in})
		if status != 128+int(s) {
			t.Errorf("%v: status %d", s, status)
		}
	}
}

// endBy runs the command until there is a file in a directory, sends it a signal, and
// returns its exit status.
func endBy(t *testing.T, s syscall.Signal, dir string, args []string) int {
	t.Helper()
	c := startChild(t, args...)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for len(names(dir)) == 0 && len(ended) == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Process.Signal(s)
	var status *exec.ExitError
	if err := <-ended; !errors.As(err, &status) {
		return 0
	}
	return status.ExitCode()
}
