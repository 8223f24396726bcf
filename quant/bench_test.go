package quant_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// largeWeights makes a weight of n rows and n columns of each scheme.
func largeWeights(n int64) []struct {
	name, config string
	tensors      []*tensor.Tensor
} {
	r := rand.New(rand.NewPCG(1, 2))
	type w = struct {
		name, config string
		tensors      []*tensor.Tensor
	}
	ct := `{"quantization_config":{"quant_method":"compressed-tensors","format":"%s","config_groups":{"g":{` +
		`"targets":["Linear"],"weights":{"num_bits":%d,"type":"int","strategy":"group","group_size":%d,"symmetric":%v}}}}}`
	shape := tensor.New("m.weight_shape", tensor.Shape{2}, []int64{n, n})
	state := fmt.Sprintf(`{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[%d,%d]}`, n, n)
	nf4 := []float32{-1, -.6961928, -.52507305, -.3949175, -.28444138, -.18477343, -.091050036,
		0,
		.0795803, .1609302, .24611230, .33791524, .44070983, .562617, .72295684, 1}
	return []w{
		{"fp8-block",
			`{"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`,
			[]*tensor.Tensor{random(r, "m.weight", tensor.F8E4M3FN, n, n),
				random(r, "m.weight_scale_inv", tensor.F32, n/128, n/128)}},
		{"nvfp4", "", []*tensor.Tensor{random(r, "m.weight", tensor.U8, n, n/2),
			random(r, "m.weight_scale", tensor.F8E4M3FN, n, n/16),
			random(r, "m.weight_scale_2", tensor.F32)}},
		{"mxfp4-experts", "", []*tensor.Tensor{random(r, "x_blocks", tensor.U8, 1, n, n/32, 16),
			random(r, "x_scales", tensor.U8, 1, n, n/32)}},
		{"int4-group", fmt.Sprintf(ct, "pack-quantized", 4, 128, true), []*tensor.Tensor{shape,
			random(r, "m.weight_packed", tensor.I32, n, n/8),
			random(r, "m.weight_scale", tensor.BF16, n, n/128)}},
		{"int3-group", fmt.Sprintf(ct, "pack-quantized", 3, 128, true), []*tensor.Tensor{shape,
			random(r, "m.weight_packed", tensor.I32, n, n*3/32),
			random(r, "m.weight_scale", tensor.BF16, n, n/128)}},
		{"int4-asymmetric", fmt.Sprintf(ct, "pack-quantized", 4, 128, false),
			[]*tensor.Tensor{shape,
				random(r, "m.weight_packed", tensor.I32, n, n/8),
				random(r, "m.weight_scale", tensor.BF16, n, n/128),
				random(r, "m.weight_zero_point", tensor.I32, n/8, n/128)}},
		{"gptq", `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`,
			[]*tensor.Tensor{random(r, "m.qweight", tensor.I32, n/8, n),
				random(r, "m.qzeros", tensor.I32, n/128, n/8),
				random(r, "m.scales", tensor.F16, n/128, n)}},
		{"awq", `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":128}}`,
			[]*tensor.Tensor{random(r, "m.qweight", tensor.I32, n, n/8),
				random(r, "m.qzeros", tensor.I32, n/128, n/8),
				random(r, "m.scales", tensor.F16, n/128, n)}},
		{"mlx-affine", `{"quantization":{"bits":4,"group_size":64}}`,
			[]*tensor.Tensor{random(r, "m.weight", tensor.U32, n, n/8),
				random(r, "m.scales", tensor.BF16, n, n/64), random(r, "m.biases", tensor.BF16,
					n, n/64)}},
		{"bnb-nf4", "", []*tensor.Tensor{random(r, "m.weight", tensor.U8, n*n/2, 1),
			random(r, "m.weight.absmax", tensor.F32, n*n/64),
			tensor.New("m.weight.quant_map", tensor.Shape{16}, nf4),
			tensor.New("m.weight.quant_state.bitsandbytes__nf4", tensor.Shape{int64(len(state))},
				[]byte(state))}},
		{"bnb-int8", "", []*tensor.Tensor{random(r, "m.weight", tensor.I8, n, n),
			random(r, "m.SCB", tensor.F32, n)}},
	}
}

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
