package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/remote"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// List a large model on a server: one request is enough.
func Example() {
	var model bytes.Buffer
	w := safetensors.NewWriter(&model, nil)
	w.Add(tensor.New("bias", tensor.Shape{4}, []float32{1, 2, 3, 4}))
	w.Add(tensor.New("weight", tensor.Shape{4, 1 << 20}, make([]float32, 4<<20)))
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "model.safetensors", time.Time{}, bytes.NewReader(model.Bytes()))
	}))
	defer server.Close()

	r, err := remote.Open(context.Background(), server.URL+"/model.safetensors", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	f, err := tensorfile.NewReader(r, r.Size(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	for t := range f.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape)
	}
	fmt.Println(r.Stats().Requests, "request")
	// Output:
	// bias float32 [4]
	// weight float32 [4, 1048576]
	// 1 request
}

// A small read of a large file takes a small part of it.
func ExampleOpen() {
	model := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "model.pte", time.Time{}, bytes.NewReader(model))
	}))
	defer server.Close()

	r, err := remote.Open(context.Background(), server.URL+"/model.pte", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	head, err := io.ReadAll(io.NewSectionReader(r, 0, 20))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s of %d bytes\n", head, r.Size())
	fmt.Printf("%+v\n", r.Stats())
	// Output:
	// 0123456789abcdef0123 of 16777216 bytes
	// {Requests:1 Bytes:65536}
}
