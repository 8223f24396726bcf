package naming

import "testing"

func TestParseShardTakesNumberedNamesOnly(t *testing.T) {
	for name, want := range map[string]Shard{
		"model-00002-of-00003.gguf":       {"model", ".gguf", 2, 3, 5, 5},
		"a/b-c-000010-of-000012.x.npz":    {},
		"a/b-c-000010-of-000012.npz":      {"b-c", ".npz", 10, 12, 6, 6},
		"model-00002-of-000003.gguf":      {"model", ".gguf", 2, 3, 5, 6},
		"model-0002-of-0003.gguf":         {},
		"model.gguf":                      {},
		"-00002-of-00003.gguf":            {},
		"model-+0002-of-00003.gguf":       {},
		"model-00002-of-00003":            {"model", "", 2, 3, 5, 5},
		"model-99999999999-of-00003.gguf": {},
	} {
		got, ok := ParseShard(name)
		if ok != (want != Shard{}) || ok && got != want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
		if ok && got.Group() != want.Group() {
			t.Errorf("%s: %+v", name, got.Group())
		}
	}
	if s, _ := ParseShard("dir/m-00002-of-000003.gguf"); s.Name(1) != "m-00001-of-000003.gguf" {
		t.Error(s.Name(1))
	}
}
