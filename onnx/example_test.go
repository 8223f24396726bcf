package onnx_test

import (
	"context"
	"fmt"

	"github.com/tensorfile/tensorfile/onnx"
	"github.com/tensorfile/tensorfile/tensor"
)

// The inputs and outputs of a model, without a session of onnxruntime.
func ExampleOpen() {
	r, err := onnx.Open("../testdata/onnx/matmul.onnx", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	g := r.Model().Graph
	for v := range g.InputsOnly() {
		fmt.Println("input", v.Name, v.Type)
	}
	for _, v := range g.Outputs {
		fmt.Println("output", v.Name, v.Type)
	}
	for i := range g.Nodes {
		fmt.Println(g.Nodes[i].Operator(), g.Nodes[i].Inputs, g.Nodes[i].Outputs)
	}
	for t := range r.Tensors() {
		fmt.Println("tensor", t.Name, t.DType, t.Shape)
	}
	// Output:
	// input x float32 [batch, 4]
	// output y float32 [batch, 3]
	// MatMul [x w] [y]
	// tensor w float32 [4, 3]
}

// Elements in another file are read like all others, by range.
func ExampleReader_Tensor() {
	r, err := onnx.Open("../testdata/onnx/external.onnx", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for _, f := range r.DataFiles() {
		fmt.Println(f.Tensors, "tensors in", f.Name)
	}
	w := r.Tensor("w1")
	values, err := tensor.Convert[float32](w) // of int4
	fmt.Println(w.DType, w.Shape, len(values), err)
	// Output:
	// 5 tensors in external.bin
	// int4 [3, 2] 6 <nil>
}

// Everything that is wrong with a model and its other files.
func ExampleReader_Verify() {
	r, err := onnx.Open("../testdata/onnx/external.onnx", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	report, err := r.Verify(context.Background(), nil)
	fmt.Println(len(report.Findings), err)
	// Output: 0 <nil>
}
