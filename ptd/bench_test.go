package ptd_test

import (
	"encoding/binary"
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
	"github.com/tensorfile/tensorfile/internal/fb/fbtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// BenchmarkOpen compares opening and listing with a walk by the generated accessors
// over the same bytes, which checks nothing and keeps nothing, and with verification
// alone. The three take turns, and of each the best round counts: other work on the
// machine only ever adds.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("ptd/%d", n), func(b *testing.B) {
			data := checkpoint(b, n)
			offset := int(binary.LittleEndian.Uint64(data[16:]))
			buf, _ := fbtest.Unsplice(data[:metadataEnd(data)], offset)
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

// BenchmarkTensor looks names of a file up, in rounds of 1,000: one again and again,
// all in the order of the file, and all in an order that has nothing to do with it, so
// that each look-up waits for memory several times. A Go map of the same names takes
// turns with it.
func BenchmarkTensor(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		for _, order := range []string{"one", "file", "shuffled"} {
			b.Run(fmt.Sprintf("%d/%s", n, order), func(b *testing.B) {
				r := readBytes(b, checkpoint(b, n), nil)
				names, byName := make([]string, 0, n), make(map[string]*tensor.Tensor, n)
				for t := range r.Tensors() {
					names = append(names, t.Name)
					byName[t.Name] = t
				}
				switch order {
				case "one":
					names = slices.Repeat(names[n/2:n/2+1], n)
				case "shuffled":
					rand.New(rand.NewPCG(1, 2)).Shuffle(n,
						func(i, j int) { names[i], names[j] = names[j], names[i] })
				}
				for i := range names {
					// the callers' strings are not the file's
					if names[i] = strings.Clone(names[i]); i > 0 && order == "one" {
						names[i] = names[0]
					}
				}
				sides := [...]struct {
					unit   string
					f      func(string) *tensor.Tensor
					rounds []time.Duration
					next   int
				}{
					{unit: "ns/name", f: r.Tensor},
					{unit: "map-ns/name",
						f: func(name string) *tensor.Tensor { return byName[name] }, next: n / 2},
				}
				const round = 1000
				b.ReportAllocs()
				for b.Loop() {
					for k := range sides {
						s := &sides[k]
						start := time.Now()
						for range round {
							if s.f(names[s.next]) == nil {
								b.Fatal(names[s.next])
							}
							if s.next++; s.next == n {
								s.next = 0
							}
						}
						s.rounds = append(s.rounds, time.Since(start))
					}
				}
				for k := range sides {
					s := &sides[k]
					slices.Sort(s.rounds)
					b.ReportMetric(float64(s.rounds[len(s.rounds)/2])/round, "median-"+s.unit)
					b.ReportMetric(float64(s.rounds[0])/round, "best-"+s.unit)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkWrite compares a file of 1 GiB with the same bytes given to os.File.Write,
// in turns; the best round of each counts. Both go into the page cache (plain), or both
// are on the disk in the end, as WriteFile's are (durable).
func BenchmarkWrite(b *testing.B) {
	const tensors, size = 64, 16 << 20
	memory := make([]byte, size+tensors) // tensor i is what begins at i: none is another's
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	block := memory[:size]
	name := filepath.Join(b.TempDir(), "out")
	all := func(yield func(*tensor.Tensor) bool) {
		for i := range tensors {
			if !yield(&tensor.Tensor{Name: fmt.Sprint(i), DType: tensor.U8,
				Shape: tensor.Shape{size}, Data: tensor.BlobOf(memory[i : i+size])}) {
				return
			}
		}
	}
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
				w := ptd.NewWriter(f, nil)
				if err := w.AddAll(b.Context(), tensor.Each(all)); err != nil {
					return err
				}
				return w.Close()
			})
		}, func() error { return file(blocks) })
	})
	b.Run("durable", func(b *testing.B) {
		run(b, func() error { return ptd.WriteFile(b.Context(), name, tensor.Each(all), nil) },
			func() error {
				return file(func(f *os.File) error { return errors.Join(blocks(f), f.Sync()) })
			})
	})
}

// BenchmarkAddEntry is the metadata's part of writing.
func BenchmarkAddEntry(b *testing.B) {
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
