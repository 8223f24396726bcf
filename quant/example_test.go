package quant_test

import (
	"context"
	"fmt"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A loader of a model of FP8: every weight as bfloat16, whatever it is stored as.
func ExampleWeights() {
	codes := []tensor.Float8E4M3FN{0x38, 0x40, 0x44, 0xb8} // 1, 2, 3, -1
	file := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("up.weight", tensor.Shape{2, 2}, codes),
		tensor.New("up.weight_scale_inv", tensor.Shape{1, 1}, []float32{0.5}),
		tensor.New("norm.weight", tensor.Shape{2}, []float32{1, 1}),
	}, nil)
	config := []byte(`{"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}}`)
	cfg, err := quant.ParseConfig(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	for w := range quant.Weights(file, cfg) {
		values, err := tensor.Convert[tensor.BFloat16](w.Tensor)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %q %v, %d parameters:", w.Name, w.Scheme, w.DType, w.Parameters())
		for _, v := range values {
			fmt.Print(" ", v.Float32())
		}
		fmt.Println()
	}
	// Output:
	// up.weight "fp8-block" bfloat16, 4 parameters: 0.5 1 1.5 -0.5
	// norm.weight "" float32, 2 parameters: 1 1
}

// Check a file of quantised weights.
func ExampleFind() {
	file := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("up.weight", tensor.Shape{1, 2}, []tensor.Float8E4M3FN{0x38, 0x40}),
		tensor.New("down.weight", tensor.Shape{1, 2}, []tensor.Float8E4M3FN{0x38, 0x40}),
		tensor.New("down.weight_scale", tensor.Shape{1}, []float32{0.5}),
	}, nil)
	for _, f := range quant.Find(file, nil).Findings {
		fmt.Println(f.Severity, f.Code, f.Tensor)
	}
	// Output: error missing-scale up.weight
}

func ExampleWeight_Check() {
	file := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("up.weight", tensor.Shape{1, 2}, []tensor.Float8E4M3FN{0x38, 0x7f}),
		tensor.New("up.weight_scale", tensor.Shape{1}, []float32{-1}),
	}, nil)
	for w := range quant.Weights(file, nil) {
		findings, err := w.Check(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, f := range findings {
			fmt.Println(f.Err)
		}
	}
	// Output:
	// malformed: tensor "up.weight": 1 scales of 1 are negative
	// malformed: tensor "up.weight": 1 codes of 2 are NaN
}
