// Command make writes the files that interop/web.sh shows in the browser into a
// directory.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

func main() {
	dir := os.Args[1]
	for _, make := range []func(dir string) error{shards, sparse, transformer, many, hostile,
		values, deep, branches, images, flat} {
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
	return hollow(dir, "sparse.safetensors",
		[]entry{{"zeros", "F32", []int64{1 << 20, 1024}}}, nil)
}

// transformer is a model as people publish them, 2.2 GB that take no space.
func transformer(dir string) error {
	const hidden, inner, vocabulary = 2048, 5632, 32000
	all := []entry{{"lm_head.weight", "BF16", []int64{vocabulary, hidden}},
		{"model.embed_tokens.weight", "BF16", []int64{vocabulary, hidden}}}
	for layer := range 22 {
		for _, part := range []entry{
			{"input_layernorm", "F32", []int64{hidden}},
			{"mlp.down_proj", "BF16", []int64{hidden, inner}},
			{"mlp.gate_proj", "BF16", []int64{inner, hidden}},
			{"mlp.up_proj", "BF16", []int64{inner, hidden}},
			{"post_attention_layernorm", "F32", []int64{hidden}},
			{"self_attn.k_proj", "BF16", []int64{256, hidden}},
			{"self_attn.o_proj", "BF16", []int64{hidden, hidden}},
			{"self_attn.q_proj", "BF16", []int64{hidden, hidden}},
			{"self_attn.v_proj", "BF16", []int64{256, hidden}},
		} {
			part.name = fmt.Sprintf("model.layers.%d.%s.weight", layer, part.name)
			all = append(all, part)
		}
	}
	all = append(all, entry{"model.norm.weight", "F32", []int64{hidden}})
	return hollow(dir, "model.safetensors", all,
		map[string]string{"format": "pt", "licence": "apache-2.0"})
}

type entry struct {
	name, dtype string
	shape       []int64
}

// hollow writes a .safetensors file whose data is a hole.
func hollow(dir, name string, entries []entry, metadata map[string]string) error {
	header := map[string]any{}
	if metadata != nil {
		header["__metadata__"] = metadata
	}
	end := int64(0)
	for _, e := range entries {
		size := map[string]int64{"F32": 4, "BF16": 2}[e.dtype]
		for _, n := range e.shape {
			size *= n
		}
		header[e.name] = map[string]any{"dtype": e.dtype, "shape": e.shape,
			"data_offsets": []int64{end, end + size}}
		end += size
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	text = append(text, strings.Repeat(" ", -len(text)&7)...)
	file := filepath.Join(dir, name)
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	if err := os.WriteFile(file, append(head, text...), 0o644); err != nil {
		return err
	}
	return os.Truncate(file, 8+int64(len(text))+end)
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
		"", ".", "./within", // a name that another one continues, as if it were a directory
	}
	var ts []*tensor.Tensor
	for _, name := range names {
		ts = append(ts, tensor.New(name, tensor.Shape{1}, []uint8{1}))
	}
	return safetensors.WriteFile(context.Background(), filepath.Join(dir, "hostile.safetensors"),
		tensor.Of(ts...), &safetensors.WriterOptions{
			Attributes: map[string]string{names[0]: names[1], "__proto__": names[3]}})
}

// values are 0, 1, 2 … in rows of 40, the same with one element changed and with a NaN,
// and a cube.
func values(dir string) error {
	data := make([]float32, 400)
	for i := range data {
		data[i] = float32(i)
	}
	other := slices.Clone(data)
	other[7] += 0.5
	nan := slices.Clone(data)
	nan[7] = float32(math.NaN())
	v := func(data []float32, shape ...int64) iter.Seq2[*tensor.Tensor, error] {
		return tensor.Of(tensor.New("v", tensor.Shape(shape), data))
	}
	return errors.Join(
		write(dir, "values.safetensors", v(data, 10, 40)),
		write(dir, "other.safetensors", v(other, 10, 40)),
		write(dir, "nan.safetensors", v(nan, 10, 40)),
		write(dir, "cube.safetensors", v(data[:120], 4, 5, 6)))
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

// branches is a program of three rows of 20 operators side by side, in each the same.
func branches(dir string) error {
	g := rten.NewGraphBuilder()
	x := g.Op("Sqrt", nil, g.Input("x", tensor.F32, rten.Fixed(4)))
	var ends []rten.Ref
	for range 3 {
		end := x
		for i := range 20 {
			end = g.Op([]string{"Abs", "Neg", "Exp", "Tanh", "Relu"}[i*i%7%5], nil, end)
		}
		ends = append(ends, end)
	}
	g.Output("y", g.Op("Sum", nil, ends...))
	return g.WriteFile(context.Background(), filepath.Join(dir, "branches.rten"), nil)
}

// images are a red image and a blue one, with the channels last, and a green one with the
// channels first.
func images(dir string) error {
	last, first := make([]uint8, 2*8*8*3), make([]uint8, 3*8*8)
	for i := range 8 * 8 {
		last[3*i], last[3*(8*8+i)+2], first[8*8+i] = 255, 255, 255
	}
	return write(dir, "images.safetensors", tensor.Of(
		tensor.New("first", tensor.Shape{3, 8, 8}, first),
		tensor.New("last", tensor.Shape{2, 8, 8, 3}, last)))
}

// flat are names without dots, 4 in each of 12 layers.
func flat(dir string) error {
	var ts []*tensor.Tensor
	for layer := range 12 {
		for _, part := range []string{"query", "key", "value", "output"} {
			ts = append(ts, tensor.New(fmt.Sprintf("encoder_layer_%d_%s", layer, part),
				tensor.Shape{16}, make([]float32, 16)))
		}
	}
	return write(dir, "flat.safetensors", tensor.Of(ts...))
}
