package inspect

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
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
		if sum := u.Tensors + u.Blobs + u.Metadata + u.Padding + u.Unused; u.Size != sum ||
			sum != f.TotalSize() {
			t.Errorf("%s: %+v adds up to %d of %d", name, u, sum, f.TotalSize())
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

func TestUsageAddsUpShards(t *testing.T) {
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
	if len(u.Shards) != 3 || n != 1200 || u.Tensors != 1200 {
		t.Errorf("%+v", u)
	}
}

// A filter is for groups and shards alone: the other sums stay sums of all files.
func TestUsageOfChosenTensorsKeepsOtherSums(t *testing.T) {
	group := func(name string, bytes int64) UsageGroup { return UsageGroup{name, 1, bytes} }
	for _, c := range []struct {
		file, names    string
		groups, shards []UsageGroup
	}{
		{"ztensor/crate-2.1.1-sharded.zt", "here 00001.w",
			[]UsageGroup{group("00001.*", 16), group("here", 2)},
			[]UsageGroup{group("00001", 16)}},
		{"ztensor/crate-2.1.1-sharded.zt", "none", []UsageGroup{}, []UsageGroup{}},
		{"torch/dcp/.metadata", "whole", []UsageGroup{group("whole", 12)},
			[]UsageGroup{group("__1_0.distcp", 12)}},
		{"torch/dcp/.metadata", "whole grid", // which is in several files
			[]UsageGroup{group("grid", 80), group("whole", 12)}, nil},
		{"safetensors/dtypes.safetensors", "t.bool", []UsageGroup{group("t.*", 2)},
			[]UsageGroup{}},
	} {
		f, err := tensorfile.Open("../testdata/"+c.file, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got := NewUsage(f, &UsageOptions{Depth: 1, Filter: func(name string) bool {
			return slices.Contains(strings.Fields(c.names), name)
		}})
		want := NewUsage(f, nil)
		want.Groups, want.Shards = c.groups, c.shards
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s, %s:\n%+v, want\n%+v", c.file, c.names, got, want)
		}
	}
}

// TestTotalSizeIncludesShards compares sizes with the sizes of the files of a directory.
func TestTotalSizeIncludesShards(t *testing.T) {
	index, root := t.TempDir(), t.TempDir()
	ts := []*tensor.Tensor{tensor.New("a", tensor.Shape{100}, make([]float32, 100)),
		tensor.New("b", tensor.Shape{100}, make([]float32, 100))}
	writeShards(t, index, ts)
	if _, err := ztensor.WriteShards(t.Context(), filepath.Join(root, "m.zt"), tensor.Of(ts...),
		&ztensor.ShardOptions{MaxSize: 400}); err != nil {
		t.Fatal(err)
	}
	for name, shards := range map[string]int{filepath.Join(index, "m.safetensors.index.json"): 2,
		filepath.Join(root, "m.zt"): 2, "../testdata/torch/dcp/.metadata": 4} {
		f, err := tensorfile.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		size := int64(0)
		entries, err := os.ReadDir(filepath.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		info, bytes := NewInfo(f, nil), int64(0)
		for _, s := range info.Shards {
			bytes += s.Bytes
		}
		if info.Size != size || NewUsage(f, nil).Size != size || len(Shards(f)) != shards ||
			len(info.Shards) != shards || bytes != info.Bytes {
			t.Errorf("%s: %d bytes, want %d; shards %+v", name, info.Size, size, info.Shards)
		}
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
