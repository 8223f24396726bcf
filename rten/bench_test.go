package rten

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// row is what a walk notes of a constant.
type row struct {
	name   string
	dtype  rtenfb.ConstantDataType
	dims   [4]uint32
	rank   int
	offset uint64
}

// accessorWalk lists constants by the generated accessors, with nothing checked,
// into an index that is there.
func accessorWalk(buf []byte, index []row) []row {
	index = index[:0]
	graph := rtenfb.GetRootAsModel(buf, 0).Graph(nil)
	var node rtenfb.Node
	var constant rtenfb.ConstantNode
	var table flatbuffers.Table
	for i := range graph.NodesLength() {
		graph.Nodes(&node, i)
		if node.DataType() != rtenfb.NodeKindConstantNode || !node.Data(&table) {
			continue
		}
		constant.Init(table.Bytes, table.Pos)
		r := row{name: string(node.Name()), rank: constant.ShapeLength()}
		for j := range min(r.rank, len(r.dims)) {
			r.dims[j] = constant.Shape(j)
		}
		if d := constant.Dtype(); d != nil {
			r.dtype = *d
		}
		if o := constant.DataOffset(); o != nil {
			r.offset = *o
		}
		index = append(index, r)
	}
	return index
}

// BenchmarkOpen opens a file of n constants and lists them; accessors is the
// walk of the same model with the generated code, unchecked.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		file := manyConstants(b, n)
		h, err := parseHeader(file, int64(len(file)))
		if err != nil {
			b.Fatal(err)
		}
		model := file[h.ModelOffset : h.ModelOffset+h.ModelSize]
		name := filepath.Join(b.TempDir(), "model.rten")
		if err := os.WriteFile(name, file, 0o666); err != nil {
			b.Fatal(err)
		}
		list := func(b *testing.B, r *Reader, err error) {
			if err != nil {
				b.Fatal(err)
			}
			k := 0
			for t := range r.Tensors() {
				k += len(t.Shape)
			}
			if k != 2*n {
				b.Fatal(k)
			}
			r.Close()
		}
		run := func(kind string, do func(b *testing.B)) {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				b.SetBytes(h.ModelSize)
				b.ReportAllocs()
				for b.Loop() {
					do(b)
				}
			})
		}
		var index []row
		run("accessors", func(b *testing.B) { index = accessorWalk(model, index) })
		run("bytes", func(b *testing.B) { r, err := OpenBytes(file, nil); list(b, r, err) })
		run("mapped", func(b *testing.B) { r, err := Open(name, nil); list(b, r, err) })
	}
}

// BenchmarkRead reads 256 MiB of weights into memory that is there; copy is the
// same from the mapping.
func BenchmarkRead(b *testing.B) {
	const count, each = 64, 4 << 20
	g := NewGraphBuilder()
	weights := make([]float32, each/4)
	for i := range count {
		g.Constant(tensor.New(fmt.Sprint(i), tensor.Shape{each / 4}, weights))
	}
	name := filepath.Join(b.TempDir(), "model.rten")
	if err := WriteFile(name, g, nil); err != nil {
		b.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	tensors := make([]*tensor.Tensor, 0, count)
	for t := range r.Tensors() {
		tensors = append(tensors, t)
	}
	dst := make([]byte, each)
	for _, t := range tensors { // touch everything
		t.Data.ReadInto(dst)
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(count * each)
		for b.Loop() {
			for _, t := range tensors {
				src, ok := t.Data.Bytes()
				if !ok {
					b.Skip("not mapped")
				}
				copy(dst, src)
			}
		}
	})
	b.Run("ReadInto", func(b *testing.B) {
		b.SetBytes(count * each)
		b.ReportAllocs()
		for b.Loop() {
			for _, t := range tensors {
				if err := t.Data.ReadInto(dst); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkWrite writes 1 GiB of weights; os.File writes the same bytes, and
// flushes them too.
func BenchmarkWrite(b *testing.B) {
	const count, each = 64, 16 << 20
	weights := make([]byte, each)
	g := NewGraphBuilder()
	for i := range count {
		g.Constant(tensor.New(fmt.Sprint(i), tensor.Shape{each}, weights))
	}
	dir := b.TempDir()
	run := func(kind string, write func(name string) error) {
		b.Run(kind, func(b *testing.B) {
			b.SetBytes(count * each)
			for b.Loop() {
				name := filepath.Join(dir, kind)
				if err := write(name); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				os.Remove(name)
				b.StartTimer()
			}
		})
	}
	raw := func(flush bool) func(name string) error {
		return func(name string) error {
			f, err := os.Create(name)
			if err != nil {
				return err
			}
			defer f.Close()
			for range count {
				if _, err := f.Write(weights); err != nil {
					return err
				}
			}
			if flush {
				return f.Sync()
			}
			return nil
		}
	}
	run("os.File", raw(false))
	run("os.File and Sync", raw(true))
	run("WriteFile", func(name string) error { return WriteFile(name, g, nil) })
	run("Write to os.File", func(name string) error {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return Write(f, g, nil)
	})
}

// BenchmarkBuild encodes a model of n constants.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		g := NewGraphBuilder()
		weights := make([]float32, 20)
		for i := range n {
			g.Constant(tensor.New(fmt.Sprintf("model.layers.%d.weight", i), tensor.Shape{4, 5}, weights))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Write(io.Discard, g, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
