// Command make writes the files that interop/web.sh shows in the browser into a
// directory.
package main

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/tensor"
)

func main() {
	dir := os.Args[1]
	for _, make := range []func(dir string) error{shards, sparse, many, hostile, values, deep} {
		if err := make(dir); err != nil {
			log.Fatal(err)
		}
	}
}

func write(dir, name string, ts iter.Seq2[*tensor.Tensor, error]) error {
	return safetensors.WriteFile(context.Background(), filepath.Join(dir, name), ts, nil)
}

// shards are six tensors in three files with an index.
func shards(dir string) error {
	dir = filepath.Join(dir, "shards")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var ts []*tensor.Tensor
	for i := range 6 {
		ts = append(ts, tensor.New(fmt.Sprintf("layers.%d.weight", i), tensor.Shape{256},
			make([]float32, 256)))
	}
	_, err := safetensors.WriteShards(context.Background(),
		filepath.Join(dir, "model.safetensors"), tensor.Of(ts...),
		&safetensors.ShardOptions{MaxSize: 2048})
	return err
}

// sparse is a file of 4 GiB that takes no space.
func sparse(dir string) error {
	const size int64 = 4 << 30
	header := fmt.Sprintf(`{"zeros":{"dtype":"F32","shape":[%d,1024],"data_offsets":[0,%d]}}`,
		size/4096, size)
	for len(header)%8 != 0 {
		header += " "
	}
	f, err := os.Create(filepath.Join(dir, "sparse.safetensors"))
	if err != nil {
		return err
	}
	defer f.Close()
	length := make([]byte, 8)
	length[0], length[1] = byte(len(header)), byte(len(header)>>8)
	if _, err := f.Write(append(length, header...)); err != nil {
		return err
	}
	return f.Truncate(8 + int64(len(header)) + size)
}

// many are 5,000 tensors: 50 in each of 100 layers.
func many(dir string) error {
	var ts []*tensor.Tensor
	for layer := range 100 {
		for i := range 50 {
			name := fmt.Sprintf("model.layers.%d.%c%c.weight", layer, 'a'+i/26, 'a'+i%26)
			ts = append(ts, tensor.New(name, tensor.Shape{4, int64(1 + i)},
				make([]float32, 4*(1+i))))
		}
	}
	return write(dir, "many.safetensors", tensor.Of(ts...))
}

func hostile(dir string) error {
	names := []string{
		`</script><script>document.title='owned'</script>`, `<img src=x onerror="alert(1)">`,
		`"><svg onload=alert(1)>`, `<iframe src="https://example.com/">`, "\u202egnp.\u2028]]>-->",
		`javascript:alert(1)`, `__proto__`, `constructor.toString`,
	}
	var ts []*tensor.Tensor
	for _, name := range names {
		ts = append(ts, tensor.New(name, tensor.Shape{1}, []uint8{1}))
	}
	return safetensors.WriteFile(context.Background(), filepath.Join(dir, "hostile.safetensors"),
		tensor.Of(ts...), &safetensors.WriterOptions{
			Metadata: map[string]string{names[0]: names[1], "__proto__": names[3]}})
}

// values are 0, 1, 2 … in rows of 40.
func values(dir string) error {
	data := make([]float32, 400)
	for i := range data {
		data[i] = float32(i)
	}
	return write(dir, "values.safetensors", tensor.Of(tensor.New("v", tensor.Shape{10, 40}, data)))
}

// deep is a program of 100 equal blocks of 50 operators.
func deep(dir string) error {
	g := rten.NewGraphBuilder()
	x := g.Input("x", tensor.F32, rten.Fixed(4))
	operators := []string{"Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Sqrt"}
	for range 100 {
		for i := range 50 {
			x = g.Op(operators[i*i*i/9%len(operators)], nil, x)
		}
	}
	g.Output("y", x)
	return g.WriteFile(context.Background(), filepath.Join(dir, "deep.rten"), nil)
}
