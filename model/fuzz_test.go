package model

import (
	"strings"
	"testing"
)

// FuzzDirectory opens and checks a snapshot of a cache all of whose text is untrusted.
func FuzzDirectory(f *testing.F) {
	files := tiny(f)
	f.Add(files[indexJ].(string), files["config.json"].(string), files[shard1].(string), "commit", `{"files":{"a":{"size":1}}}`, "")
	f.Add(index(1, "a=../x", "b=m.bin", "c=c"), `{"dtype":5,"quantization_config":{"bits":0}}`, "version https://git-lfs", "../x", `[`, strings.Repeat("0", 64)+"  "+shard1)
	f.Add(`{"metadata":{"total_size":1e9},"weight_map":{"a":"`+shard1+`"}}`, `[]`, ggufFile([]string{"a"}, "split.no", uint16(9)), "", "", "SHA256 (x) = 1")
	f.Fuzz(func(t *testing.T, index, config, shard, ref, tree, manifest string) {
		fsys := fixture(map[string]any{
			"r/refs/main": ref, "r/blobs/b": "x", "r/trees/commit.json": tree,
			"r/snapshots/commit/" + indexJ: index, "r/snapshots/commit/config.json": config,
			"r/snapshots/commit/model_index.json": tree, "r/snapshots/commit/" + shard1: shard,
			"r/snapshots/commit/x.gguf": shard, "r/snapshots/commit/x.bin": shard,
			"r/snapshots/commit/sub/config.json": config, "r/snapshots/commit/sub/model.safetensors": shard,
		})
		for _, dir := range []string{"r", "r/snapshots/commit", "r/snapshots/commit/sub"} {
			m, err := OpenFS(fsys, dir, nil)
			if err != nil {
				continue
			}
			m.Summary()
			m.Check(t.Context(), &CheckOptions{Deep: true, Values: true, Manifest: []byte(manifest)})
			m.Close()
		}
		Shards(fsys, "r/snapshots/commit/"+indexJ)
		Find(fsys, ".")
	})
}
