package ztensor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// A file of version 2, in canonical form, and what identifies it.
func ExampleWriter_version2() {
	var file bytes.Buffer
	w := ztensor.NewWriter(&file,
		&ztensor.WriterOptions{Version: "2", Canonical: true,
			Attributes: map[string]any{"license": "MIT"}})
	ts := []*tensor.Tensor{tensor.New("weight", tensor.Shape{4}, []float32{1, 2, 3, 4}),
		tensor.New("mask", tensor.Shape{3}, []bool{true, false, true})}
	if err := w.AddAll(context.Background(), tensor.Of(ts...)); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	r, err := ztensor.OpenBytes(file.Bytes(), &ztensor.ReaderOptions{Strict: true})
	if err != nil {
		log.Fatal(err)
	}
	for t := range r.Tensors() {
		stored, _ := t.Data.Stored()
		fmt.Println(t.Name, t.DType, t.Shape, stored.Offset, stored.Digest)
	}
	_, err = r.Verify(context.Background(), &tensor.VerifyOptions{Depth: tensor.VerifyCanonical})
	fmt.Println(err)
	fmt.Println(r.ContentDigest(ztensor.SHA256))
	// Output:
	// mask bool [3] 65536 xxh3:aed946681f85b77a
	// weight float32 [4] 131072 xxh3:a82f522ec4510db4
	// <nil>
	// sha256:7710c064fae3737a38a825690e2a29c5596a6504db5c3a8986519372873cb7ca <nil>
}

// Damage is found by the digests of the parts, and each finding says which rule
// was broken, and where.
func ExampleReader_Verify() {
	var file bytes.Buffer
	w := ztensor.NewWriter(&file, &ztensor.WriterOptions{Version: "2"})
	if err := w.Add(tensor.New("weight", tensor.Shape{4}, []float32{1, 2, 3, 4})); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	file.Bytes()[65536] ^= 1
	r, err := ztensor.OpenBytes(file.Bytes(), nil)
	if err != nil {
		log.Fatal(err)
	}
	report, _ := r.Verify(context.Background(), nil)
	for _, f := range report.Findings {
		var rule *ztensor.RuleError
		if errors.As(f.Err, &rule) {
			fmt.Println(f.Class, f.Field, rule.Rule)
		}
	}
	_, err = r.Verify(context.Background(), &tensor.VerifyOptions{Depth: tensor.VerifyStructure})
	fmt.Println(err)
	// Output:
	// checksum objects["weight"].parts["data"].digest Digest
	// <nil>
}

// A model in several files, which is read as one.
func ExampleWriteShards() {
	dir, err := os.MkdirTemp("", "ztensor")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "model.zt")
	var ts []*tensor.Tensor
	for i := range 5 {
		ts = append(ts, tensor.New(fmt.Sprint("layer ", i), tensor.Shape{2, 2},
			[]float32{float32(i), 1, 2, 3}))
	}
	files, err := ztensor.WriteShards(context.Background(), name, tensor.Of(ts...),
		&ztensor.ShardOptions{MaxSize: 32})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		fmt.Println(filepath.Base(f))
	}
	r, err := ztensor.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for s := range r.Shards() {
		fmt.Println(s.Name, s.Size)
	}
	values, err := tensor.Load[float32](r.Tensor("layer 3"))
	fmt.Println(values, err)
	_, err = r.Verify(context.Background(), nil)
	fmt.Println(err)
	// Output:
	// model-00001.zt
	// model-00002.zt
	// model-00003.zt
	// model.zt
	// 00001 196848
	// 00002 196848
	// 00003 131217
	// [3 1 2 3] <nil>
	// <nil>
}

// Tensors behind the end of a file, of which not a byte changes.
func ExampleAppend() {
	dir, err := os.MkdirTemp("", "ztensor")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "x.zt")
	first := tensor.New("a", tensor.Shape{2}, []int32{1, 2})
	if err := ztensor.WriteFile(context.Background(), name, tensor.Of(first),
		&ztensor.WriterOptions{Version: "2"}); err != nil {
		log.Fatal(err)
	}
	w, err := ztensor.Append(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Abort() // does nothing after Close
	if err := w.Add(tensor.New("b", tensor.Shape{1}, []int32{3})); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	// Had the machine failed in between, this would cut off what was half written.
	fmt.Println(ztensor.Recover(name))
	r, err := ztensor.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.Shape)
	}
	// Output:
	// 0 <nil>
	// a [2]
	// b [1]
}
