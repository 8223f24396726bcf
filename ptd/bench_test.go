package ptd_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkpoint is a file of n small tensors, each with a segment of its own.
func checkpoint(b testing.TB, n int) []byte {
	es := make([]ptd.Entry, n)
	for i := range es {
		data := tensor.BlobOf(make([]byte, 64))
		es[i] = ptd.Entry{Name: fmt.Sprintf("model.layers.%d.attn.w%d.weight", i/8, i%8), Layout: float(4, 4), Data: data}
	}
	return write(b, es, ptd.WriterOptions{SegmentAlignment: 64})
}

// BenchmarkOpen compares opening and listing with a walk by the generated accessors over the same bytes, which checks
// nothing and keeps nothing, and with verification alone. The three take turns, and of each the best round counts: other
// work on the machine only ever adds.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("ptd/%d", n), func(b *testing.B) {
			data := checkpoint(b, n)
			h := readBytes(b, data, nil).Header()
			buf, _ := fb.Unsplice(data[:h.FlatbufferOffset+h.FlatbufferSize], int(h.FlatbufferOffset))
			tables := 3*n + 1
			best := [...]time.Duration{time.Hour, time.Hour, time.Hour}
			b.ReportAllocs()
			for b.Loop() {
				for i, f := range [...]func(){
					func() { accessors(buf) },
					func() { verifyOnly(b, buf) },
					func() { openAndList(b, data) },
				} {
					start := time.Now()
					f()
					best[i] = min(best[i], time.Since(start))
				}
			}
			b.ReportMetric(float64(best[0])/float64(n), "walk-ns/entry")
			b.ReportMetric(float64(best[1])/float64(tables), "verify-ns/table")
			b.ReportMetric(float64(best[2])/float64(n), "open-ns/entry")
			b.ReportMetric(float64(best[2])/float64(best[0]), "open/walk")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func openAndList(b *testing.B, data []byte) {
	r, err := ptd.OpenBytes(data, nil)
	if err != nil {
		b.Fatal(err)
	}
	for t := range r.Tensors() {
		sink += len(t.Name)
	}
}

var sink int

func verifyOnly(b *testing.B, buf []byte) {
	if err := fb.Verify(buf, &ptdfb.Schema, ptdfb.TableFlatTensor, fb.Limits{}); err != nil {
		b.Fatal(err)
	}
}

// accessors reads every field by flatc's code.
func accessors(buf []byte) {
	root := ptdfb.GetRootAsFlatTensor(buf, 0)
	var e ptdfb.NamedData
	var l ptdfb.TensorLayout
	var s ptdfb.DataSegment
	for i := range root.NamedDataLength() {
		root.NamedData(&e, i)
		sink += len(e.Key())
		if e.TensorLayout(&l) != nil {
			sink += int(l.ScalarType())
			for j := range l.SizesLength() {
				sink += int(l.Sizes(j))
			}
			for j := range l.DimOrderLength() {
				sink += int(l.DimOrder(j))
			}
		}
		root.Segments(&s, int(e.SegmentIndex()))
		sink += int(s.Offset() + s.Size())
	}
}

// BenchmarkTensor looks names up that lie far apart, in rounds of which the best counts.
func BenchmarkTensor(b *testing.B) {
	r := readBytes(b, checkpoint(b, 100_000), nil)
	var names []string
	for t := range r.Tensors() {
		names = append(names, t.Name)
	}
	// In an order that has nothing to do with that of the file; the callers' strings are not the file's.
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i := range names {
		names[i] = strings.Clone(names[i])
	}
	const round = 1000
	b.ReportAllocs()
	i := 0
	var rounds []time.Duration
	for b.Loop() {
		start := time.Now()
		for range round {
			if r.Tensor(names[i]) == nil {
				b.Fatal(names[i])
			}
			if i++; i == len(names) {
				i = 0
			}
		}
		rounds = append(rounds, time.Since(start))
	}
	slices.Sort(rounds)
	b.ReportMetric(float64(rounds[len(rounds)/2])/round, "median-ns/name")
	b.ReportMetric(float64(rounds[0])/round, "best-ns/name")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWrite compares a file of 1 GiB with the same bytes given to os.File.Write, in turns; the best round of each counts.
// Both go into the page cache (plain), or both are on the disk in the end, as WriteFile's are (durable).
func BenchmarkWrite(b *testing.B) {
	const tensors, size = 64, 16 << 20
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(i * 7)
	}
	name := filepath.Join(b.TempDir(), "out")
	all := func(yield func(*tensor.Tensor) bool) {
		for i := range tensors {
			if !yield(&tensor.Tensor{Name: fmt.Sprint(i), DType: tensor.U8, Shape: tensor.Shape{size}, Data: tensor.BlobOf(block)}) {
				return
			}
		}
	}
	opts := &ptd.WriterOptions{Dedup: ptd.DedupNone}
	file := func(f func(w *os.File) error) error {
		w, err := os.Create(name)
		if err != nil {
			return err
		}
		return errors.Join(f(w), w.Close())
	}
	blocks := func(f *os.File) error {
		for range tensors {
			if _, err := f.Write(block); err != nil {
				return err
			}
		}
		return nil
	}
	run := func(b *testing.B, ours, theirs func() error) {
		best := [2]time.Duration{time.Hour, time.Hour}
		for b.Loop() {
			for i, f := range [...]func() error{ours, theirs} {
				start := time.Now()
				if err := f(); err != nil {
					b.Fatal(err)
				}
				best[i] = min(best[i], time.Since(start))
				os.Remove(name)
			}
		}
		b.ReportMetric(best[0].Seconds(), "ptd-s")
		b.ReportMetric(best[1].Seconds(), "os.File-s")
		b.ReportMetric(float64(best[0])/float64(best[1]), "ptd/os.File")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("plain", func(b *testing.B) {
		run(b, func() error {
			return file(func(f *os.File) error {
				w := ptd.NewWriter(f, opts)
				if err := w.AddAll(b.Context(), all); err != nil {
					return err
				}
				return w.Close()
			})
		}, func() error { return file(blocks) })
	})
	b.Run("durable", func(b *testing.B) {
		run(b, func() error { return ptd.WriteFile(name, all, opts) }, func() error {
			return file(func(f *os.File) error { return errors.Join(blocks(f), f.Sync()) })
		})
	})
}

// BenchmarkWriteEntries is the metadata's part of writing.
func BenchmarkWriteEntries(b *testing.B) {
	const n = 100_000
	es := many(n)
	b.ReportAllocs()
	for b.Loop() {
		w := ptd.NewWriter(io.Discard, nil)
		for _, e := range es {
			if err := w.AddEntry(e); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
}
