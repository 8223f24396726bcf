package rten

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/readtest"
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

// BenchmarkRatios is what docs/dev/performance.md quotes: opening and listing
// 100,000 constants against the unchecked walk; reading 256 MiB of weights against
// copy from the mapping; writing 1 GiB against os.File, both flushed to the disk and
// both not.
func BenchmarkRatios(b *testing.B) {
	b.Run("open", func(b *testing.B) {
		file := manyConstants(b, 100_000)
		h, err := parseHeader(file, int64(len(file)))
		if err != nil {
			b.Fatal(err)
		}
		model := file[h.ModelOffset : h.ModelOffset+h.ModelSize]
		name := filepath.Join(b.TempDir(), "model.rten")
		if err := os.WriteFile(name, file, 0o666); err != nil {
			b.Fatal(err)
		}
		list := func(r *Reader, err error) {
			if err != nil {
				b.Fatal(err)
			}
			for range r.Tensors() {
			}
			r.Close()
		}
		var index []row
		readtest.InTurns(b, func() { index = accessorWalk(model, index) },
			readtest.Turn{Name: "bytes", Do: func() { list(OpenBytes(file, nil)) }},
			readtest.Turn{Name: "mapped", Do: func() { list(Open(name, nil)) }})
	})
	b.Run("read", func(b *testing.B) {
		tensors, dst := weightsOf(b)
		readtest.InTurns(b, func() {
			for _, t := range tensors {
				src, _ := t.Data.Bytes()
				copy(dst, src)
			}
		}, readtest.Turn{Name: "ReadInto", Do: func() {
			for _, t := range tensors {
				if err := t.Data.ReadInto(dst); err != nil {
					b.Fatal(err)
				}
			}
		}})
	})
	b.Run("write", func(b *testing.B) {
		const count, each = 64, 16 << 20
		weights := make([]byte, each)
		g := NewGraphBuilder()
		for i := range count {
			g.Constant(tensor.New(fmt.Sprint(i), tensor.Shape{each}, weights))
		}
		name := filepath.Join(b.TempDir(), "model")
		create := func(write func(f *os.File) error, sync bool) {
			f, err := os.Create(name)
			if err != nil {
				b.Fatal(err)
			}
			if err := write(f); err != nil {
				b.Fatal(err)
			}
			if sync {
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			f.Close()
			os.Remove(name)
		}
		plain := func(f *os.File) error {
			for range count {
				if _, err := f.Write(weights); err != nil {
					return err
				}
			}
			return nil
		}
		b.Run("durable", func(b *testing.B) {
			readtest.InTurns(b, func() { create(plain, true) },
				readtest.Turn{Name: "WriteFile", Do: func() {
					if err := g.WriteFile(b.Context(), name, nil); err != nil {
						b.Fatal(err)
					}
					os.Remove(name)
				}})
		})
		b.Run("plain", func(b *testing.B) { // into the page cache, as a writer of the caller's
			readtest.InTurns(b, func() { create(plain, false) },
				readtest.Turn{Name: "Write", Do: func() {
					create(func(f *os.File) error { return g.Write(b.Context(), f, nil) }, false)
				}})
		})
	})
}

// BenchmarkLookup finds 100,000 constants by their names, in random order, against a Go
// map from names to what they stand for.
func BenchmarkLookup(b *testing.B) {
	r := openBytes(b, manyConstants(b, 100_000))
	byName := make(map[string]*tensor.Tensor)
	var names []string
	for t := range r.Tensors() {
		byName[t.Name] = t
		names = append(names, t.Name)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names),
		func(i, j int) { names[i], names[j] = names[j], names[i] })
	readtest.InTurns(b, func() {
		for _, name := range names {
			if byName[name].Name != name {
				b.Fatal(name)
			}
		}
	}, readtest.Turn{Name: "Tensor", Do: func() {
		for _, name := range names {
			if r.Tensor(name).Name != name {
				b.Fatal(name)
			}
		}
	}})
}

// weightsOf is 256 MiB of weights in a file that was touched, and room for one.
func weightsOf(b *testing.B) (tensors []*tensor.Tensor, dst []byte) {
	const count, each = 64, 4 << 20
	g := NewGraphBuilder()
	weights := make([]float32, each/4)
	for i := range count {
		g.Constant(tensor.New(fmt.Sprint(i), tensor.Shape{each / 4}, weights))
	}
	name := filepath.Join(b.TempDir(), "model.rten")
	if err := g.WriteFile(b.Context(), name, nil); err != nil {
		b.Fatal(err)
	}
	r, err := Open(name, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	dst = make([]byte, each)
	for t := range r.Tensors() {
		tensors = append(tensors, t)
		if err := t.Data.ReadInto(dst); err != nil {
			b.Fatal(err)
		}
	}
	return tensors, dst
}

// BenchmarkBuild encodes a model of n constants.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		g := NewGraphBuilder()
		weights := make([]float32, 20)
		for i := range n {
			g.Constant(tensor.New(fmt.Sprintf("model.layers.%d.weight", i), tensor.Shape{4, 5},
				weights))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Write(b.Context(), io.Discard, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
