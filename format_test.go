package tensorfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestFormatNamesAreTheirOwnInverse(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Formats() {
		if seen[f.String()] || f.Title() == "" || f.Ext() == "" || f.Ext()[0] != '.' {
			t.Errorf("%v: a name twice, or a field missing", f)
		}
		seen[f.String()] = true
		text, err := f.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var g Format
		if err := g.UnmarshalText(text); err != nil || g != f {
			t.Errorf("%s reads back as %v, %v", text, g, err)
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d formats", len(seen))
	}
	if _, err := ParseFormat("unknown"); err == nil {
		t.Error("unknown is no format")
	}
	if _, err := Format(0).MarshalText(); err == nil {
		t.Error("the zero value has no name")
	}
	if s := Format(200).String(); s != "Format(200)" {
		t.Error(s)
	}
}

type failingAt struct{ err error }

func (f failingAt) ReadAt(p []byte, off int64) (int, error) { return 0, f.err }

func TestDetectReportsUnknownFormatsAndTheFirstReadError(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("x"), []byte("plain text, and nothing else\n"),
		make([]byte, 4096)} {
		if f, err := Detect(bytes.NewReader(b), int64(len(b))); !errors.Is(err,
			ErrUnknownFormat) || f != 0 {
			t.Errorf("%q: %v, %v", b, f, err)
		}
	}
	if !errors.Is(ErrUnknownFormat, tensor.ErrMalformed) {
		t.Error("an unknown format has the class malformed")
	}
	in := newEdges(failingAt{io.ErrClosedPipe}, 10)
	in.ReadAt(make([]byte, 1), 0)
	in.r = failingAt{io.EOF}
	in.ReadAt(make([]byte, 1), 0)
	if in.err != io.ErrClosedPipe {
		t.Error(in.err)
	}
}

func TestOpenRefusesIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, nil); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(dir, "absent"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	name := filepath.Join(dir, "text")
	if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(name, nil); !errors.Is(err, ErrUnknownFormat) {
		t.Error(err)
	}
	if _, err := OpenFS(os.DirFS(dir), "text", nil); !errors.Is(err, ErrUnknownFormat) {
		t.Error(err)
	}
	if _, err := OpenFS(os.DirFS(dir), ".", nil); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if _, err := NewReader(bytes.NewReader(nil), -1, nil); err == nil {
		t.Error("a negative size")
	}
}

// The directory of a checkpoint that was unpacked opens as the checkpoint.
func TestUnpackedCheckpointsOpenAsCheckpoints(t *testing.T) {
	for _, name := range []string{"", "/data.pkl"} {
		f, err := Open("testdata/torch/cases/unpacked/z"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Format() != Torch || f.Len() != 2 {
			t.Errorf("%v of %d tensors", f.Format(), f.Len())
		}
		f.Close()
	}
}
