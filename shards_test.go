package tensorfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A distributed checkpoint in the form of safetensors opens as one file: the committed
// one, and that of interop/torch.sh when TENSORFILE_TORCH names its directory.
func TestShardsOfTorch(t *testing.T) {
	dir := "testdata/torch/shards"
	if d := os.Getenv("TENSORFILE_TORCH"); d != "" {
		dir = filepath.Join(d, "shards")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "all.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Tensors map[string]struct {
			DType, SHA256 string
			Shape         tensor.Shape
		}
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Format() != Torch || f.Version() != "dcp" || f.Len() != len(want.Tensors) {
		t.Errorf("%v %s, %d tensors", f.Format(), f.Version(), f.Len())
	}
	for x := range f.Tensors() {
		w := want.Tensors[x.Name]
		p, err := x.Data.ReadAll()
		sum := sha256.Sum256(p)
		if err != nil || x.DType.String() != w.DType || !x.Shape.Equal(w.Shape) ||
			hex.EncodeToString(sum[:]) != w.SHA256 {
			t.Errorf("%s: %v %v %v, torch has %+v", x.Name, x.DType, x.Shape, err, w)
		}
	}
	if _, err := f.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// A shard that is missing leaves a hole.
func TestMissingShardOfTorch(t *testing.T) {
	dir := t.TempDir()
	names, err := filepath.Glob("testdata/torch/shards/*.safetensors")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	for _, name := range names[1:] {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(names[0])), []byte("{"),
		0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); err == nil {
		t.Error("a damaged shard was read")
	}
}

// The directory and the metadata of a distributed checkpoint are the same file.
func TestOpenDirectoryOfTorch(t *testing.T) {
	for _, name := range []string{"testdata/torch/dcp", "testdata/torch/dcp/.metadata"} {
		f, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Format() != Torch || f.Len() != 4 {
			t.Errorf("%s: %v, %d tensors", name, f.Format(), f.Len())
		}
		f.Close()
	}
	if f, err := OpenFS(os.DirFS("testdata/torch"), "dcp/.metadata", nil); err != nil ||
		f.Len() != 4 {
		t.Error(err)
	} else {
		f.Close()
	}
}
