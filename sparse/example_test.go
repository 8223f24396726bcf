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
	columns, err := tensor.Load[uint64](&tensor.Tensor{DType: tensor.U64, Shape: tensor.Shape{2}, Data: compressed.Part("indices").Data})
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
