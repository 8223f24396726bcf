package safetensors_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "model.safetensors")

	weights := []*tensor.Tensor{
		tensor.New("bias", tensor.Shape{2}, []float32{1, 2}),
		tensor.New("ids", tensor.Shape{3}, []int64{7, 8, 9}),
	}
	opts := &safetensors.WriterOptions{Metadata: map[string]string{"format": "pt"}}
	if err := safetensors.WriteFile(context.Background(), name, tensor.Of(weights...), opts); err != nil {
		panic(err)
	}

	r, err := safetensors.Open(name, nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	fmt.Println(tensor.Load[float32](r.Tensor("bias")))
	// Output:
	// ids int64 [3] 24
	// bias float32 [2] 8
	// [1 2] <nil>
}
