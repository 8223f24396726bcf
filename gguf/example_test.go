package gguf_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/tensor"
)

// List a file, and decode quantised blocks.
func ExampleOpen() {
	r, err := gguf.Open("../testdata/gguf/align4096.gguf", nil)
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
	r, err := gguf.Open("../testdata/gguf/many.gguf", nil)
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
	file, err := os.ReadFile("../testdata/gguf/quantised.gguf")
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

// Write a file with metadata and a matrix as blocks of Q8_0.
func ExampleWriteFile() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "model.gguf")
	architecture, err := gguf.NewValue("llama")
	if err != nil {
		log.Fatal(err)
	}
	w, err := gguf.Quantize(tensor.New("blk.0.attn_q.weight", tensor.Shape{2, 32},
		make([]float32, 64)), "Q8_0")
	if err != nil {
		log.Fatal(err)
	}
	err = gguf.WriteFile(context.Background(), name, tensor.Of(w), &gguf.WriterOptions{
		Metadata: []gguf.KeyValue{{Key: "general.architecture", Value: architecture}}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := gguf.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.Scheme, t.Shape, t.Size())
	}
	// Output: blk.0.attn_q.weight Q8_0 [2, 32] 68
}

// Another chat template; the tensors and the types of metadata stay as they are.
func ExampleEdit() {
	r, err := gguf.Open("../testdata/gguf/many.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	e := gguf.NewEdit(r)
	if err := e.SetAttribute("tokenizer.chat_template", "{{ messages }}"); err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer // or WriteFile
	if err := e.Write(context.Background(), &file, nil); err != nil {
		log.Fatal(err)
	}
	edited, err := gguf.OpenBytes(file.Bytes(), nil)
	if err != nil {
		log.Fatal(err)
	}
	template, _ := edited.Value("tokenizer.chat_template")
	fmt.Println(template.Type(), template, edited.Len() == r.Len())
	// Output: string {{ messages }} true
}
