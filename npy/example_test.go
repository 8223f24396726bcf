package npy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile/npy"
	"github.com/tensorfile/tensorfile/tensor"
)

func ExampleRead() {
	dir, err := os.MkdirTemp("", "npy")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "w.npy")
	if err := npy.Write(name, tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}); err != nil {
		panic(err)
	}
	values, shape, err := npy.Read[float32](name)
	fmt.Println(values, shape, err)
	// Output: [1 2 3 4 5 6] [2, 3] <nil>
}

func ExampleWriter() {
	var file bytes.Buffer
	w := npy.NewWriter(&file, nil)
	if err := w.Add(tensor.New("", tensor.Shape{3}, []int64{1, 2, 3})); err != nil {
		panic(err)
	}
	fmt.Printf("%q %v\n", file.Bytes()[10:69], w.Close())
	// Output: "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }  " <nil>
}

// The header, and the elements.
func ExampleOpen() {
	r, err := npy.Open("../testdata/npy/column-be.npy", nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.DType, t.Shape, t.Order.RowMajor(), t.Size())
		xs, err := tensor.Convert[float64](t) // row-major, whatever the file has
		fmt.Println(xs[:4], err)
	}
	// Output:
	// uint16 [2, 3, 4] false 48
	// [18922 34072 39212 11548] <nil>
}
