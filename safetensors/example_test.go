package safetensors_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

var weights = []*tensor.Tensor{
	tensor.New("bias", tensor.Shape{2}, []float32{1, 2}),
	tensor.New("ids", tensor.Shape{3}, []int64{7, 8, 9}),
}

// tempFile returns a name in a new directory, and a function that removes it.
func tempFile(name string) (string, func()) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, name), func() { os.RemoveAll(dir) }
}

func Example() {
	name, remove := tempFile("model.safetensors")
	defer remove()
	opts := &safetensors.WriterOptions{Attributes: map[string]string{"format": "pt"}}
	if err := safetensors.WriteFile(context.Background(), name, tensor.Of(weights...),
		opts); err != nil {
		panic(err)
	}

	r, err := safetensors.Open(name, nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	fmt.Println(tensor.Load[float32](r.Tensor("bias")))
	// Output:
	// ids int64 [3] 24
	// bias float32 [2] 8
	// [1 2] <nil>
}

func ExampleLoad() {
	name, remove := tempFile("model.safetensors")
	defer remove()
	if err := safetensors.Save(name,
		map[string]*tensor.Tensor{"bias": weights[0], "ids": weights[1]}); err != nil {
		panic(err)
	}
	m, err := safetensors.Load(name)
	if err != nil {
		panic(err)
	}
	fmt.Println(slices.Sorted(maps.Keys(m)))
	fmt.Println(tensor.Load[int64](m["ids"]))
	// Output:
	// [bias ids]
	// [7 8 9] <nil>
}

// A checkpoint in shards of at most 20 bytes of data replaces the one before as a whole.
func ExampleWriteShards() {
	name, remove := tempFile("model.safetensors")
	defer remove()
	for step := range 2 {
		files, err := safetensors.WriteShards(context.Background(), name, tensor.Of(weights...),
			&safetensors.ShardOptions{
				MaxSize: 20, ID: fmt.Sprint("step ", step)})
		if err != nil {
			panic(err)
		}
		r, err := safetensors.Open(files[len(files)-1], nil)
		if err != nil {
			panic(err)
		}
		fmt.Println(slices.Collect(r.Shards()))
		for k, v := range r.Attributes() {
			fmt.Println(k, v)
		}
		r.Close()
	}
	// Output:
	// [model-00001-of-00002.safetensors model-00002-of-00002.safetensors]
	// shard_set_id step 0
	// total_size 32
	// [model-00001-of-00002.safetensors model-00002-of-00002.safetensors]
	// shard_set_id step 1
	// total_size 32
}

func ExampleNewEdit() {
	name, remove := tempFile("model.safetensors")
	defer remove()
	if err := safetensors.WriteFile(context.Background(), name, tensor.Of(weights...),
		nil); err != nil {
		panic(err)
	}
	r, err := safetensors.Open(name, nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	e := safetensors.NewEdit(r)
	if err := e.Rename("bias", "fc.bias"); err != nil {
		panic(err)
	}
	if err := e.Remove("ids"); err != nil {
		panic(err)
	}
	if err := e.SetAttribute("format", "pt"); err != nil {
		panic(err)
	}
	if err := e.WriteFile(context.Background(), name,
		nil); err != nil { // the file that r has open
		panic(err)
	}
	m, err := safetensors.Load(name)
	fmt.Println(slices.Collect(maps.Keys(m)), err)
	// Output: [fc.bias] <nil>
}

// Stream gives a request a body of a known length, and ReadHeader lists what arrives.
func ExampleStream() {
	body, size, err := safetensors.Stream(tensor.Of(weights...), nil)
	if err != nil {
		panic(err)
	}
	defer body.Close()

	r, err := safetensors.ReadHeader(body, size, nil)
	if err != nil {
		panic(err)
	}
	for t := range r.Tensors() {
		data := make([]byte, t.Size())
		if _, err := io.ReadFull(body, data); err != nil { // they follow in this order
			panic(err)
		}
		fmt.Println(t.Name, data[:2])
	}
	// Output:
	// ids [7 0]
	// bias [0 0]
}

func ExampleNewWriter() {
	var file bytes.Buffer
	w := safetensors.NewWriter(&file, &safetensors.WriterOptions{KeepOrder: true})
	for _, t := range weights {
		if err := w.Add(t); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	r, err := safetensors.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()), nil)
	if err != nil {
		panic(err)
	}
	_, err = r.Verify(context.Background(), nil)
	fmt.Println(r.Len(), err)
	// Output: 2 <nil>
}

func ExampleParseIndex() {
	index := `{"metadata": {"total_size": 32},
		"weight_map": {"bias": "1.safetensors", "ids": "2.safetensors"}}`
	x, err := safetensors.ParseIndex([]byte(index), tensor.Limits{})
	if err != nil {
		panic(err)
	}
	for name, file := range x.Weights() {
		fmt.Println(name, "is in", file)
	}
	// Output:
	// bias is in 1.safetensors
	// ids is in 2.safetensors
}
