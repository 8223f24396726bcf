package ptd_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/tensor"
)

// apart is many whose data is not the same.
func apart(n int) []ptd.Entry {
	es := many(n)
	for i := range es {
		es[i].Data = tensor.BlobOf([]byte{1, 2, 3, 4})
	}
	return es
}

// scalars is a file of n scalars of the shortest names, which all lie in one segment:
// 48 bytes of metadata each. change may make others of them.
func scalars(n int, change func(i int, e *rawEntry)) []byte {
	f := raw{segments: [][2]uint64{{0, 4}}, entries: make([]rawEntry, n), data: 4}
	one := &rawLayout{6, []int32{}, []uint8{}}
	for i := range f.entries {
		f.entries[i] = rawEntry{short(i), 0, one}
		if change != nil {
			change(i, &f.entries[i])
		}
	}
	return f.bytes()
}

// short is a name of up to three bytes for up to a quarter of a million.
func short(i int) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	b := []byte{digits[i>>12&63], digits[i>>6&63], digits[i&63]}
	return string(b)
}

// legacyScalars is a file of 0.6 of n scalars, each at a place of its own.
func legacyScalars(n int) []byte {
	var b fb.Builder
	b.Begin()
	b.Scalar(6, 8, uint64(4*n), 0)
	segments := b.Offsets([]fb.Offset{b.End()})
	v := make([]fb.Offset, n)
	for i := range v {
		name := b.String(short(i))
		sizes, order := b.Scalars(nil, 4, 0), b.Scalars(nil, 1, 0)
		b.Begin()
		b.Scalar(14, 8, uint64(4*i), 0)
		b.Ref(10, order)
		b.Ref(8, sizes)
		b.Ref(4, name)
		b.Scalar(6, 1, 6, 0)
		v[i] = b.End()
	}
	tensors, named := b.Offsets(v), b.Offsets(nil)
	b.Begin()
	b.Ref(12, named)
	b.Ref(10, segments)
	b.Ref(8, tensors)
	b.Scalar(6, 4, 4, 0)
	buf, err := b.Finish(b.End(), "FT01")
	if err != nil {
		panic(err)
	}
	return raw{data: 4 * n}.wrap(buf)
}

// sharing is a file of n entries of one layout and one segment, with the shortest names.
func sharing(n int, layout bool) []byte {
	var b fb.Builder
	b.Begin()
	seg := b.Offsets([]fb.Offset{b.End()})
	sizes, order := b.Scalars(make([]byte, 4*200), 4, 0), b.Scalars(identity(200), 1, 0)
	b.Begin()
	b.Ref(8, order)
	b.Ref(6, sizes)
	l := b.End()
	if !layout {
		l = 0
	}
	v := make([]fb.Offset, n)
	for i := range v {
		k := b.String(short(i))
		b.Begin()
		b.Ref(8, l)
		b.Ref(4, k)
		v[i] = b.End()
	}
	named := b.Offsets(v)
	b.Begin()
	b.Ref(8, named)
	b.Ref(6, seg)
	buf, _ := b.Finish(b.End(), "FT01")
	return raw{}.wrap(buf)
}

// Opening and listing takes no more than eight times the metadata and 1 MiB, whatever a
// file says, and every genuine file is read within that. Blobs with short names come
// closest.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("many large files")
	}
	ofShape := func(n int, shape ...int32) []byte { // in one segment, as the writer makes them
		count := int32(1)
		for _, d := range shape {
			count *= d
		}
		es := make([]ptd.Entry, n)
		layout := &ptd.Layout{ScalarType: 6, Sizes: shape, DimOrder: identity(len(shape))}
		data := tensor.BlobOf(make([]byte, 4*count))
		for i := range es {
			es[i] = ptd.Entry{Name: fmt.Sprintf("%x", i), Layout: layout, Data: data}
		}
		return write(t, es, ptd.WriterOptions{})
	}
	const n = 10_000
	for _, f := range []struct {
		name    string
		data    []byte
		tensors int // -1: too much of the file is shared
	}{
		{"30,000 tensors", write(t, many(30_000), ptd.WriterOptions{}), 30_000},
		{"30,000 tensors, each with a segment",
			write(t, apart(30_000), ptd.WriterOptions{}), 30_000},
		{"1,000 scalars", ofShape(1000), 1000},
		{"scalars", ofShape(n), n},
		{"vectors", ofShape(n, 4), n},
		{"matrices", ofShape(n, 2, 2), n},
		{"the smallest scalars", scalars(n, nil), n},
		{"more of the smallest scalars", scalars(100_000, nil), 100_000},
		{"scalars behind one of rank 16", scalars(n, func(i int, e *rawEntry) {
			if i == 0 {
				e.layout = &rawLayout{0, slices.Repeat([]int32{1}, 16), identity(16)}
			}
		}), n},
		{"scalars behind a blob", scalars(n, func(i int, e *rawEntry) {
			if i == 0 {
				e.layout = nil
			}
		}), n - 1},
		{"scalars and blobs", scalars(n, func(i int, e *rawEntry) {
			if i%10 == 3 {
				e.layout = nil
			}
		}), n - n/10},
		{"scalars of type byte, which take 44",
			scalars(n, func(i int, e *rawEntry) {
				e.layout = &rawLayout{0, []int32{}, []uint8{}}
			}), n},
		{"scalars without a type",
			scalars(n, func(i int, e *rawEntry) {
				e.layout = &rawLayout{44, []int32{}, []uint8{}}
			}), n},
		{"tensors of too many dimensions",
			scalars(n, func(i int, e *rawEntry) {
				e.layout = &rawLayout{0, slices.Repeat([]int32{1}, 17), identity(17)}
			}), n},
		{"tensors of more bytes than there are",
			scalars(n, func(i int, e *rawEntry) {
				e.layout = &rawLayout{6, []int32{2}, []uint8{0}}
			}), -1},
		{"segments in the wrong order",
			with(func(f *raw) { f.segments = slices.Repeat([][2]uint64{{0, 16}}, n) }), 1},
		{"scalars of 0.6", legacyScalars(n), n},
		{"100,000 blobs of one segment", sharing(100_000, false), 0},
		{"50,000 tensors of one layout", sharing(50_000, true), -1},
		{"100,000 segments of no bytes", with(func(f *raw) {
			f.segments = slices.Insert(slices.Repeat([][2]uint64{{16, 0}}, 100_000), 0,
				f.segments[0])
		}), 1},
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, f.data, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, from := range []struct {
			name string
			open func() (*ptd.Reader, error)
		}{
			{"bytes", func() (*ptd.Reader, error) {
				return ptd.OpenBytes(f.data, nil)
			}},
			{"mapped", func() (*ptd.Reader, error) {
				return ptd.Open(path, nil)
			}},
			{"unmapped", func() (*ptd.Reader, error) {
				return ptd.Open(path, &ptd.ReaderOptions{NoMap: true})
			}},
			{"reader", func() (*ptd.Reader, error) {
				return ptd.NewReader(bytes.NewReader(f.data), int64(len(f.data)),
					nil)
			}},
		} {
			t.Run(f.name+" from "+from.name, func(t *testing.T) {
				var err error
				var tensors int
				metadata := int64(binary.LittleEndian.Uint64(f.data[24:]))
				limit := 1<<20 + 8*metadata
				tensors = -1
				got := readtest.Allocated(func() {
					var r *ptd.Reader
					if r, err = from.open(); err == nil {
						tensors = 0
						for range r.Tensors() {
							tensors++
						}
						r.Close()
					}
				})
				if tensors != f.tensors || err != nil && !errors.Is(err, tensor.ErrLimit) &&
					!errors.Is(err, tensor.ErrMalformed) {
					t.Fatalf("%d tensors, %v", tensors, err)
				}
				t.Logf("%.2f times the metadata", float64(got)/float64(metadata))
				if readtest.Measuring() && got > limit {
					t.Errorf("%d bytes allocated for %d bytes of metadata", got, metadata)
				}
			})
		}
	}
}

func identity(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// ratio is how many times as long b takes as a. They take turns, and of each the best
// round counts: other work on the machine only ever adds.
func ratio(a, b func()) float64 {
	best := [2]time.Duration{time.Hour, time.Hour}
	for range 10 {
		for k, do := range [2]func(){a, b} {
			start := time.Now()
			do()
			best[k] = min(best[k], time.Since(start))
		}
	}
	return float64(best[1]) / float64(best[0])
}

// Names that were chosen to collide cost what others do; internal/names has the proof
// by counting.
func TestNamesThatCollideCostNoMore(t *testing.T) {
	readtest.Measure(t)
	lookUp := func(name func(i int) string) func() {
		es := make([]ptd.Entry, 1<<14)
		for i := range es {
			es[i] = ptd.Entry{Name: name(i)}
		}
		data := write(t, es, ptd.WriterOptions{})
		return func() {
			r, err := ptd.OpenBytes(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range es {
				if _, ok := r.Entry(es[i].Name); !ok {
					t.Fatal(es[i].Name)
				}
			}
		}
	}
	spread := lookUp(func(i int) string {
		return fmt.Sprintf("%028d", uint64(i)*0x9E3779B97F4A7C15)
	})
	same := lookUp(func(i int) string { // one sum, and one polynomial of 31
		var b []byte
		for k := range 14 {
			b = append(b, [...]string{"Aa", "BB"}[i>>k&1]...)
		}
		return string(b)
	})
	got := ratio(spread, same)
	t.Logf("%.2f", got)
	if got > 10 { // a chain of all would take some hundred times as long
		t.Errorf("%.1f times as long where names collide", got)
	}
}

// Ten times the entries take less than fifteen times as long. The other side opens ten
// files, so that other work on the machine comes between as often.
func TestTimeIsLinear(t *testing.T) {
	readtest.Measure(t)
	opening := func(n, times int) func() {
		data := write(t, many(n), ptd.WriterOptions{})
		return func() {
			for range times {
				if _, err := ptd.OpenBytes(data, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	got := ratio(opening(5_000, 10), opening(50_000, 1))
	t.Logf("%.2f", 10*got)
	if got > 4 { // a square would be ten
		t.Errorf("%.1f times as long for ten times the entries", 10*got)
	}
}
