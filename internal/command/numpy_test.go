package command

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReinterpretGivesVoidElementsTheirNumbers(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "w.npy")
	b := "\x93NUMPY\x01\x00\x40\x00{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }      \n" +
		"\x80\x3f\x00\x40"
	if err := os.WriteFile(name, []byte(b), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "w.safetensors")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"ls $IN", 0, "<V2"},
		{"cat $IN data", 3, "--reinterpret"},
		{"cat $IN data --reinterpret <V2=bfloat16", 0, "[1, 2]"},
		{"stats $IN --reinterpret <V2=bfloat16", 0, "1.5"},
		{"convert $IN $OUT", 3, "would be lost"},
		{"convert $IN $OUT --reinterpret <V2=bfloat16", 0, ""},
		{"diff $IN $OUT --reinterpret <V2=bfloat16", 0, ""},
		{"ls $IN --reinterpret <V2=float32", 3, "not as many bytes"},
		{"ls $IN --reinterpret <V2=flat", 2, "no dtype is named"},
		{"ls $IN --reinterpret <V2", 2, "not FROM=TO"},
	} {
		var got bytes.Buffer
		args := strings.Fields(strings.NewReplacer("$IN", name, "$OUT", out).Replace(c.args))
		if status := run(t.Context(), args, nil, &got, &got, os.Getenv); status != c.status ||
			!strings.Contains(got.String(), c.want) {
			t.Errorf("%s: status %d, %s", c.args, status, &got)
		}
	}
}

// Every command that writes a NumPy file writes the bytes of numpy.save.
func TestNumPyFilesAreThoseOfNumPy(t *testing.T) {
	files, err := filepath.Glob("../../testdata/npy/le-*.npy")
	if err != nil || len(files) < 14 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var cat bytes.Buffer
		if status := run(t.Context(), []string{"cat", "--npy", name, "data"}, nil, &cat,
			io.Discard, os.Getenv); status != 0 {
			t.Errorf("%s: cat: status %d", name, status)
		}
		dir := t.TempDir()
		if status := run(t.Context(), []string{"extract", name, "-o", dir}, nil, io.Discard,
			io.Discard, os.Getenv); status != 0 {
			t.Errorf("%s: extract: status %d", name, status)
		}
		extracted, err := os.ReadFile(filepath.Join(dir, "data.npy"))
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(cat.Bytes(), want) || !bytes.Equal(extracted, want) {
			t.Errorf("%s: cat writes %d bytes, extract %d, numpy %d", name, cat.Len(),
				len(extracted), len(want))
		}
	}
}
