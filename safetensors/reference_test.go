package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// want is what interop/safetensors/make.py noted next to each file.
type want struct {
	Attributes map[string]string
	Tensors    map[string]struct {
		DType  string
		Shape  []int64
		Bytes  int64
		SHA256 string
	}
}

// The reference's files, read and written back: the committed files, and the files of
// interop/safetensors.sh when TENSORFILE_SAFETENSORS names their directory and
// TENSORFILE_SAFETENSORS_OUT where the rewritten ones go.
func TestFilesOfTheReferenceHaveItsValues(t *testing.T) {
	dir, out := "../testdata/safetensors", t.TempDir()
	if d := os.Getenv("TENSORFILE_SAFETENSORS"); d != "" {
		dir, out = d, os.Getenv("TENSORFILE_SAFETENSORS_OUT")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			raw, err := os.ReadFile(strings.TrimSuffix(name, suffix) + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var w want
			if err := json.Unmarshal(raw, &w); err != nil {
				t.Fatal(err)
			}
			r, err := Open(name, &ReaderOptions{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if r.Len() != len(w.Tensors) || len(r.Warnings()) != 0 {
				t.Errorf("%d tensors, want %d; warnings %v", r.Len(), len(w.Tensors), r.Warnings())
			}
			for x := range r.Tensors() {
				e, ok := w.Tensors[x.Name]
				if !ok || r.Tensor(x.Name) != x {
					t.Fatalf("%q is not in the reference's list", x.Name)
				}
				b, err := x.Data.ReadAll()
				if err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(b)
				if x.DType.String() != e.DType || !x.Shape.Equal(e.Shape) ||
					x.Size() != e.Bytes || hex.EncodeToString(sum[:]) != e.SHA256 {
					t.Errorf("%q: %v %v %d bytes, the reference has %+v", x.Name, x.DType,
						x.Shape, x.Size(), e)
				}
			}
			if got := maps.Collect(r.Attributes()); !maps.Equal(got, w.Attributes) {
				t.Errorf("attributes %v, want %v", got, w.Attributes)
			}
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}

			again := filepath.Join(out, filepath.Base(name))
			if err := WriteFile(t.Context(), again, tensor.Each(r.Tensors()),
				&WriterOptions{Attributes: maps.Collect(r.Attributes())}); err != nil {
				t.Fatal(err)
			}
			ours, err := os.ReadFile(again)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(ours, theirs) {
				t.Error("what we write differs from what the reference wrote")
			}
		})
	}
}
