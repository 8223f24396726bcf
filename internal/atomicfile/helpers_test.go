package atomicfile

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The helpers of tests in several files.

// content returns n bytes that differ from piece to piece.
func content(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// hasContent fails unless the file of that name holds want.
func hasContent(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d other bytes than the %d wanted", name, len(got), len(want))
	}
}

// onlyFiles fails unless the names are all that is in the directory.
func onlyFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(got, want) {
		t.Fatalf("the directory holds %q, want %q", got, want)
	}
}

// finishSet has a set finished by the next writer, or by Clean.
func finishSet(t *testing.T, dir string, byClean bool) {
	t.Helper()
	if byClean {
		list, err := Clean(t.Context(), dir, &CleanOptions{Remove: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			if l.Err != nil || l.Journal && l.State != Finished &&
				(l.State != Recent || l.Size > 0) {
				t.Errorf("%+v", l)
			}
		}
		return
	}
	s, err := NewSet(filepath.Join(dir, setIndex))
	if err != nil {
		t.Fatal(err)
	}
	s.Abort()
}
