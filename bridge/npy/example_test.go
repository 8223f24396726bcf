package npy_test

import (
	"bytes"
	"fmt"

	"github.com/tensorfile/tensorfile/bridge/npy"
	"github.com/tensorfile/tensorfile/tensor"
)

func ExampleWriter() {
	var file bytes.Buffer
	w := npy.NewWriter(&file, nil)
	if err := w.Add(tensor.New("layer/bias", tensor.Shape{2}, []float32{1, 2})); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	r, err := npy.OpenBytes(file.Bytes(), nil)
	if err != nil {
		panic(err)
	}
	for t := range r.Tensors() {
		xs, err := tensor.Float32s(t)
		fmt.Println(t.Name, t.DType, t.Shape, xs, err)
	}
	// Output: layer/bias float32 [2] [1 2] <nil>
}

func ExampleWriteArray() {
	var file bytes.Buffer
	err := npy.WriteArray(&file, tensor.New("", tensor.Shape{3}, []int64{1, 2, 3}))
	fmt.Printf("%q %v\n", file.Bytes()[10:69], err)
	// Output: "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }  " <nil>
}
