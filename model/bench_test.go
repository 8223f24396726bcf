package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkOpen opens 200 shards of 40 tensors each.
func BenchmarkOpen(b *testing.B) {
	const shards, tensors = 200, 40
	dir := b.TempDir()
	var entries []string
	for i := range shards {
		file := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		var h []string
		for k := range tensors {
			name := fmt.Sprintf("model.layers.%d.block.%d.weight", i, k)
			h = append(h, fmt.Sprintf(`"%s":{"dtype":"BF16","shape":[2,2],"data_offsets":[%d,%d]}`,
				name, 8*k, 8*k+8))
			entries = append(entries, name+"="+file)
		}
		data := header("{"+strings.Join(h, ",")+"}", 8*tensors)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(data), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, indexJ), []byte(index(8*shards*tensors, entries...)),
		0o644); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m, err := Open(dir, nil)
		if err != nil || len(m.Findings()) > 0 {
			b.Fatal(err, m.Findings())
		}
		if s := m.Summary(); s.Tensors != shards*tensors {
			b.Fatal(s)
		}
		m.Close()
	}
}
