package ptn_test

import (
	"fmt"

	"github.com/tensorfile/tensorfile/ptn"
	"github.com/tensorfile/tensorfile/tensor"
)

// List the weights of a package, and which of them are other names, and read one.
func ExampleOpen() {
	r, err := ptn.Open("../testdata/ptn/export-1.5.1-tied.ptn", nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		owner, isAlias := r.Owner(t.Name)
		fmt.Printf("%s %v%v %v %q\n", t.Name, t.DType, t.Shape, isAlias, owner)
	}
	xs, err := tensor.Load[float32](r.Tensor("layers.2.bias"))
	fmt.Println(len(xs), err)
	// Output:
	// layers.0.bias float32[4] false ""
	// layers.0.weight float32[4, 4] false ""
	// layers.3.bias float32[4] false ""
	// layers.3.weight float32[4, 4] false ""
	// layers.1.bias float32[4] true "layers.0.bias"
	// layers.1.weight float32[4, 4] true "layers.0.weight"
	// layers.2.bias float32[4] true "layers.0.bias"
	// layers.2.weight float32[4, 4] true "layers.0.weight"
	// 4 <nil>
}

// Show what the methods of a program compute.
func ExampleReader_Methods() {
	r, err := ptn.Open("../testdata/ptn/export-1.5.1-linear.ptn", nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for m := range r.Methods() {
		fmt.Println("method", m.Name())
		for c := range m.Constants() {
			fmt.Println(c.Kind, c.Name, c.Key, c.Info)
		}
		for n := range m.Graph().Nodes() {
			if n.Operator != "" {
				fmt.Println(n.Name, n.Operator)
			}
		}
	}
	// Output:
	// method forward
	// parameter p_fc_weight fc.weight float32[2, 3]
	// parameter p_fc_bias fc.bias float32[2]
	// aten_linear_default torch.ops.aten.linear.default
	// aten_relu__default torch.ops.aten.relu_.default
}
