package tensorfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// List a file. The format is found from the content.
func ExampleOpen() {
	f, err := tensorfile.Open("testdata/safetensors/scalar-and-zero.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Println(f.Format(), f.Len())
	for t := range f.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	// Output:
	// safetensors 4
	// z int64 [0] 0
	// zz float64 [3, 0, 2] 0
	// s float32 [] 4
	// b bool [] 1
}

// Weights without a copy, or with one where it must be.
func ExampleFile_Tensor() {
	f, err := tensorfile.Open("testdata/ztensor/crate-1.2.3-digests.zt", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	w := f.Tensor("int64 crc32c")         // nil if absent
	xs, err := tensor.View[int64](w)      // borrows: valid until f.Close
	if errors.Is(err, tensor.ErrNoView) { // compressed, misaligned, other byte order, not mapped
		xs, err = tensor.Load[int64](w) // copies
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(xs))
	// Output: 7
}

// An untrusted file: strict, with limits, and every finding.
func ExampleNewReader() {
	upload, err := os.ReadFile("testdata/ztensor/crate-1.2.3-digests.zt")
	if err != nil {
		log.Fatal(err)
	}
	upload[70] ^= 1 // damage

	opts := &tensorfile.Options{Strict: true, Limits: tensor.Limits{MaxTensors: 1e6}}
	f, err := tensorfile.NewReader(bytes.NewReader(upload), int64(len(upload)), opts)
	var fe *tensor.FormatError
	if errors.As(err, &fe) {
		log.Fatalf("%s: byte %#x: %s: %v", fe.Format, fe.Offset, fe.Field, fe.Err)
	}
	defer f.Close()
	if report, err := f.Verify(context.Background(), nil); err != nil { // reads everything
		for _, finding := range report.Findings {
			fmt.Println(finding.Class, finding.Offset, finding.Field)
		}
	}
	// Output: checksum 64 objects["float32 crc32c"].components["data"].digest
}

func ExampleFile_Summary() {
	f, err := tensorfile.Open("testdata/safetensors/scalar-and-zero.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	s := f.Summary()
	fmt.Println(s.Format, s.Tensors, s.Parameters, s.Bytes, s.ByDType[tensor.F32].Bytes)
	// Output: safetensors 4 2 5 4
}

// Every weight as float32, on all cores, into memory of one's own.
func ExampleFile_LoadAll() {
	f, err := tensorfile.Open("testdata/gguf/many.gguf", nil) // bfloat16 and blocks of Q8_0
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	weights := map[string][]float32{}
	err = f.LoadAll(context.Background(), func(t *tensor.Tensor) tensor.Dst {
		n, _ := t.Shape.Elements()
		weights[t.Name] = make([]float32, n)
		return tensor.Into(weights[t.Name])
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(weights), len(weights["blk.2.attn_q.weight"]))
	// Output: 100 192
}

func ExampleOpenFS() {
	f, err := tensorfile.OpenFS(os.DirFS("testdata/safetensors"), "rank8.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	fmt.Println(f.Tensor("r").Shape)
	// Output: [1, 2, 1, 2, 1, 2, 1, 2]
}

// All that only one format has is in its own package.
func ExampleFile_Sys() {
	f, err := tensorfile.Open("testdata/ztensor/crate-1.0.0-digests.zt", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if r, ok := f.Sys().(*ztensor.Reader); ok {
		fmt.Println(r.Generator())
	}
	// Output: zTensor-Rust v0.1.0
}

func ExampleFormat_Caps() {
	for _, f := range []tensorfile.Format{tensorfile.PTD, tensorfile.Safetensors} {
		caps := f.Caps()
		fmt.Println(f, caps.Holds(tensor.QI8), caps.Orders, caps.Blobs, caps.Attributes)
	}
	// Output:
	// ptd true any true false
	// safetensors false row-major false true
}

// Sum up the bytes of a file by purpose.
func ExampleFile_Spans() {
	f, err := tensorfile.Open("testdata/ztensor/crate-1.2.3-removed.zt", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	sum := map[tensor.SpanKind]int64{}
	for s := range f.Spans() {
		sum[s.Kind] += s.Size
	}
	fmt.Println(f.Size(), sum[tensor.SpanTensor], sum[tensor.SpanMetadata],
		sum[tensor.SpanPadding])
	// Output: 391 40 227 100
}

// A look-up that fails has the name.
func ExampleFile_Lookup() {
	f, err := tensorfile.Open("testdata/safetensors/scalar-and-zero.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	_, err = f.Lookup("layers.3.weight")
	fmt.Println(errors.Is(err, tensor.ErrNoTensor), err)
	// Output: true no such tensor: "layers.3.weight"
}
