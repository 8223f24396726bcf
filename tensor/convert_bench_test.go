package tensor

import (
	"io"
	"math/rand/v2"
	"testing"
)

// weights are values as models have them.
func weights(d DType, n int) *Tensor {
	if d.Bits() < 8 || d == F8E4M3FN {
		return randomTensor(d, n, 1)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	v := make([]float64, n)
	for i := range v {
		if v[i] = rng.NormFloat64() * 0.02; d.IsInt() {
			v[i] = float64(rng.IntN(256) - 128)
		}
	}
	x, err := As(New("w", Shape{int64(n)}, v), d)
	if err != nil {
		panic(err)
	}
	b, err := x.Data.ReadAll()
	if err != nil {
		panic(err)
	}
	x.Data = BlobOf(b)
	return x
}

func BenchmarkConvertInto(b *testing.B) {
	const n = 4 << 20
	for _, d := range []DType{BF16, F16, F8E4M3FN, F4E2M1FN, I8, I64, F64} {
		x := weights(d, n)
		dst := make([]float32, n)
		b.Run(d.String(), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				if err := ConvertInto(dst, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAs(b *testing.B) {
	const n = 16 << 20
	x := streamed(weights(BF16, n))
	for _, to := range []DType{F16, F32} {
		b.Run(to.String(), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				y, err := As(x, to)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := y.Data.WriteTo(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
