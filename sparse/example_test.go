package sparse_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

func ExampleDensify() {
	dense := tensor.New("m", tensor.Shape{2, 3}, []float32{0, 5, 0, 7, 0, 0})
	compressed, err := sparse.Sparsify(context.Background(), dense, sparse.CSR, nil)
	if err != nil {
		log.Fatal(err)
	}
	columns, err := tensor.Load[uint64](&tensor.Tensor{DType: tensor.U64, Shape: tensor.Shape{2},
		Data: compressed.Part("indices").Data})
	if err != nil {
		log.Fatal(err)
	}
	back, err := sparse.Densify(context.Background(), compressed, nil)
	if err != nil {
		log.Fatal(err)
	}
	values, err := tensor.Load[float32](back)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(columns, values)
	// Output: [1 0] [0 5 0 7 0 0]
}

// The indices of a tensor from a file are checked before they are used.
func ExampleCheck() {
	values := tensor.New("", tensor.Shape{1}, []float32{5})
	coords := tensor.New("", tensor.Shape{2}, []uint64{0, 3})
	s := &tensor.Tensor{Name: "m", DType: tensor.F32, Shape: tensor.Shape{2, 3},
		Scheme: sparse.COO,
		Parts: []tensor.Part{
			{Role: "values", DType: values.DType, Data: values.Data},
			{Role: "coords", DType: coords.DType, Data: coords.Data},
		}}
	fmt.Println(sparse.Check(context.Background(), s, nil))
	// Output: sparse: tensor "m": malformed: coordinate 3 of 3 in dimension 1 at 0
}

// A dense tensor without its zeros.
func ExampleSparsify() {
	dense := tensor.New("m", tensor.Shape{2, 3}, []float32{0, 5, 0, 7, 0, 0})
	s, err := sparse.Sparsify(context.Background(), dense, sparse.COO, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range s.Parts {
		fmt.Println(p.Role, p.DType, p.Data.Size(), "bytes")
	}
	// Output:
	// values float32 8 bytes
	// coords uint64 32 bytes
}
