package command

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A list has the output of its files one after another, however many are worked on at
// once: text in the order of the list, lines of JSON in any.
func TestListsHaveTheOutputOfTheirFiles(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*/*.safetensors", "ztensor/crate-2*", "gguf/*.gguf",
		"malformed/ptd/*", "pte/export*"} {
		names, err := filepath.Glob("../../testdata/" + pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, names[:min(len(names), 12)]...)
	}
	output := func(args ...string) (string, int) {
		var out bytes.Buffer
		status := run(t.Context(), append(args, files...), nil, &out, io.Discard, os.Getenv)
		return out.String(), status
	}
	for _, command := range []string{"info", "ls", "verify", "hash", "detect", "du"} {
		want, single := output(command)
		got, status := output(command, "--jobs", "8")
		if got != want || status != single || len(got) < 1000 {
			t.Errorf("%s: exit status %d, want %d; %d bytes, want %d", command, status, single,
				len(got), len(want))
		}
		want, _ = output(command, "--jsonl")
		got, _ = output(command, "--jsonl", "--jobs", "8")
		if x, y := withoutListFields(t, got), withoutListFields(t, want); !slices.Equal(x, y) {
			t.Errorf("%s --jsonl: %d lines, want %d", command, len(x), len(y))
		}
	}
}

// withoutListFields returns lines in order, without what lines of a list have in
// addition.
func withoutListFields(t *testing.T, text string) (lines []string) {
	t.Helper()
	for line := range bytes.Lines([]byte(text)) {
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"address", "size", "etag", "exit", "seconds", "read_bytes"} {
			delete(object, key)
		}
		b, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	slices.Sort(lines)
	return lines
}

// TestLedgerKeepsFilesOfOthers: a line without an end is dropped only if a process that
// was killed left it.
func TestLedgerKeepsFilesOfOthers(t *testing.T) {
	const whole = `{"file": "a", "job": "verify", "exit": 0}`
	for _, c := range []struct {
		text, after string
		taken       bool
	}{
		{`{"file": "model.bin", "size": 7}`, `{"file": "model.bin", "size": 7}`, false},
		{whole, "", true},
		{whole[:30], "", true},
		{`{"files": ["a"]`, `{"files": ["a"]`, false},
		{whole + "\n" + whole[:14], whole + "\n", true},
	} {
		name := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLedger(name, "verify")
		if (err == nil) != c.taken {
			t.Errorf("%s: %v", c.text, err)
		}
		if err == nil {
			l.close()
		}
		if got, _ := os.ReadFile(name); string(got) != c.after {
			t.Errorf("%s: the file is now %q", c.text, got)
		}
	}
}
