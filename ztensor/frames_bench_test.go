package ztensor

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

// many2 is a file of n small tensors with realistic names.
func many2(b testing.TB, n int) []byte {
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{Version: "2", Alignment: minAlignment})
	for i := range n {
		x := make([]float32, 128)
		x[0], x[1] = float32(i), float32(i>>16)
		if err := w.Add(tensor.New(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i),
			tensor.Shape{16, 8}, x)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

func BenchmarkOpen2(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		file := many2(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := OpenBytes(file, nil)
				if err != nil {
					b.Fatal(err)
				}
				count := 0
				for t := range r.Tensors() {
					count += len(t.Shape)
				}
				if count != 2*n {
					b.Fatal(count)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/tensor")
		})
	}
}

func BenchmarkSkip2(b *testing.B) {
	file := many2(b, 100_000)
	r, err := OpenBytes(file, nil)
	if err != nil {
		b.Fatal(err)
	}
	manifest := file[r.f.ManifestAt:][:r.f.ManifestSize]
	for b.Loop() {
		c := cbor.NewStrict(manifest, r.f.Options.Limits)
		if c.Skip(); c.Err != nil {
			b.Fatal(c.Err)
		}
	}
}

func BenchmarkVerify2(b *testing.B) {
	var ts []*tensor.Tensor
	for i := range 8 {
		ts = append(ts, tensor.New(fmt.Sprint(i), tensor.Shape{16 << 20},
			noise(16<<20, uint64(i))))
	}
	for _, level := range []int{0, 3} {
		var out bytes.Buffer
		w := NewWriter(&out, &WriterOptions{Version: "2", Level: level})
		if err := w.AddAll(b.Context(), tensor.Of(ts...)); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint("level", level), func(b *testing.B) {
			b.SetBytes(8 * 16 << 20)
			for b.Loop() {
				r, err := OpenBytes(out.Bytes(), nil)
				if err == nil {
					_, err = r.Verify(b.Context(), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("write/level", level), func(b *testing.B) {
			b.SetBytes(8 * 16 << 20)
			name := b.TempDir() + "/x.zt"
			for b.Loop() {
				if err := WriteFile(b.Context(), name, tensor.Of(ts...),
					&WriterOptions{Version: "2", Level: level}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
