package onnx

import (
	"fmt"
	"testing"
)

// BenchmarkOpen opens a model of 100,000 initializers, with elements in the file and in
// another one.
func BenchmarkOpen(b *testing.B) {
	raw := msg(rawData, make([]byte, 64))
	for name, elements := range map[string]func(i int) []byte{
		"inline": func(int) []byte { return raw },
		"external": func(i int) []byte {
			return join(num(14, 1), pairs("location", "model.bin", "offset", fmt.Sprint(64*i),
				"length", "64"))
		},
	} {
		b.Run(name+"/1e5", func(b *testing.B) {
			var g []byte
			for i := range 100_000 {
				g = append(g, msg(5, num(1, 16), num(2, 1),
					msg(8, fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i)),
					elements(i))...)
			}
			file := modelOf(g)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := OpenBytes(file, nil)
				if err != nil || r.Len() != 100_000 {
					b.Fatal(err)
				}
			}
		})
	}
}
