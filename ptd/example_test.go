package ptd_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// temporary is a file name for the examples.
func temporary() (name string, remove func()) {
	dir, err := os.MkdirTemp("", "ptd")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "weights.ptd"), func() { os.RemoveAll(dir) }
}

// A dictionary of tensors, saved and loaded.
func ExampleSave() {
	name, remove := temporary()
	defer remove()
	err := ptd.Save(name, map[string]*tensor.Tensor{
		"linear.weight": tensor.New("", tensor.Shape{2, 2}, []float32{1, 2, 3, 4}),
		"linear.bias":   tensor.New("", tensor.Shape{2}, []float32{0.5, -0.5}),
	})
	if err != nil {
		log.Fatal(err)
	}
	weights, err := ptd.Load(name)
	if err != nil {
		log.Fatal(err)
	}
	bias, err := tensor.Load[float32](weights["linear.bias"])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(weights), weights["linear.weight"].Shape, bias)
	// Output: 2 [2, 2] [0.5 -0.5]
}

// Any iterator of tensors becomes a file, and what has no layout is read as blobs.
func ExampleWriteFile() {
	name, remove := temporary()
	defer remove()
	tensors := []*tensor.Tensor{
		tensor.New("step", tensor.Shape{}, []int64{1000}),
		tensor.New("weight", tensor.Shape{3}, []float32{1, 2, 3}),
	}
	if err := ptd.WriteFile(context.Background(), name, tensor.Of(tensors...), nil); err != nil {
		log.Fatal(err)
	}
	r, err := ptd.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		fmt.Println(t.Name, t.DType, t.Shape, t.Size())
	}
	for name, blob := range r.Blobs() {
		fmt.Println(name, blob.Size())
	}
	// Output:
	// step int64 [] 8
	// weight float32 [3] 12
}

// Entries of several files in one. An entry that both have must be the same.
func ExampleMerge() {
	foundation := []ptd.Entry{{Name: "w", Data: tensor.BlobOf([]byte{1, 2, 3})},
		{Name: "shared", Data: tensor.BlobOf([]byte{7})}}
	adapter := []ptd.Entry{{Name: "w", Data: tensor.BlobOf([]byte{9, 9, 9})},
		{Name: "shared", Data: tensor.BlobOf([]byte{7})}}
	_, err := ptd.Merge(context.Background(), slices.Values(foundation), slices.Values(adapter))
	fmt.Println(err)
	adapter[0].Name = "adapter.w"
	all, err := ptd.Merge(context.Background(), slices.Values(foundation), slices.Values(adapter))
	fmt.Println(len(all), err)
	// Output:
	// ptd: merge: "w": file 1 has other bytes than file 0
	// 3 <nil>
}

// A new revision of a file: names are the names in the original, so that two entries swap
// theirs.
func ExampleEdit() {
	r, err := ptd.Open("../testdata/ptd/et-1.5.1-shared.ptd", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	e := ptd.NewEdit(r)
	for _, err := range []error{e.Rename("row", "column"), e.Rename("column", "row"),
		e.Remove("own")} {
		if err != nil {
			log.Fatal(err)
		}
	}
	name, remove := temporary()
	defer remove()
	if err := e.WriteFile(context.Background(), name, nil); err != nil {
		log.Fatal(err)
	}
	n, err := ptd.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	for t := range n.Tensors() {
		fmt.Println(t.Name)
	}
	// Output:
	// column
	// row
	// bits
}

// A file of release 0.6 brought up to date, and aligned for pages of 16 KiB; its reader
// may be reading the same file.
func ExampleEdit_WriteFile() {
	name, remove := temporary()
	defer remove()
	r, err := ptd.Open("../testdata/ptd/et-0.6.0-basic.ptd", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := ptd.NewEdit(r).WriteFile(context.Background(), name,
		&ptd.WriterOptions{SegmentAlignment: 16 << 10}); err != nil {
		log.Fatal(err)
	}
	n, err := ptd.Open(name, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	fmt.Println(r.Schema(), r.Alignment(), "becomes", n.Schema(), n.Alignment())
	for e := range n.Entries() {
		fmt.Print(e.Name, " ", e.Segment, ", ")
	}
	// Output:
	// 0.6 16 becomes 0.7 16384
	// linear.weight 0, linear.bias 1, tied 0, steps 2, mask 3, none 4,
}

// Files of at most so many bytes of data each, named after what is in them. Tensors that
// share data stay together.
func ExampleSplit() {
	es := []ptd.Entry{
		{Name: "a", Data: tensor.BlobOf([]byte{1, 2, 3})},
		{Name: "b", Data: tensor.BlobOf([]byte{4, 5})},
		{Name: "c", Data: tensor.BlobOf([]byte{6})},
	}
	shards, err := ptd.Split(slices.Values(es), 4, "weights")
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range shards {
		// AddEntry of a Writer of s.Tag+".ptd" takes each of s.Entries.
		fmt.Println(s.Tag[:20], len(s.Entries))
	}
	// Output:
	// weights_ca978112ca1b 1
	// weights_2b7d2121198c 2
}

// List a file: tensors, and entries without a layout.
func ExampleOpen() {
	r, err := ptd.Open("../testdata/ptd/et-1.5.1-shared.ptd", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for t := range r.Tensors() {
		xs, err := tensor.Convert[float32](t)
		fmt.Println(t.Name, t.DType, t.Shape, len(xs), err)
	}
	for name, b := range r.Blobs() {
		fmt.Println(name, b.Size())
	}
	// Output:
	// row float32 [1, 2] 2 <nil>
	// column float32 [2, 1] 2 <nil>
	// bits uint32 [2] 2 <nil>
	// own float32 [1, 2] 2 <nil>
	// bytes 8
}
