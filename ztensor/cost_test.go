package ztensor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
)

// The limits of opening, reading and writing: requests, bytes, memory.

// hole is a file of size bytes that are zero but for what is at its start and
// its end.
func hole(start, end []byte, size int64) io.ReaderAt {
	return readtest.ReaderFunc(func(p []byte, off int64) (int, error) {
		clear(p)
		for _, piece := range []struct {
			b  []byte
			at int64
		}{{start, 0}, {end, size - int64(len(end))}} {
			if from := piece.at - off; from < int64(len(p)) && from+int64(len(piece.b)) > 0 {
				copy(p[max(from, 0):], piece.b[max(-from, 0):])
			}
		}
		return int(min(int64(len(p)), size-off)), nil
	})
}

func TestListingAGibibyteTakesFewReads(t *testing.T) {
	const size = 1 << 30
	for _, n := range []int{1, 100, 400, 10_000} {
		for _, version := range []string{"1.0", "1.2"} {
			list := map[string]any{}
			for i := range n {
				offset := 64 + 1000*64*i
				if version == "1.0" {
					list[fmt.Sprintf("model.layers.%d.weight", i)] = tensor10("float32", "dense",
						[]any{10, 100}, map[string]any{"data": component10(offset, 4000)})
				} else {
					list[fmt.Sprintf("model.layers.%d.weight", i)] = object12("dense",
						[]any{10, 100}, map[string]any{"data": component12("f32", offset, 4000)})
				}
			}
			tail := file10(manifest10(list), 8)[8:]
			if version == "1.2" {
				tail = file12(manifest12(list), 8)[8:]
			}
			counter := readtest.Count(hole([]byte(v1.Magic1), tail, size))
			r, err := NewReader(counter, size, nil)
			if err != nil {
				t.Fatal(err)
			}
			listed := 0
			for ten := range r.Tensors() {
				listed += int(ten.Shape[0])
			}
			if listed != 10*n {
				t.Errorf("%d of %d tensors", listed/10, n)
			}
			reads, read := counter.Calls(), counter.Bytes()
			if want := 2 + min(1, int(r.f.ManifestSize)/(64<<10-64)); reads > want ||
				read > r.f.ManifestSize+64<<10 {
				t.Errorf("%s, %d tensors: %d reads of %d bytes for a manifest of %d", version, n,
					reads, read, r.f.ManifestSize)
			}
			// One tensor more is one read more.
			counter.Reset()
			if _, err := tensor.Load[float32](r.Tensor("model.layers.0.weight")); err != nil ||
				counter.Calls() != 1 || counter.Bytes() != 4000 {
				t.Errorf("loading: %d reads of %d bytes, %v", counter.Calls(), counter.Bytes(),
					err)
			}
		}
	}
}

// Opening takes at most 1 MiB and 16 times the metadata, whatever the
// file says.
func TestMemoryOfOpeningIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory")
	}
	entry := func(name string, extra ...any) []byte {
		return raw(append([]any{name, 0xa3, "shape", 0x80, "format", "x", "components"},
			extra...)...)
	}
	repeat := func(head []byte, n int, piece func(i int) []byte) []byte {
		b := cbor.AppendHead(raw(0xa2, "version", "1.2.0", "objects"), cbor.Map, uint64(n))
		if head != nil {
			b = head
		}
		for i := range n {
			b = append(b, piece(i)...)
		}
		return b
	}
	number := func(i int) string { return fmt.Sprintf("%05x", i) }
	manifests := map[string][]byte{
		"tensors without anything": repeat(nil, 50_000,
			func(i int) []byte { return entry(number(i), 0xa0) }),
		"tensors in another order": repeat(nil, 50_000,
			func(i int) []byte { return entry(number(99_999-i), 0xa0) }),
		"components without anything": repeat(raw(0xa2, "version", "1.2.0", "objects", 0xa1, "w",
			0xa3, "shape", 0x80, "format", "x", "components", 0xba, 0, 0, 0xc3, 0x50), 50_000,
			func(i int) []byte {
				return raw(number(i), 0xa3, "dtype", "u8", "offset", 0x18, 64,
					"length", 0)
			}),
		"dimensions": repeat(nil, 2000, func(i int) []byte {
			return raw(number(i), 0xa3, "format", "x", "components", 0xa0, "shape", 0x98, 255,
				bytes.Repeat([]byte{1}, 255))
		}),
		"attributes": repeat(raw(0xa3, "version", "1.2.0", "objects", 0xa0,
			"attributes", 0xba, 0, 1, 0x86, 0xa0), 100_000,
			func(i int) []byte { return raw(number(i), 0) }),
		"unknown keys": repeat(raw(0xba, 0, 1, 0x86, 0xa2, "version", "1.2.0",
			"objects", 0xa0), 100_000, func(i int) []byte { return raw(number(i), 0) }),
		"a claim of 2³² tensors": raw(0xa2, "version", "1.2.0", "objects", 0xba, 0xff,
			0xff, 0xff, 0xff, make([]byte, 1<<20)),
		"a claim that the bytes could hold": raw(cbor.AppendHead(raw(0xa2, "version", "1.2.0",
			"objects"), cbor.Map, (1<<20)/29), make([]byte, 1<<20)),
		"a tensor with an attribute each": repeat(nil, 20_000, func(i int) []byte {
			return raw(number(i), 0xa4, "shape", 0x80, "format", "x", "components", 0xa0,
				"attributes", 0xa0)
		}),
		"misaligned": repeat(nil, 20_000, func(i int) []byte {
			return entry(number(i), 0xa1, "data", 0xa3, "dtype", "u8", "offset", 0x18, 65,
				"length", 1)
		}),
		"overlapping": repeat(nil, 20_000, func(i int) []byte {
			return entry(number(i), 0xa1, "data", 0xa3, "dtype", "u8", "offset", 0x18, 64,
				"length", byte1(i))
		}),
		"genuine": nil,
		"1 MiB of {}s": raw(0xa2, "version", "1.2.0", "objects", 0xa0,
			bytes.Repeat([]byte{0xa0}, 1<<20)),
	}
	for name, m := range manifests {
		t.Run(name, func(t *testing.T) {
			data := file12(m, 128)
			if m == nil {
				data = manyTensors(t, 20_000, &WriterOptions{Version: "1.0", Digest: SHA256})
			}
			size := int64(len(m))
			if m == nil {
				r, _ := OpenBytes(data, nil)
				size = r.f.ManifestSize
			}
			for how, open := range map[string]func() (*Reader, error){
				"bytes": func() (*Reader, error) { return OpenBytes(data, nil) },
				"reader": func() (*Reader, error) {
					return NewReader(bytes.NewReader(data), int64(len(data)), nil)
				},
			} {
				var r *Reader
				var err error
				limit := 1<<20 + 24*size // lists that grow leave garbage
				peak := readtest.PeakHeap(func() {
					if r, err = open(); err == nil {
						list0(r)
						r.Warnings()
					}
				})
				if peak > limit {
					t.Errorf("%s: %d bytes for a manifest of %d: %.1f times (%v)", how, peak, size,
						float64(peak)/float64(size), err)
				} else {
					t.Logf("%s: %.1f times the manifest", how, float64(peak)/float64(size))
				}
			}
		})
	}
}

func byte1(i int) int { return i%20 + 1 }

func list0(r *Reader) {
	for t := range r.Tensors() {
		listed += int64(len(t.Name)) + int64(len(t.Parts))
	}
}

// Reading a tensor takes its bytes and 1 MiB, 16 MiB where it is
// encoded; a view or a read into the caller's memory takes nothing.
func TestMemoryOfReadingIsBounded(t *testing.T) {
	readtest.Measure(t)
	const n = 8 << 20
	content := noise(n, 3)
	for _, level := range []int{0, 3} {
		data := write(t, &WriterOptions{Version: "1.0", Digest: CRC32C, Level: level},
			func(w *Writer) {
				if err := w.Add(tensor.New("w", tensor.Shape{n}, content)); err != nil {
					t.Fatal(err)
				}
			})
		for _, s := range readtest.Sources(t, data) {
			r, err := api.OpenSource(s)
			if err != nil {
				t.Fatal(err)
			}
			b := r.Tensor("w").Data
			limit := int64(n + 1<<20)
			if level > 0 {
				limit = n + 16<<20
			}
			if got := readtest.Allocated(func() { b.ReadAll() }); got > limit {
				t.Errorf("%s, level %d: ReadAll takes %d bytes", s.Name, level, got)
			}
			dst := make([]byte, n)
			if got := readtest.Allocated(func() { b.ReadInto(dst) }); level == 0 && got > 64<<10 ||
				got > 16<<20 {
				t.Errorf("%s, level %d: ReadInto takes %d bytes", s.Name, level, got)
			}
			if !bytes.Equal(dst, content) {
				t.Errorf("%s: other bytes", s.Name)
			}
			stream := func() {
				in, err := b.Open()
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{in},
					make([]byte, 64<<10))
			}
			if got := readtest.PeakHeap(stream); got > 24<<20 {
				t.Errorf("%s, level %d: a stream takes %d bytes", s.Name, level, got)
			}
			r.Close()
		}
	}
}

func TestNothingIsAllocatedForAView(t *testing.T) {
	data := write(t, &WriterOptions{Version: "1.0"},
		func(w *Writer) { w.AddAll(context.Background(), tensor.Of(samples()...)) })
	r, err := OpenBytes(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 24)
	readtest.AllocatesNothing(t, func() {
		ten := r.Tensor("f32")
		if _, ok := ten.Data.Bytes(); !ok || ten.Data.ReadInto(dst) != nil {
			t.Fatal("no bytes")
		}
		if !le.HostIsLittle { // a view is an error, and that is allocated
			return
		}
		if _, err := tensor.View[float32](ten); err != nil {
			t.Fatal(err)
		}
	})
}

// Opening and listing allocates a number of times that does not depend on how many
// tensors there are.
func TestAllocationsOfOpeningAreBounded(t *testing.T) {
	const limit = 200
	for _, version := range []string{"1.0", "2"} {
		for _, n := range []int{10, readtest.Entries(20_000)} {
			o := &WriterOptions{Version: version}
			if version == Version2 {
				// by default the padding would fill the memory of 32-bit machines
				o.Alignment = 4096
			}
			data := manyTensors(t, n, o)
			if got := readtest.Allocations(func() {
				r, err := OpenBytes(data, nil)
				if err != nil {
					t.Fatal(err)
				}
				list(r)
			}); got > limit {
				t.Errorf("%s: %v allocations to open %d tensors", version, got, n)
			}
		}
	}
}

// A tensor that comes piece by piece is not gathered, in whatever form.
func TestMemoryOfWritingIsBounded(t *testing.T) {
	readtest.Measure(t)
	for _, o := range []WriterOptions{{Version: "1.0"}, {Version: "1.0", Digest: SHA256},
		{Version: "1.0", Digest: CRC32C, Level: 1}, {Version: "1.0", Level: 3}} {
		size := int64(256 << 20)
		if o.Level > 0 {
			size = 32 << 20
		}
		piece := noise(1<<20, 1)
		peak := readtest.PeakHeap(func() {
			w := NewWriter(io.Discard, &o)
			p, err := w.Create("w", tensor.BF16, tensor.Shape{size / 2})
			if err != nil {
				t.Fatal(err)
			}
			for range size / int64(len(piece)) {
				if _, err := p.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if peak > 48<<20 {
			t.Errorf("%+v: %d MiB to write %d", o, peak>>20, size>>20)
		}
	}
}

// A file that does not fit into memory is written in little of it: 4 GiB with
// TENSORFILE_LARGE=1.
func TestLargeFilesAreWrittenInLittleMemory(t *testing.T) {
	readtest.Measure(t)
	size := int64(64 << 20)
	if os.Getenv("TENSORFILE_LARGE") != "" {
		size = 4 << 30
	} else {
		t.Log("64 MiB; TENSORFILE_LARGE=1 makes it 4 GiB")
	}
	piece := noise(1<<20, 1)
	for _, o := range []WriterOptions{{Version: "1.0"}, {Version: "2"},
		{Version: "1.0", Digest: CRC32C, Level: 1}} {
		name := filepath.Join(t.TempDir(), "x.zt")
		peak := readtest.PeakHeap(func() {
			w, err := Create(name, &o)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Abort()
			p, err := w.Create("w", tensor.BF16, tensor.Shape{size / 2})
			if err != nil {
				t.Fatal(err)
			}
			for i := range size / int64(len(piece)) {
				piece[i%64] = byte(i)
				if _, err := p.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(p.Close(), w.Close()); err != nil {
				t.Fatal(err)
			}
		})
		if t.Logf("%+v: %d MiB, %.1f MiB of heap at most", o, size>>20,
			float64(peak)/(1<<20)); peak > 64<<20 {
			t.Error("more than 64 MiB")
		}
		r, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ten := r.Tensor("w"); ten.Size() != size {
			t.Errorf("%d bytes", ten.Size())
		}
		r.Close()
		os.Remove(name)
	}
}

// Compression has to find what there is to find in weights.
func TestWeightsCompressAtEveryLevel(t *testing.T) {
	if testing.Short() {
		t.Skip("long where the machine is emulated or races are looked for")
	}
	content := noise(8<<20, 5)
	for _, level := range []int{1, 3, 9} {
		data := write(t, &WriterOptions{Version: "1.0", Level: level}, func(w *Writer) {
			w.Add(&tensor.Tensor{Name: "w", DType: tensor.BF16, Shape: tensor.Shape{4 << 20},
				Data: tensor.BlobOf(content)})
		})
		if ratio := float64(len(content)) / float64(len(data)); ratio < 1.27 {
			t.Errorf("level %d: %.4f", level, ratio)
		}
	}
}

// Version 2 over a reader: one tensor is one read, compressed ones too, and a
// slice of a compressed one takes the table, once, and the frames that it needs.
func TestATensorOfVersion2IsOneRead(t *testing.T) {
	const size = 8<<20 + 12345
	data := noise(size, 3)
	for _, level := range []int{0, 3} {
		file := write(t, &WriterOptions{Version: "2", Level: level},
			adding(t, tensor.New("w", tensor.Shape{size}, data),
				tensor.New("x", tensor.Shape{1 << 20}, data[:1<<20])))
		counter := readtest.Count(bytes.NewReader(file))
		open := func() *Reader {
			t.Helper()
			counter.Reset()
			r, err := NewReader(counter, int64(len(file)), nil)
			// the magic, and the rest of the metadata
			if err != nil || counter.Calls() != 2 || counter.Bytes() > 64<<10 {
				t.Fatalf("opened with %d reads of %d bytes: %v", counter.Calls(), counter.Bytes(),
					err)
			}
			counter.Reset()
			return r
		}
		r := open()
		w := r.Tensor("w").Data
		stored, _ := w.Stored()
		if got, err := w.ReadAll(); err != nil || !bytes.Equal(got, data) ||
			counter.Calls() != 1 || counter.Bytes() != stored.Size {
			t.Errorf("level %d: %d reads of %d of %d bytes: %v", level, counter.Calls(),
				counter.Bytes(), stored.Size, err)
		}
		r = open()
		w = r.Tensor("w").Data
		for i, s := range []struct{ off, n, frames int64 }{{3<<20 + 500, 1000, 1},
			{4 << 20, 1 << 20, 1}, {5<<20 - 1, 2, 2}, {7<<20 - 5, 1<<20 + 10, 3},
			{2 << 20, 12345, 1}} {
			counter.Reset()
			p := make([]byte, s.n)
			if _, err := w.ReadAt(p, s.off); err != nil || !bytes.Equal(p, data[s.off:][:s.n]) {
				t.Fatalf("level %d, %+v: %v", level, s, err)
			}
			calls, most := 1, s.n
			if level > 0 {
				most = s.frames * (1<<20 + 1000) // noise does not become shorter
				if i == 0 {
					calls, most = 2, most+64<<10
				}
			}
			if counter.Calls() != calls || counter.Bytes() > most {
				t.Errorf("level %d, %+v: %d reads of %d bytes", level, s, counter.Calls(),
					counter.Bytes())
			}
		}
	}
}
