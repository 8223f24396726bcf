package ztensor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A file of which one tensor comes piece by piece.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "ztensor")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	w, err := ztensor.Create(filepath.Join(dir, "out.zt"),
		&ztensor.WriterOptions{Version: "1.0", Digest: ztensor.CRC32C, Level: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Abort() // does nothing after Close
	if err := w.Add(tensor.New("bias", tensor.Shape{4}, []float32{1, 2, 3, 4})); err != nil {
		log.Fatal(err)
	}
	part, err := w.Create("embedding", tensor.F16, tensor.Shape{1000, 16})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(part, bytes.NewReader(make([]byte, 32_000))); err != nil {
		log.Fatal(err)
	}
	if err := part.Close(); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil { // the file appears whole, or not at all
		log.Fatal(err)
	}

	r, err := ztensor.Open(filepath.Join(dir, "out.zt"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	// Output:
	// bias float32 [4] 16
	// embedding float16 [1000, 16] 32000
}

func ExampleNewWriter() {
	var file bytes.Buffer
	w := ztensor.NewWriter(&file,
		&ztensor.WriterOptions{Attributes: map[string]any{"license": "MIT"}})
	ts := []*tensor.Tensor{tensor.New("a", tensor.Shape{2}, []int32{1, 2}),
		tensor.New("b", nil, []float64{3})}
	if err := w.AddAll(context.Background(), tensor.Of(ts...)); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	r, err := ztensor.OpenBytes(file.Bytes(), nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = r.Verify(context.Background(), nil)
	fmt.Println(r.Version(), r.Len(), err)
	for name, value := range r.Attributes() {
		fmt.Println(name, value)
	}
	// Output:
	// 2 2 <nil>
	// license MIT
}

// List a file, and read a tensor.
func ExampleOpen() {
	r, err := ztensor.Open("../testdata/ztensor/crate-2.1.1-logical.zt", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	n := 0
	for t := range r.Tensors() {
		if n++; n == 1 {
			fmt.Println(t.Name, t.DType, t.Shape, t.Size())
		}
	}
	fmt.Println(r.Version(), n)
	// Output:
	// bool bool [5] 5
	// 2 11
}

// Rows 10 to 20 of a compressed tensor: only the frames that have them are decoded.
func ExampleReader_Tensor() {
	var file bytes.Buffer
	w := ztensor.NewWriter(&file, &ztensor.WriterOptions{Level: 3})
	values := make([]float32, 1000*4)
	for i := range values {
		values[i] = float32(i / 4)
	}
	if err := w.Add(tensor.New("w", tensor.Shape{1000, 4}, values)); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	r, err := ztensor.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()), nil)
	if err != nil {
		log.Fatal(err)
	}
	part, err := tensor.Slice(r.Tensor("w"), tensor.Range{Start: 10, Stop: 20}, tensor.At(0))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor.Convert[float32](part))
	// Output: [10 11 12 13 14 15 16 17 18 19] <nil>
}
