package convert_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/tensor"
)

// Convert, and know what is lost.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	in, out := filepath.Join(dir, "in.safetensors"), filepath.Join(dir, "out.ptd")
	weights := []*tensor.Tensor{tensor.New("w", tensor.Shape{2}, []float32{1, 2})}
	if err := safetensors.WriteFile(context.Background(), in, tensor.Of(weights...), &safetensors.WriterOptions{Metadata: map[string]string{"license": "MIT"}}); err != nil {
		panic(err)
	}

	f, err := tensorfile.Open(in, nil)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	plan, err := convert.NewPlan(context.Background(), f, tensorfile.PTD, &convert.Options{Allow: convert.LossAttributes})
	if err != nil {
		panic(err)
	}
	for _, loss := range plan.Losses() {
		fmt.Println(loss)
	}
	fmt.Println(plan.WriteFile(context.Background(), out))
	// Output:
	// attributes["license"]: attributes cannot be represented in ptd; allow convert.LossAttributes
	// <nil>
}
