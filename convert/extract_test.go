package convert_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/tensor"
)

func extractor(t *testing.T, dir string, opts *convert.ExtractOptions) *convert.Extractor {
	t.Helper()
	x, err := convert.NewExtractor(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func TestExtractedFilesHaveSafeNamesAndDTypesOfNumPy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	x := extractor(t, dir, nil)
	bf16 := &tensor.Tensor{DType: tensor.BF16, Shape: tensor.Shape{2},
		Data: tensor.BlobOf([]byte{1, 2, 3, 4})}
	f4 := &tensor.Tensor{DType: tensor.F4E2M1FN, Shape: tensor.Shape{2},
		Data: tensor.BlobOf([]byte{0x21})}
	for _, c := range []struct {
		name, file, as string
		x              *tensor.Tensor
	}{
		{"w", "w.npy", "", tensor.New("", tensor.Shape{2}, []float32{1, 2})},
		{"W", "W~2.npy", "", tensor.New("", tensor.Shape{1}, []int8{1})},
		{"../w", "%2E.%2Fw.npy", "", tensor.New("", tensor.Shape{}, []bool{true})},
		{"b", "b.npy", "uint16", bf16},
		{"f", "f.bin", "bytes", f4},
	} {
		file, as, err := x.Tensor(t.Context(), c.name, c.x)
		if err != nil || file != c.file || as != c.as {
			t.Errorf("%s: %s as %q, %v", c.name, file, as, err)
		}
	}
	values, shape, err := npy.Read[uint16](filepath.Join(dir, "b.npy"))
	if err != nil || !slices.Equal(values, []uint16{0x201, 0x403}) || !shape.Equal(bf16.Shape) {
		t.Errorf("%v %v, %v", values, shape, err)
	}
	for name, want := range map[string]string{"a": "a.bin", "a/b": "a%2Fb.bin"} {
		file, err := x.Blob(t.Context(), name, tensor.BlobOf([]byte(name)))
		b, _ := os.ReadFile(filepath.Join(dir, file))
		if err != nil || file != want || !bytes.Equal(b, []byte(name)) {
			t.Errorf("%s: %s, %q, %v", name, file, b, err)
		}
	}
}

// Abort removes what the Extractor added, and leaves what was there before.
func TestAbortRemovesWhatTheExtractorAdded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	blob := tensor.BlobOf([]byte{1})
	x := extractor(t, dir, nil)
	if _, err := x.Blob(t.Context(), "x", blob); err != nil {
		t.Fatal(err)
	}
	x.Abort()
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory is left: %v", err)
	}
	x = extractor(t, dir, nil)
	if _, err := x.Blob(t.Context(), "x", blob); err != nil {
		t.Fatal(err)
	}
	x = extractor(t, dir, nil)
	if _, err := x.Blob(t.Context(), "x", blob); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file is replaced: %v", err)
	}
	x = extractor(t, dir, &convert.ExtractOptions{Replace: true})
	if _, err := x.Blob(t.Context(), "x", blob); err != nil {
		t.Error(err)
	}
	x.Abort()
	if _, err := os.Stat(filepath.Join(dir, "x.bin")); err != nil {
		t.Error(err)
	}
	dry := filepath.Join(t.TempDir(), "dry")
	x = extractor(t, dry, &convert.ExtractOptions{DryRun: true})
	if file, err := x.Blob(t.Context(), "x", blob); err != nil || file != "x.bin" {
		t.Errorf("%s, %v", file, err)
	}
	if _, err := os.Stat(dry); err == nil {
		t.Error("a dry run makes a directory")
	}
}

// Progress adds up the bytes of all files.
func TestExtractorProgressAddsUpAllFiles(t *testing.T) {
	var calls []int64
	x := extractor(t, t.TempDir(), &convert.ExtractOptions{
		Progress: func(done int64) { calls = append(calls, done) }})
	ctx := t.Context()
	for _, name := range []string{"a", "b"} {
		a := tensor.New(name, tensor.Shape{3 << 20}, make([]uint8, 3<<20))
		if _, _, err := x.Tensor(ctx, name, a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Blob(ctx, "c", tensor.BlobOf([]byte("blob"))); err != nil {
		t.Fatal(err)
	}
	const all = 2*(128+3<<20) + 4
	if !slices.IsSorted(calls) || len(calls) < 7 || calls[len(calls)-1] != all {
		t.Errorf("%d, in all %d", calls, all)
	}
}
