package torch_test

import (
	"fmt"

	"github.com/tensorfile/tensorfile/bridge/torch"
)

// The tensors of a checkpoint, and the names in its pickle that Python would import.
func ExampleOpen() {
	r, err := torch.Open("../../testdata/torch/module.pt", nil)
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
	// _parameters.weight float32 [3, 2]
	// _parameters.bias float32 [3]
	// torch.nn.modules.linear.Linear at byte 2 of data.pkl
}
