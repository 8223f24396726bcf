package pte_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfile/tensorfile/pte"
	"github.com/tensorfile/tensorfile/tensor"
)

// The inputs of a program, and its work.
func Example() {
	r, err := pte.Open("../testdata/pte/export-1.5.1-two-layers.pte", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for m := range r.Program().Methods() {
		fmt.Println(m.Name(), m.Inputs(), m.Outputs(), m.Memory().Buffers)
		fmt.Println(m.Operators())
	}
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	_, err = r.Verify(context.Background(), nil)
	fmt.Println("would run:", err == nil)
	// Output:
	// forward [float32[1, 4]] [float32[1, 2]] [0 176]
	// [aten::permute_copy.out aten::addmm.out aten::relu.out aten::mm.out aten::_softmax.out]
	// forward/0 float32 [8, 4] 128
	// forward/1 float32 [8] 32
	// forward/2 float32 [2, 8] 64
	// would run: true
}

// Someone who has no Python at all: a program made in Go that ExecuTorch runs.
func ExampleBuilder() {
	p := pte.NewBuilder()
	m := p.Method("forward")
	x := m.Input(tensor.F32, tensor.Shape{2, 3})
	w := m.Constant(tensor.New("w", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}))
	y := m.Tensor(tensor.F32, tensor.Shape{2, 3})
	m.Call("aten::add.out", x, w, m.Value(1), y, y)
	m.Return(y)
	p.Metadata("get_version", 7)

	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "add.pte")
	if err := p.WriteFile(context.Background(), name, nil); err != nil {
		log.Fatal(err)
	}
	r, err := pte.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for k, v := range r.Program().Metadata() {
		fmt.Println(k, v)
	}
	f, _ := r.Program().Method("forward")
	for i := range f.Instructions() {
		fmt.Println(i)
	}
	// Output:
	// get_version 7
	// aten::add.out(0, 1, 3, 2, 2)
}

// New weights for a program, the rest of it untouched.
func ExampleEdit_Replace() {
	r, err := pte.Open("../testdata/pte/export-1.5.1-methods.pte", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	zero := *r.Tensor("decode/0")
	zero.Data = tensor.BlobOf(make([]byte, zero.Data.Size()))

	edit := pte.NewEdit(r)
	fmt.Println(edit.Replace("decode/0", &zero))
	edit.AllowShared = true
	fmt.Println(edit.Replace("decode/0", &zero))
	fmt.Println(edit.Write(context.Background(), io.Discard, nil))
	// Output:
	// pte: tensors["decode/0"]: unsupported operation: it shares its bytes with "encode/0"
	// <nil>
	// <nil>
}

// Weights apart from the program, for a .ptd, and back.
func ExampleEdit_Externalize() {
	r, err := pte.Open("../testdata/pte/export-1.5.1-linear.pte", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	edit := pte.NewEdit(r)
	weights, err := edit.Externalize(nil) // for ptd.WriteFile
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "lean.pte")
	if err := edit.WriteFile(context.Background(), name, nil); err != nil {
		log.Fatal(err)
	}
	lean, err := pte.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer lean.Close()
	for t := range lean.Tensors() {
		fmt.Println(t.Name, t.Shape, "external:", t.External)
	}
	lookup := func(name string) *tensor.Tensor {
		if i := slices.IndexFunc(weights,
			func(t *tensor.Tensor) bool { return t.Name == name }); i >= 0 {
			return weights[i]
		}
		return nil
	}
	n, err := pte.NewEdit(lean).Internalize(lookup)
	fmt.Println(n, "came back", err)
	// Output:
	// forward/0 [2, 3] external: true
	// forward/1 [2] external: true
	// 2 came back <nil>
}

// A program that the runtime would not run: every finding, with its place.
func ExampleReader_Verify() {
	b, err := os.ReadFile("../testdata/pte/export-1.5.1-linear.pte")
	if err != nil {
		log.Fatal(err)
	}
	_, err = pte.OpenBytes(b[:len(b)-1], nil)
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		fmt.Println(fe.Field, tensor.ClassOf(err))
	}
	// Output:
	// extended_header.segment_data_size truncated
}
