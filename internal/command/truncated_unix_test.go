//go:build unix

package command

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A mapped file that is truncated at a random moment while a command works on it is
// an error of the command: the process survives. $TENSORFILE_TRUNCATIONS says how
// often this is tried.
func TestCommandsSurviveFilesTruncatedAtAnyTime(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("TENSORFILE_TRUNCATIONS"))
	runs = max(runs, 8)
	small, large, dir, failed := allSeeds(t), largeSeeds(t), t.TempDir(), 0
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for i := range runs {
		r := rand.New(rand.NewPCG(2, uint64(i)))
		seeds := [][]*seed{small, large}[r.IntN(2)]
		s := seeds[r.IntN(len(seeds))]
		s.write(t, in, s.data)
		if err := os.MkdirAll(out, 0o700); err != nil {
			t.Fatal(err)
		}
		args := s.commandLine(t, mutantCommands[i%len(mutantCommands)], in, out)
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(10 * time.Microsecond << r.IntN(12)) // what is small is soon done
			err := os.Truncate(filepath.Join(in, s.file), r.Int64N(1+int64(len(s.data))))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // clean may have renamed it
				t.Error(err)
			}
		}()
		var stderr bytes.Buffer
		status := run(t.Context(), args, bytes.NewReader(s.data), io.Discard, &stderr, os.Getenv)
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
