package inspect

import (
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// Elements per second of every pass, over tensors of several pieces.
func BenchmarkElements(b *testing.B) {
	const n = 8 << 20
	for _, d := range []tensor.DType{tensor.BF16, tensor.F16, tensor.F8E4M3FN, tensor.F32,
		tensor.F64, tensor.I32} {
		x, y := weights(b, d, n, 1), weights(b, d, n, 2)
		passes := []struct {
			name string
			run  func() error
		}{
			{"stats", func() error { _, err := Stats(b.Context(), x, nil); return err }},
			{"tolerance", func() error {
				_, err := Compare(b.Context(), x, y, &CompareOptions{Tolerance: 1e-3})
				return err
			}},
			{"figures", func() error {
				_, err := Compare(b.Context(), x, y,
					&CompareOptions{Tolerance: 1e-3, Figures: true})
				return err
			}},
		}
		for _, p := range passes {
			b.Run(p.name+"/"+d.String(), func(b *testing.B) {
				b.SetBytes(n) // so that MB/s are millions of elements a second
				b.ReportAllocs()
				for b.Loop() {
					if err := p.run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// weights makes n elements that are distributed as in models.
func weights(b *testing.B, d tensor.DType, n int, seed uint64) *tensor.Tensor {
	b.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	v := make([]float32, n)
	for i := range v {
		if v[i] = float32(0.05 * rng.NormFloat64()); d.IsInt() {
			v[i] = float32(int(2e4 * v[i]))
		}
	}
	x, err := tensor.As(tensor.New("x", tensor.Shape{int64(n)}, v), d)
	if err != nil {
		b.Fatal(err)
	}
	p, err := x.Data.ReadAll()
	if err != nil {
		b.Fatal(err)
	}
	return &tensor.Tensor{Name: "x", DType: d, Shape: x.Shape, Data: tensor.BlobOf(p)}
}
