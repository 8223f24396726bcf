package format

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/tensorfile/tensorfile/tensor"
)

type readInput struct{ *Input }

func (readInput) Warnings() []error { return nil }

func readAsInput(in *Input) (readInput, error) { return readInput{in}, nil }

func TestCompanionsStayInTheDirectory(t *testing.T) {
	dir := t.TempDir()
	files := fstest.MapFS{"up": {Data: []byte("u")}, "in/x": {Data: []byte("x")},
		"in/y": {Data: []byte("yy")}}
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	opens := map[string]func() (readInput, error){
		"Open": func() (readInput, error) {
			return Open(filepath.Join(dir, "in", "x"), nil, readAsInput)
		},
		"OpenFS of a directory": func() (readInput, error) {
			return OpenFS(os.DirFS(dir), "in/x", nil, readAsInput)
		},
		"OpenFS": func() (readInput, error) { return OpenFS(files, "in/x", nil, readAsInput) },
	}
	for what, open := range opens {
		in, err := open()
		if err != nil {
			t.Fatal(what, err)
		}
		if r, n, err := in.Companion("y"); err != nil || n != 2 {
			t.Errorf("%s: y: %v, %d, %v", what, r, n, err)
		}
		for _, bad := range []string{"../up", "/etc/passwd", "", ".", "..", "../in/y"} {
			if r, _, err := in.Companion(bad); err == nil {
				t.Errorf("%s: %q opened as %v", what, bad, r)
			}
		}
		in.Close()
	}
	in, err := OpenBytes([]byte("x"), nil, readAsInput)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.Companion("y"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A file that is replaced while the files next to it are opened is opened again.
func TestAFileThatIsReplacedIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(name, "old")
	write(filepath.Join(dir, "y"), "y")
	turns := 0
	in, err := Open(name, nil, func(in *Input) (readInput, error) {
		if turns++; turns == 1 {
			write(filepath.Join(dir, "new"), "new!")
			if err := os.Rename(filepath.Join(dir, "new"), name); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := in.Companion("y")
		return readInput{in}, err
	})
	if err != nil || turns != 2 || in.Size() != 4 {
		t.Fatalf("%d turns, %v", turns, err)
	}
	in.Close()
	_, err = Open(name, nil, func(in *Input) (readInput, error) {
		turns++
		write(filepath.Join(dir, "new"), "new!")
		if err := os.Rename(filepath.Join(dir, "new"), name); err != nil {
			t.Fatal(err)
		}
		_, _, err := in.Companion("y")
		return readInput{in}, err
	})
	if !errors.Is(err, tensor.ErrUnfinished) || turns != 5 {
		t.Errorf("%d turns, %v", turns, err)
	}
}
