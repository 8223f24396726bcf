package ztensor

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// many2 is a file of n small tensors with realistic names.
func many2(b testing.TB, n int) []byte {
	var out bytes.Buffer
	w := NewWriter(&out, &WriterOptions{Version: "2", Alignment: floor2})
	for i := range n {
		x := make([]float32, 128)
		x[0], x[1] = float32(i), float32(i>>16)
		if err := w.Add(tensor.New(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i), tensor.Shape{16, 8}, x)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

func BenchmarkOpen2(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		file := many2(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := OpenBytes(file, nil)
				if err != nil {
					b.Fatal(err)
				}
				count := 0
				for t := range r.Tensors() {
					count += len(t.Shape)
				}
				if count != 2*n {
					b.Fatal(count)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/tensor")
		})
	}
}

func BenchmarkSkip2(b *testing.B) {
	file := many2(b, 100_000)
	r, err := OpenBytes(file, nil)
	if err != nil {
		b.Fatal(err)
	}
	manifest := file[r.manifestAt:][:r.manifestSize]
	for b.Loop() {
		c := newCanon(manifest, r.limits)
		if c.skip(0); c.err != nil {
			b.Fatal(c.err)
		}
	}
}

func BenchmarkVerify2(b *testing.B) {
	var ts []*tensor.Tensor
	for i := range 8 {
		ts = append(ts, tensor.New(fmt.Sprint(i), tensor.Shape{16 << 20}, noise(16<<20, uint64(i))))
	}
	for _, level := range []int{0, 3} {
		var out bytes.Buffer
		w := NewWriter(&out, &WriterOptions{Version: "2", Level: level})
		if err := w.AddAll(b.Context(), tensor.Of(ts...)); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint("level", level), func(b *testing.B) {
			b.SetBytes(8 * 16 << 20)
			for b.Loop() {
				r, err := OpenBytes(out.Bytes(), nil)
				if err == nil {
					err = r.Verify(b.Context(), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("write/level", level), func(b *testing.B) {
			b.SetBytes(8 * 16 << 20)
			name := b.TempDir() + "/x.zt"
			for b.Loop() {
				if err := WriteFile(b.Context(), name, tensor.Of(ts...), &WriterOptions{Version: "2", Level: level}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The short way and the general one read the same.
func TestQuickEntriesOfVersion2ReadAsTheGeneralScanReadsThem(t *testing.T) {
	file := many2(t, 300)
	quick, err := OpenBytes(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &scan2{canon: newCanon(file[quick.manifestAt:][:quick.manifestSize], quick.limits), r: quick}
	s.open(cborMap)
	var none, before []byte
	s.key(&none, 1)
	n, short := s.open(cborMap), 0
	quick.tensors = slab[tensor.Tensor]{}
	for range n {
		if s.quick(&before) {
			short++
			continue
		}
		key, _ := s.key(&before, 2)
		s.object(key, s.at)
	}
	if short < n-10 {
		t.Errorf("%d of %d entries were read the short way", short, n)
	}
	// Another layout on one of them, and all the same it is read: the general way.
	name := []byte("model.layers.0.self_attn.q_proj.weight")
	for i := range name { // every name broken by a NUL, or by what is not UTF-8, is refused as the general scan does
		for _, x := range []byte{0, 0xff} {
			broken := bytes.Clone(file)
			at := int(quick.manifestAt) + bytes.Index(file[quick.manifestAt:], name) + i
			broken[at] = x
			m := broken[quick.manifestAt:][:quick.manifestSize]
			r := &Reader{src: quick.src, limits: quick.limits}
			r.version, r.list, r.two = "2", "objects", new(container2)
			r.manifestAt, r.manifestSize, r.owned = quick.manifestAt, quick.manifestSize, true
			s := &scan2{canon: newCanon(m, r.limits), r: r}
			if s.root(); s.done() == nil {
				t.Errorf("byte %d of a name may be 0x%02x", i, x)
			}
		}
	}
}
