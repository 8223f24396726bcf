package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/readtest"
)

// Whatever is done to a file, the commands answer with a status that is documented, and with JSON.
func TestMutants(t *testing.T) {
	names, files := readtest.Files(t, "../../testdata", func(b []byte) bool {
		_, err := tensorfile.Detect(bytes.NewReader(b), int64(len(b)))
		return err == nil
	})
	commands := [][]string{{"ls"}, {"info"}, {"verify"}, {"hash"}, {"du"}, {"detect"}, {"stats"}}
	n := 0
	readtest.Mutants(t, names, files, 3*time.Second, func(i int, b []byte) error {
		n++
		args := append(commands[n%len(commands)], "-")
		asJSON := n/len(commands)%3 > 0
		if asJSON {
			args = append(args, "--json")
		}
		var out bytes.Buffer
		status := run(t.Context(), args, bytes.NewReader(b), &out, io.Discard, os.Getenv)
		if status != statusOK && status != statusFound && status != statusUnreadable && status != statusLimit {
			t.Errorf("%q: exit status %d", args, status)
		}
		if asJSON && !json.Valid(out.Bytes()) {
			t.Errorf("%q: %s", args, out.Bytes())
		}
		if status != statusOK {
			return errors.New("refused")
		}
		return nil
	})
}
