package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// An interrupted run exits with 130, whatever it was doing, and leaves nothing.
func TestInterruptedCommandsExitWith130(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	const file = "../../testdata/ztensor/crate-1.2.3-digests.zt"
	for _, args := range [][]string{
		{"ls", file}, {"hash", file}, {"hash", "--json", file}, {"verify", file}, {"stats",
			file}, {"diff", file, file}, {"cat", file, "int64 crc32c"},
		{"convert", file, dir + "/out.ptd"}, {"extract", file, "-o", dir}, {"edit", file, dir +
			"/e.zt", "--set", "a=b"}, {"ls", "-"}, {"ls", "-r", "../../testdata"},
	} {
		var out bytes.Buffer
		if s := run(ctx, args, strings.NewReader("x"), &out, &out,
			os.Getenv); s != statusInterrupted {
			t.Errorf("%q: exit status %d\n%s", args, s, out.String())
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Standard input that waits for more is given up at once, and the message says why.
func TestInterruptEndsAWaitForStandardInput(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		in, w := io.Pipe()
		go func() {
			w.Write([]byte("x"))
			cancel()
		}()
		var out bytes.Buffer
		if s := run(ctx, []string{"ls", "-"}, in, &out, &out, os.Getenv); s != statusInterrupted ||
			!strings.Contains(out.String(), "interrupted") {
			t.Errorf("exit status %d\n%s", s, out.String())
		}
		w.Close()
	}
}

func TestWorseStatusWins(t *testing.T) {
	for _, c := range [][3]int{{0, 1, 1}, {1, 3, 3}, {3, 4, 4}, {4, 130, 130}, {130, 3, 130},
		{3, 1, 3}, {4, 1, 4}} {
		if got := worse(c[0], c[1]); got != c[2] {
			t.Errorf("%d and %d: %d", c[0], c[1], got)
		}
	}
}

// Output that cannot be written is no success.
func TestStandardOutputThatFailsIsNoSuccess(t *testing.T) {
	var stderr bytes.Buffer
	if s := run(t.Context(), []string{"ls", "../../testdata/ztensor/crate-1.2.3-digests.zt"}, nil,
		failingWriter{}, &stderr, os.Getenv); s == 0 {
		t.Error("exit status 0")
	}
	if !strings.Contains(stderr.String(), "no space") {
		t.Error(stderr.String())
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }
