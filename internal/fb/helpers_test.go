package fb_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/fb/fbtest"
)

// The helpers of tests in several files.

func verify(buf []byte, r fbtest.Root) error {
	return fb.Verify(buf, r.Schema, r.Table, fb.Limits{})
}

// walkAccepted fails when a buffer that the verifier accepted makes an accessor panic,
// or shows far more than it holds.
func walkAccepted(t testing.TB, buf []byte, r fbtest.Root, what func() string) (accepted bool) {
	if verify(buf, r) != nil {
		return false
	}
	defer func() {
		if e := recover(); e != nil {
			t.Errorf("%s: %s: accepted, and then an accessor panicked: %v\n%x", r.Name, what(), e,
				buf)
		}
	}()
	if n := r.Walk(buf); n > 64*len(buf)+1<<20 {
		t.Errorf("%s: %s: accepted, and then the walk took %d steps for %d bytes", r.Name, what(),
			n, len(buf))
	}
	return true
}

// goldens returns the files in testdata that begin with a FlatBuffer of the root's
// kind, and the models of .rten files.
func goldens(t testing.TB, r fbtest.Root) map[string][]byte {
	out := map[string][]byte{}
	err := filepath.WalkDir("../../testdata", func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "malformed") {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if model := filepath.Ext(name) == ".rten" && r.Identifier == "RTEN"; model &&
			string(b[:4]) == "RTEN" {
			at, n := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
			out[name] = b[at : at+n : at+n]
		} else if model || len(b) >= 8 && string(b[4:8]) == r.Identifier && verify(b, r) == nil {
			out[name] = b
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}
