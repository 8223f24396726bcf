package model

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestShardsNamesTheFilesThatAreThere(t *testing.T) {
	files := tiny(t)
	all := []string{shard1, shard2, shard3}
	for _, c := range []struct {
		name    string
		gone    string
		want    []string
		missing bool
	}{
		{indexJ, "", all, false},
		{shard2, "", all, false},
		{"config.json", "", []string{"config.json"}, false},
		{shard1, shard2, []string{shard1, shard3}, true},
		{indexJ, shard2, []string{shard1, shard3}, true},
		{"gone.safetensors", "", nil, true},
		{"gone.safetensors.index.json", "", nil, true},
	} {
		fsys := fixture(files)
		delete(fsys, c.gone)
		got, err := Shards(fsys, c.name)
		if !slices.Equal(got, c.want) || (err != nil) != c.missing ||
			err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	sub, err := Shards(fixture(map[string]any{"a/x-00001-of-00001.gguf": "x",
		"a/x-00001-of-00002.gguf": "x"}), "a/x-00001-of-00001.gguf")
	if err != nil || !slices.Equal(sub, []string{"a/x-00001-of-00001.gguf"}) {
		t.Errorf("%q, %v", sub, err)
	}
	if got, err := Shards(fixture(map[string]any{indexJ: index(0, "a=../x")}),
		indexJ); err == nil {
		t.Errorf("%q", got)
	}
	// A name that claims many is not believed.
	got, err := Shards(fixture(map[string]any{"x-000000001-of-999999999.gguf": "x"}),
		"x-000000001-of-999999999.gguf")
	if len(got) != 1 || err == nil || len(err.Error()) > 10_000 {
		t.Errorf("%q, %v", got, err)
	}
}

// Shards of two sets, whose writer gave them IDs, are not one model.
func TestShardsOfTwoSetsAreNotOneModel(t *testing.T) {
	ts := tensor.Of(tensor.New("a", tensor.Shape{8}, make([]float32, 8)),
		tensor.New("b", tensor.Shape{8}, make([]float32, 8)))
	for name, write := range map[string]func(name, id string) ([]string, error){
		"model.safetensors": func(name, id string) ([]string, error) {
			return safetensors.WriteShards(t.Context(), name, ts,
				&safetensors.ShardOptions{MaxSize: 32, ID: id})
		},
		"model.gguf": func(name, id string) ([]string, error) {
			return gguf.WriteShards(t.Context(), name, ts, &gguf.ShardOptions{MaxSize: 32, ID: id})
		},
	} {
		dirs := map[string]string{"step 1": t.TempDir(), "step 2": t.TempDir()}
		second := ""
		for id, dir := range dirs {
			files, err := write(filepath.Join(dir, name), id)
			if err != nil {
				t.Fatal(name, err)
			}
			second = filepath.Base(files[1])
			if r, err := Check(t.Context(), dir, nil); err != nil || len(r.Findings) > 0 {
				t.Errorf("%s: %v, %v", name, r.Findings, err)
			}
		}
		for _, dir := range dirs { // without an index the first shard counts
			if err := os.RemoveAll(filepath.Join(dir, name+".index.json")); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Rename(filepath.Join(dirs["step 2"], second),
			filepath.Join(dirs["step 1"], second)); err != nil {
			t.Fatal(err)
		}
		r, err := Check(t.Context(), dirs["step 1"], nil)
		if !errors.Is(err, tensor.ErrMalformed) || !slices.ContainsFunc(r.Findings,
			func(f Finding) bool { return f.Code == MixedShards && f.File == second }) {
			t.Errorf("%s: %v, %v", name, r.Findings, err)
		}
		m, err := Open(dirs["step 1"], nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := m.Whole(); !errors.Is(err, tensor.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesTellModelFilesFromOthers(t *testing.T) {
	for name, want := range map[string]bool{
		"model.safetensors": true, "x.gguf": true, "pytorch_model.bin": true, "x.pth": true,
		"x.zt": true, "x.pte": true, "a/x.ckpt": true,
		"training_args.bin": false, "optimizer.pt": false, "rng_state_3.pth": false,
		"random_states_0.pkl": false, "x.npy": false, "README.md": false, "x.json": false,
		"optimizer.safetensors": true,
	} {
		if isWeights(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	for name, want := range map[string]indexName{
		indexJ:                              {"model", ".safetensors", ""},
		"model.safetensors.index.fp16.json": {"model", ".safetensors", ".fp16"},
		"pytorch_model.bin.index.json":      {"pytorch_model", ".bin", ""}, "model.index.json": {},
		"x.json": {}, "tf_model.h5.index.json": {},
		"model.safetensors.indexed.json": {},
	} {
		if got, ok := parseIndexName(name); ok != (want != indexName{}) || ok && got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, name := range []string{"m-00001.safetensors", "m-1-of-2.gguf", "-00001-of-00002.gguf",
		"m-+0001-of-00002.gguf", "m-00001-of-00002.txt"} {
		if s, ok := parseShard(name); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
