package remote

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A sharded model opens like any file: its Reader finds the shards next to the index.
func TestShardsAreFoundNextToTheFile(t *testing.T) {
	dir := t.TempDir()
	ts := model(6, 1000)
	_, err := safetensors.WriteShards(t.Context(), filepath.Join(dir, "model.safetensors"),
		tensor.Of(ts...),
		&safetensors.ShardOptions{MaxSize: 2500})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crate-2.1.1-sharded.zt", "crate-2.1.1-sharded-00001.zt",
		"crate-2.1.1-sharded-vision.zt"} {
		b, err := os.ReadFile("../testdata/ztensor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer s.Close()
	for _, name := range []string{"model.safetensors.index.json", "crate-2.1.1-sharded.zt"} {
		t.Run(name, func(t *testing.T) {
			local, err := tensorfile.Open(filepath.Join(dir, name), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer local.Close()
			for kind, open := range map[string]func(r *Reader) (tensorfile.Reader, error){
				"the root package": func(r *Reader) (tensorfile.Reader, error) {
					return tensorfile.NewReader(r, r.Size(), nil)
				},
				"the format's package": func(r *Reader) (tensorfile.Reader, error) {
					if filepath.Ext(name) == ".zt" {
						return ztensor.NewReader(r, r.Size(), nil)
					}
					return safetensors.NewReader(r, r.Size(), nil)
				},
			} {
				r, err := Open(t.Context(), s.URL+"/"+name, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				f, err := open(r)
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				defer f.Close()
				for x := range local.Tensors() {
					want, err := x.Data.ReadAll()
					if err != nil {
						t.Fatal(err)
					}
					if got, err := f.Tensor(x.Name).Data.ReadAll(); err != nil ||
						string(got) != string(want) {
						t.Errorf("%s: %s: %d bytes, %v", kind, x.Name, len(got), err)
					}
				}
				if f.Len() != local.Len() {
					t.Errorf("%s: %d tensors of %d", kind, f.Len(), local.Len())
				}
			}
		})
	}
}
