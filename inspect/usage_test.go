package inspect

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestUsageAddsUpToTheSize(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../testdata", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "malformed") {
			return err
		}
		f, err := tensorfile.Open(name, nil)
		if err != nil {
			return nil
		}
		defer f.Close()
		found++
		u := NewUsage(f, nil)
		if sum := u.Tensors + u.Blobs + u.Metadata + u.Padding + u.Unused; sum != f.Size() ||
			u.Size != sum {
			t.Errorf("%s: %+v adds up to %d of %d", name, u, sum, f.Size())
		}
		n := int64(0)
		for _, g := range u.Groups {
			n += g.Tensors
		}
		if n > int64(f.Len()) {
			t.Errorf("%s: groups of %d tensors, the file has %d", name, n, f.Len())
		}
		if _, err := json.Marshal(u); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d files, %v", found, err)
	}
}

func TestGroupsAreAsDeepAsItTakes(t *testing.T) {
	layers := []UsageGroup{{"lm_head.weight", 1, 10}}
	for _, l := range []string{"0", "1", "2"} {
		layers = append(layers, UsageGroup{"model.layers." + l + ".w", 1, 100},
			UsageGroup{"model.layers." + l + ".b", 1, 1})
	}
	if got := groupsOf(layers, 0); len(got) != 4 || got[0].Name != "model.layers.0.*" ||
		got[0].Tensors != 2 || got[0].Bytes != 101 {
		t.Errorf("%+v", got)
	}
	if got := groupsOf(layers, 1); len(got) != 2 || got[0].Name != "model.*" {
		t.Errorf("%+v", got)
	}
	if got := groupsOf(layers[:1], 0); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestUsageOfShards(t *testing.T) {
	dir := t.TempDir()
	var ts []*tensor.Tensor
	for _, name := range []string{"a", "b", "c"} {
		ts = append(ts, tensor.New(name, tensor.Shape{100}, make([]float32, 100)))
	}
	f := writeShards(t, dir, ts)
	u := NewUsage(f, nil)
	n := int64(0)
	for _, s := range u.Shards {
		n += s.Bytes
	}
	if len(u.Shards) != 3 || n != 1200 || u.Tensors != 0 {
		t.Errorf("%+v", u)
	}
}

// writeShards writes one shard for each tensor, and opens the index.
func writeShards(t *testing.T, dir string, ts []*tensor.Tensor) *tensorfile.File {
	t.Helper()
	name := filepath.Join(dir, "m.safetensors")
	names, err := safetensors.WriteShards(t.Context(), name, tensor.Of(ts...),
		&safetensors.ShardOptions{MaxSize: 400})
	if err != nil {
		t.Fatal(err)
	}
	f, err := tensorfile.Open(names[len(names)-1], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
