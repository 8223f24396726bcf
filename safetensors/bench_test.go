package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func manyTensors(b *testing.B, n int) []byte {
	var out bytes.Buffer
	w := NewWriter(&out, nil)
	data := make([]float32, 8)
	for i := range n {
		if err := w.Add(tensor.New(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i),
			tensor.Shape{2, 4}, data)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkOpen opens and lists; json is encoding/json decoding the same header
// into structs, with nothing checked.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		file := manyTensors(b, n)
		header := file[8 : 8+binary.LittleEndian.Uint64(file)]
		b.Run(fmt.Sprintf("tensorfile/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(header)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := OpenBytes(file, nil)
				if err != nil {
					b.Fatal(err)
				}
				for range r.Tensors() {
				}
			}
		})
		b.Run(fmt.Sprintf("json/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(header)))
			b.ReportAllocs()
			for b.Loop() {
				var m map[string]struct {
					DType   string   `json:"dtype"`
					Shape   []int64  `json:"shape"`
					Offsets [2]int64 `json:"data_offsets"`
				}
				if err := json.Unmarshal(header, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
