package quant_test

import (
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// perElement returns a function that reports the time of the clock and of processors for
// an element.
func perElement(b *testing.B, n float64) func() {
	b.ReportAllocs()
	start := readtest.ProcessorTime()
	return func() {
		n := n * float64(b.N)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/element")
		b.ReportMetric(float64((readtest.ProcessorTime()-start).Nanoseconds())/n,
			"cpu-ns/element")
	}
}

// BenchmarkConvert decodes whole weights; ns/element is for all cores together.
func BenchmarkConvert(b *testing.B) {
	const n = 4096
	for _, w := range largeWeights(n) {
		set := quant.Find(of(w.tensors...), config(b, w.config))
		x := set.Weights[0]
		for _, y := range set.Weights {
			if y.Scheme != "" {
				x = y
			}
		}
		if x.Err != nil || x.Scheme == "" || !strings.HasPrefix(w.name, x.Scheme) &&
			len(set.Findings) > 0 {
			b.Fatal(w.name, x.Scheme, x.Err, set.Findings)
		}
		dst := make([]float32, n*n)
		b.Run("float32/"+w.name, func(b *testing.B) {
			b.SetBytes(4 * n * n)
			report := perElement(b, n*n)
			for b.Loop() {
				if err := tensor.ConvertInto(dst, x.Tensor); err != nil {
					b.Fatal(err)
				}
			}
			report()
		})
		half := make([]tensor.BFloat16, n*n)
		b.Run("bfloat16/"+w.name, func(b *testing.B) {
			b.SetBytes(2 * n * n)
			report := perElement(b, n*n)
			for b.Loop() {
				if err := tensor.ConvertInto(half, x.Tensor); err != nil {
					b.Fatal(err)
				}
			}
			report()
		})
	}
}
