package s3_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/cloud/s3"
)

// A compatible store is an Endpoint; FromEnv takes credentials, too.
func Example() {
	files := http.FileServer(http.Dir("../../testdata/safetensors"))
	server := httptest.NewServer(http.StripPrefix("/models/", files))
	defer server.Close()

	store, err := s3.New(&s3.Options{Endpoint: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	r, size, err := store.Open(context.Background(), "s3://models/scalar-and-zero.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	f, err := tensorfile.NewReader(r, size, nil)
	if err != nil {
		log.Fatal(err)
	}
	for t := range f.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape)
	}
	// Output:
	// z int64 [0]
	// zz float64 [3, 0, 2]
	// s float32 []
	// b bool []
}
