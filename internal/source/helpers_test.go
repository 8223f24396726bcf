package source

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The helpers of tests in several files.

// emulator names the program that plays the machine which the tests were built for
// (.ci/run says so): it has a /proc of its own.
var emulator = os.Getenv("TENSORFILE_EMULATOR")

// file creates a file of the test with that content.
func file(t testing.TB, data []byte) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// open opens name and closes it at the end of the test.
func open(t testing.TB, name string) *Source {
	t.Helper()
	s, err := Open(name, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// sources returns data as every kind of Source.
func sources(t *testing.T, data []byte) map[string]*Source {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	all := map[string]*Source{"bytes": OfBytes(data)}
	for key, noMap := range map[string]bool{"mapped": false, "unmapped": true} {
		s, err := Open(name, noMap)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = s
	}
	s, err := OfReaderAt(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	all["reader"] = s
	for _, s := range all {
		t.Cleanup(func() { s.Close() })
	}
	return all
}
