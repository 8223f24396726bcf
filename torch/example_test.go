package torch_test

import (
	"fmt"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/torch"
)

// The tensors of a checkpoint, and the names in its pickle that Python would import.
func ExampleOpen() {
	r, err := torch.Open("../testdata/torch/module.pt", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape)
	}
	for g := range r.Globals() {
		if !g.Known {
			fmt.Println(g, "at byte", g.Offset, "of", g.Pickle)
		}
	}
	// Output:
	// weight float32 [3, 2]
	// bias float32 [3]
	// torch.nn.modules.linear.Linear at byte 2 of data.pkl
}

// A weight as float32, whatever its dtype and strides.
func ExampleReader_Tensor() {
	r, err := torch.Open("../testdata/torch/module.pt", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	bias, err := tensor.Convert[float32](r.Tensor("bias"))
	fmt.Println(bias, err)
	// Output: [0.16342558 -0.66453797 -0.2605106] <nil>
}
