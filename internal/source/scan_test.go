package source

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestScanHandsOutWhatIsInMemory(t *testing.T) {
	const data = "0123456789abcdef"
	for kind, s := range sources(t, []byte(data)) {
		got := ""
		wanted := errors.New("the caller's own")
		ok, err := s.Scan(func(all []byte) error {
			got = string(all)
			if cap(all) != len(all) {
				t.Errorf("%s: room after the end", kind)
			}
			return wanted
		})
		if ok != s.Mapped() {
			t.Errorf("%s: Scan returns %v", kind, ok)
		}
		if ok && (got != data || err != wanted) || !ok && (got != "" || err != nil) {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
		s.Close()
		if ok {
			if _, err := s.Scan(func([]byte) error { return nil }); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s: after Close: %v", kind, err)
			}
		}
	}
}

func TestScanOfAFileThatIsCutOffIsAnError(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("truncating a mapped file is tried on linux")
	}
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := Open(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Mapped() {
		t.Skip("not mapped here")
	}
	if err := os.Truncate(name, 100); err != nil {
		t.Fatal(err)
	}
	var sum byte
	_, err = s.Scan(func(all []byte) error {
		for i := range all {
			sum += all[i]
		}
		return nil
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v (%d)", err, sum)
	}
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("a panic of the caller must pass")
			}
		}()
		s.Scan(func([]byte) error { panic("mine") })
	}()
	if err := s.Close(); err != nil { // the lock was given back
		t.Error(err)
	}
}
