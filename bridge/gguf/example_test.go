package gguf_test

import (
	"bytes"
	"fmt"
	"log"
	"os"

	"github.com/tensorfile/tensorfile/bridge/gguf"
	"github.com/tensorfile/tensorfile/tensor"
)

// List a file, and decode quantised blocks.
func ExampleOpen() {
	r, err := gguf.Open("../../testdata/gguf/align4096.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Scheme, t.Shape)
	}
	xs, err := tensor.Convert[float32](r.Tensor("b"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(xs))
	// Output:
	// a float16  [5]
	// b unknown Q4_0 [3, 64]
	// c int8  [1, 1]
	// 192
}

// Metadata has types; of a vocabulary the first tokens are enough here.
func ExampleReader_Value() {
	r, err := gguf.Open("../../testdata/gguf/many.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	tokens, ok := r.Value("tokenizer.ggml.tokens")
	if !ok {
		log.Fatal("no vocabulary")
	}
	elem, n, _ := tokens.Array()
	fmt.Println(elem, n, tokens.Any(3))
	// Output: string 500 [t0 t1 t2]
}

// A registry lists a layer while it arrives, without its data.
func ExampleReadHeader() {
	file, err := os.ReadFile("../../testdata/gguf/quantised.gguf")
	if err != nil {
		log.Fatal(err)
	}
	layer := bytes.NewReader(file) // or the body of a request
	r, err := gguf.ReadHeader(layer, int64(len(file)), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Version(), r.Len(), "tensors,", layer.Len(), "bytes are not read")
	// Output: 3 16 tensors, 49152 bytes are not read
}
