package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// extended writes data after the end of the file of that name, in pieces of all sizes.
func extended(name string, data []byte, h hook) error {
	e, err := extend(name, h)
	if err != nil {
		return err
	}
	defer e.Abort()
	for i, n := 0, 1; i < len(data); n *= 3 {
		k := min(n, len(data)-i)
		if _, err := e.Write(data[i : i+k]); err != nil {
			return err
		}
		i += k
	}
	if err := e.Sync(); err != nil {
		return err
	}
	if _, err := e.Write([]byte("end")); err != nil {
		return err
	}
	return e.Close()
}

func TestExtensionsAreThereWholeOrNotAtAll(t *testing.T) {
	data := content(3*pieceSize + 17)
	name := filepath.Join(t.TempDir(), "f")
	old := func() {
		t.Helper()
		if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	old()
	var all []string
	if err := extended(name, data, func(step string) error {
		all = append(all,
			step)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	hasContent(t, name, append([]byte("old"), append(data, "end"...)...))
	for k, step := range all {
		t.Run(fmt.Sprint(k, " ", step), func(t *testing.T) {
			old()
			n := -1
			err := extended(name, data, func(string) error {
				if n++; n == k {
					return errDisk
				}
				return nil
			})
			if !errors.Is(err, errDisk) {
				t.Fatal(err)
			}
			hasContent(t, name, []byte("old"))
		})
	}
}

func TestExtensionsThatAreGivenUpLeaveTheFileAsItWas(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	e, err := Extend(name)
	if err != nil || e.Start() != 3 {
		t.Fatal(err)
	}
	e.Write(content(2 * pieceSize))
	e.Abort()
	hasContent(t, name, []byte("old"))
	if _, err := e.Write([]byte{1}); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if err := e.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// If two write to one file, neither cuts off what the other wrote, and one learns of
// it.
func TestSecondExtensionOfAFileFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	e, err := Extend(name)
	if err != nil {
		t.Fatal(err)
	}
	e.Write([]byte("mine"))
	if err := extended(name, []byte("theirs"), nil); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); !errors.Is(err, errChanged) {
		t.Error(err)
	}
	hasContent(t, name, []byte("oldtheirsend"))
}

func TestOnlyRegularFilesAreExtended(t *testing.T) {
	if _, err := Extend(t.TempDir()); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if _, err := Extend(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
