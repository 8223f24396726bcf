package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

// shards writes a model of two shards and an index into a directory.
func shards() (dir string) {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		panic(err)
	}
	weights := tensor.Of(
		tensor.New("embed.weight", tensor.Shape{4, 2}, []float32{1, 2, 3, 4, 5, 6, 7, 8}),
		tensor.New("head.weight", tensor.Shape{2, 2}, []float32{1, 2, 3, 4}),
	)
	_, err = safetensors.WriteShards(context.Background(), filepath.Join(dir, "model.safetensors"),
		weights,
		&safetensors.ShardOptions{MaxSize: 32})
	if err != nil {
		panic(err)
	}
	return dir
}

// Is this model directory whole?
func ExampleCheck() {
	dir := shards()
	defer os.RemoveAll(dir)
	os.Truncate(filepath.Join(dir, "model-00002-of-00002.safetensors"), 90)

	report, err := model.Check(context.Background(), dir, &model.CheckOptions{Deep: true})
	if report == nil {
		panic(err) // the directory could not be read
	}
	for _, f := range report.Findings {
		fmt.Println(f.Severity, f.Code, f.File, f.Tensors)
	}
	fmt.Println(report.OK, errors.Is(err, io.ErrUnexpectedEOF))
	// Output:
	// error truncated model-00002-of-00002.safetensors 1
	// false true
}

// How many parameters does a model have?
func ExampleOpen() {
	dir := shards()
	defer os.RemoveAll(dir)

	m, err := model.Open(dir, nil)
	if err != nil {
		panic(err)
	}
	defer m.Close()
	s := m.Summary()
	fmt.Println(s.Shards, "shards,", s.Parameters, "parameters,", s.ByDType[tensor.F32].Bytes,
		"bytes of float32")
	for t := range m.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape)
	}
	// Output:
	// 2 shards, 12 parameters, 48 bytes of float32
	// embed.weight float32 [4, 2]
	// head.weight float32 [2, 2]
}

// A model in any file system, as one file for the packages that take one.
func ExampleOpenFS() {
	dir := shards()
	defer os.RemoveAll(dir)

	m, err := model.OpenFS(os.DirFS(dir), ".", nil)
	if err != nil {
		panic(err)
	}
	defer m.Close()
	t, err := m.File().Lookup("head.weight")
	if err != nil {
		panic(err)
	}
	fmt.Println(tensor.Load[float32](t))
	// Output: [1 2 3 4] <nil>
}

// Which files are needed for one of them?
func ExampleShards() {
	dir := shards()
	defer os.RemoveAll(dir)

	fmt.Println(model.Shards(os.DirFS(dir), "model-00001-of-00002.safetensors"))
	os.Remove(filepath.Join(dir, "model-00001-of-00002.safetensors"))
	files, err := model.Shards(os.DirFS(dir), "model.safetensors.index.json")
	fmt.Println(files, errors.Is(err, fs.ErrNotExist))
	fmt.Println(err)
	// Output:
	// [model-00001-of-00002.safetensors model-00002-of-00002.safetensors] <nil>
	// [model-00002-of-00002.safetensors] true
	// model: 1 of 2 files are missing: "model-00001-of-00002.safetensors": file does not exist
}

// A registry checks a model whose shards it has opened by itself.
func ExampleSummaryOf() {
	dir := shards()
	defer os.RemoveAll(dir)

	names, err := model.Shards(os.DirFS(dir), "model-00001-of-00002.safetensors")
	if err != nil {
		panic(err)
	}
	var files []*tensorfile.File
	for _, name := range names {
		f, err := tensorfile.Open(filepath.Join(dir, name), nil)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	s := model.SummaryOf(files...)
	fmt.Println(s.Format, s.Tensors, s.Parameters, s.Bytes)
	// Output: safetensors 2 12 48
}
