package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tensorfile/tensorfile/remote"
)

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
