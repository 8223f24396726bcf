package npz_test

import (
	"bytes"
	"fmt"

	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/tensor"
)

func ExampleWriter() {
	var file bytes.Buffer
	w := npz.NewWriter(&file, nil)
	if err := w.Add(tensor.New("layer/bias", tensor.Shape{2}, []float32{1, 2})); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	r, err := npz.OpenBytes(file.Bytes(), nil)
	if err != nil {
		panic(err)
	}
	for t := range r.Tensors() {
		xs, err := tensor.Convert[float32](t)
		fmt.Println(t.Name, t.DType, t.Shape, xs, err)
	}
	// Output: layer/bias float32 [2] [1 2] <nil>
}

// List an archive and read an array, compressed or not.
func ExampleOpen() {
	r, err := npz.Open("../testdata/npy/one-be-deflated.npz", nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		xs, err := tensor.Convert[float64](t)
		fmt.Println(t.Name, t.DType, t.Shape, len(xs), err)
	}
	// Output: a uint16 [4] 4 <nil>
}
