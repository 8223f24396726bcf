package rten_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
)

// A maintainer of .rten models looks at one.
func ExampleOpen() {
	r, err := rten.Open("../testdata/rten/convert-0.22.0-control.rten", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape)
	}
	lowest, because := r.Model().Requires()
	fmt.Println("runs in RTen", lowest, "because of", because[0].What)
	// Output:
	// trips int32 []
	// nodes[6].then_branch.nodes[2].then_branch/k float32 [3]
	// nodes[6].then_branch.nodes[2].else_branch/big float32 [6, 3]
	// nodes[6].else_branch/k float32 [3]
	// runs in RTen 0.22.0 because of operator Loop
}

// A weight without a copy, or with one where it must be.
func ExampleReader_Tensor() {
	r, err := rten.Open("../testdata/rten/rust-0.23.0-v2.rten", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	w := r.Tensor("#0") // the constants of this file have no names
	xs, err := tensor.View[float32](w)
	if errors.Is(err, tensor.ErrNoView) { // misaligned, not mapped, other byte order
		xs, err = tensor.Load[float32](w)
	}
	fmt.Println(xs, err)
	// Output: [1 2 3 4 5 6] <nil>
}

// Nodes are constants, values, and operators with their attributes.
func ExampleGraph_Nodes() {
	g := rten.NewGraphBuilder()
	x := g.Input("x", tensor.F32, rten.Symbol("batch"), rten.Fixed(2))
	w := g.Constant(tensor.New("w", tensor.Shape{2, 2}, []float32{1, 2, 3, 4}))
	g.Output("y", g.Op("Gemm", rten.Attrs{"transpose_b": true}, x, w))
	var file bytes.Buffer
	if err := g.Write(context.Background(), &file, nil); err != nil {
		fmt.Println(err)
		return
	}
	r, err := rten.OpenBytes(file.Bytes(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range r.Model().Graph().Nodes() {
		fmt.Println(n.Index(), n.Kind(), n.Label())
		if v, ok := n.Value(); ok {
			if dims, ok := v.Shape(); ok {
				fmt.Println("  shape", dims)
			}
		}
		if op, ok := n.Operator(); ok {
			fmt.Println("  ", op.Type(), op.Inputs(), "to", op.Outputs())
			for a := range op.Attributes() {
				fmt.Println("  ", a.Name, a.Value)
			}
		}
	}
	// Output:
	// 0 value x
	//   shape [batch 2]
	// 1 constant w
	// 2 value y
	// 3 operator #3
	//    Gemm [0 1] to [2]
	//    alpha 1
	//    beta 1
	//    transpose_a false
	//    transpose_b true
}

// A model made in Go, with a loop whose body captures a value.
func ExampleGraphBuilder() {
	g := rten.NewGraphBuilder()
	g.SetMetadata("license", "MIT")
	x := g.Input("x", tensor.F32, rten.Fixed(3))
	body := g.Subgraph()
	body.Input("i", tensor.I32, []rten.Dim{}...)
	rest := body.Input("more", tensor.I32, []rten.Dim{}...)
	sum := body.Input("sum", tensor.F32)
	body.Output("again", body.Op("Identity", nil, rest))
	body.Output("next", body.Op("Add", nil, sum, x))
	times := g.Constant(tensor.New("times", nil, []int32{3}))
	g.Output("y", g.Op("Loop", rten.Attrs{"body": body}, times, rten.Ref{}, x))

	name := os.TempDir() + "/loop.rten"
	defer os.Remove(name)
	if err := g.WriteFile(context.Background(), name, nil); err != nil {
		fmt.Println(err)
		return
	}
	r, err := rten.Open(name, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	_, err = r.Verify(context.Background(), &tensor.VerifyOptions{Strict: true})
	fmt.Println(r.Version(), err)
	for sub := range r.Model().Graphs() {
		fmt.Printf("%q has %d nodes\n", sub.Path(), sub.Len())
	}
	// Output:
	// 2 <nil>
	// "" has 4 nodes
	// "nodes[3].body" has 8 nodes
}

// New weights and metadata for a model, and a version that old releases read.
func ExampleEdit() {
	r, err := rten.Open("../testdata/rten/rust-0.23.0-v2.rten", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	e := rten.NewEdit(r)
	err = errors.Join(
		e.Replace("#0", tensor.New("", tensor.Shape{2, 3}, []float32{6, 5, 4, 3, 2, 1})),
		e.SetAttribute("description", "upside down"),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	var file bytes.Buffer
	if err := e.Write(context.Background(), &file, &rten.WriterOptions{Version: "1"}); err != nil {
		fmt.Println(err)
		return
	}
	changed, err := rten.OpenBytes(file.Bytes(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := tensor.Load[float32](changed.Model().Constant(0).Tensor())
	fmt.Println(changed.Version(), w, err)
	for k, v := range changed.Attributes() {
		fmt.Println(k, v)
	}
	// Output:
	// 1 [6 5 4 3 2 1] <nil>
	// onnx_hash 0123
	// description upside down
}

// The operator that computes a value, who reads it, and which operators own graphs.
func ExampleNode_Producer() {
	r, err := rten.Open("../testdata/rten/convert-0.22.0-control.rten", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for graph := range r.Model().Graphs() {
		for n := range graph.Nodes() {
			op, ok := n.Operator()
			if !ok {
				continue
			}
			for name, sub := range op.Subgraphs() {
				fmt.Println(op.Type(), name, sub.Len(), "nodes")
			}
		}
	}
	graph := r.Model().Graph()
	for _, i := range graph.Outputs() {
		y, _ := graph.Lookup(graph.Node(i).Label())
		op, _ := y.Producer()
		fmt.Println(y.Label(), "is computed by", op.Type())
	}
	for _, i := range graph.Inputs() {
		for op := range graph.Node(i).Consumers() {
			fmt.Println(graph.Node(i).Label(), "is read by", op.Type())
		}
	}
	// Output:
	// If then_branch 3 nodes
	// If else_branch 4 nodes
	// Loop body 8 nodes
	// If then_branch 4 nodes
	// If else_branch 4 nodes
	// y is computed by If
	// sum is computed by Loop
	// x is read by Loop
	// c is read by If
}

// The attributes of an operator by their types.
func ExampleOperator_Float() {
	r, err := rten.Open("../testdata/rten/convert-0.22.0-operators.rten", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	for n := range r.Model().Graph().Nodes() {
		op, ok := n.Operator()
		if !ok {
			continue
		}
		switch op.Type() {
		case rten.OpGemm:
			alpha, _ := op.Float("alpha")
			transposed, _ := op.Int("transpose_b")
			fmt.Println("Gemm", alpha, transposed)
		case rten.OpConv:
			strides, _ := op.Ints("strides")
			pad, _ := op.Enum("auto_pad")
			fmt.Println("Conv", strides, pad)
		}
	}
	// Output:
	// Conv [1 2] NotSet
	// Conv [1 1] Same
	// Gemm 0.5 1
}
