package convert_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/convert"
	"github.com/tensorfile/tensorfile/safetensors"
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
	if err := safetensors.WriteFile(context.Background(), in, tensor.Of(weights...),
		&safetensors.WriterOptions{Attributes: map[string]string{"license": "MIT"}}); err != nil {
		panic(err)
	}

	f, err := tensorfile.Open(in, nil)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	plan, err := convert.NewPlan(context.Background(), f, tensorfile.PTD,
		&convert.Options{Allow: convert.LossAttributes})
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

// Names and dtypes by tensor: norms in full precision, the rest in bfloat16, and no state
// of an optimizer.
func ExampleNewPlan() {
	f := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("model.mlp.weight", tensor.Shape{2}, []float32{1, 2}),
		tensor.New("model.norm.weight", tensor.Shape{2}, []float32{1, 2}),
		tensor.New("optimizer.step", nil, []int64{7}),
	}, nil)
	plan, err := convert.NewPlan(context.Background(), f, tensorfile.Safetensors, &convert.Options{
		Map: func(t *tensor.Tensor) (name string, dtype tensor.DType, keep bool) {
			name = strings.TrimPrefix(t.Name, "model.")
			if strings.HasSuffix(t.Name, "norm.weight") {
				return name, tensor.F32, true
			}
			return name, tensor.BF16, !strings.HasPrefix(t.Name, "optimizer.")
		},
	})
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	if err := plan.Write(context.Background(), &out); err != nil {
		panic(err)
	}
	r, err := safetensors.OpenBytes(out.Bytes(), nil)
	if err != nil {
		panic(err)
	}
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType)
	}
	// Output:
	// norm.weight float32
	// mlp.weight bfloat16
}

// Files by their names; losses that are not allowed are one error, before a byte is
// written.
func ExampleFile() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	in, out := "../testdata/npy/column-be.npy", filepath.Join(dir, "out.safetensors")
	err = convert.File(context.Background(), in, out, nil)
	var losses *convert.LossError
	if errors.As(err, &losses) {
		var allow convert.LossKind
		for _, g := range convert.GroupLosses(losses.Losses) {
			fmt.Println(g)
			allow |= g.Kind
		}
		err = convert.File(context.Background(), in, out, &convert.Options{Allow: allow})
	}
	fmt.Println(err)
	// Output:
	// tensors["data"]: the order [2 1 0] cannot be represented in safetensors, which is row-major (reorder)
	// <nil>
}

// New weights by name, wherever they are: in the program, or in its .ptd.
func ExampleSetWeights() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program, data := filepath.Join(dir, "model.pte"), filepath.Join(dir, "model.ptd")
	for to, from := range map[string]string{program: "some.pte", data: "some.ptd"} {
		b, err := os.ReadFile("../testdata/pte/export-1.5.1-external-" + from)
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(to, b, 0o666); err != nil {
			panic(err)
		}
	}

	old, err := tensorfile.Open(program, nil)
	if err != nil {
		panic(err)
	}
	weights := map[string]*tensor.Tensor{}
	for t := range old.Tensors() {
		n, _ := t.Shape.Elements()
		weights[t.Name] = tensor.New(t.Name, t.Shape, make([]float32, n))
		fmt.Println(t.Name, t.DType, t.Shape, "in the .ptd:", t.External)
	}
	old.Close()
	fmt.Println(convert.SetWeights(context.Background(), program, data, weights))
	// Output:
	// first.weight float32 [8, 4] in the .ptd: true
	// first.bias float32 [8] in the .ptd: true
	// forward/2 float32 [2, 8] in the .ptd: false
	// <nil>
}
