package rten

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/readtest"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// openCompact opens a mapped file as one of more than 16 MiB is opened.
func openCompact(t testing.TB, data []byte) (*Reader, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	src, err := source.Open(name, false)
	if err != nil {
		t.Fatal(err)
	}
	if !src.Mapped() {
		src.Close()
		t.Skip("no mapping here")
	}
	t.Cleanup(func() { src.Close() })
	return newReader(src, nil, false, 0)
}

// largeV1 is a version 1 model with constants of many sizes, in a graph and in a branch.
func largeV1(t testing.TB) []byte {
	g := NewGraphBuilder()
	rng := rand.New(rand.NewPCG(5, 6))
	numbers := func(n int) []int32 {
		v := make([]int32, n)
		for i := range v {
			v[i] = int32(rng.Uint32())
		}
		return v
	}
	for i, n := range []int{0, 1, 3, 200, 255, 256, 257, 300, 511, 512, 513, 767, 1000, 1023, 1024, 1025, 3000, 40_000, 2, 5} {
		g.Constant(tensor.New(fmt.Sprint("w", i), tensor.Shape{int64(n)}, numbers(n)))
	}
	many := make([]int8, 5001)
	g.Constant(tensor.New("bytes", tensor.Shape{5001}, many))
	g.Constant(tensor.New("floats", tensor.Shape{30, 100}, make([]float32, 3000)))
	for i := range 50 {
		g.Constant(tensor.New(fmt.Sprint("small", i), tensor.Shape{2}, numbers(2)))
	}
	g.SetMetadata("license", "MIT")
	var out bytes.Buffer
	if err := Write(&out, g, &WriterOptions{Version: 1}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCompactModelsSayTheSame(t *testing.T) {
	files := map[string][]byte{"made": largeV1(t), "odd": oddModel(""), "identified": oddModel("RTEN"), "nested": loops(15)}
	for name, data := range goldens(t) {
		if r := openBytes(t, data); r.Version() == "1" {
			files[name] = data
		} else if v1, err := asVersion1(r); err == nil {
			files[name+" as version 1"] = v1
		}
	}
	interleaved := func() []byte { // weights of 8 KiB between the nodes, as the converter writes them
		var b raw
		var nodes []fb.Offset
		for i := range 20 {
			nodes = append(nodes, b.inline(fmt.Sprint("w", i), 2048, 2048), b.value(fmt.Sprint("v", i)))
		}
		return b.model(b.graph(nodes, []uint32{1}, []uint32{3}, nil), 1)
	}
	files["interleaved"] = interleaved()
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			whole := openBytes(t, data)
			r, err := openCompact(t, data)
			if err != nil {
				t.Fatal(err)
			}
			if name == "interleaved" || name == "made" {
				if r.model.compact == nil || len(r.model.buf) > len(data)/2 || len(r.model.compact.elsewhere) == 0 {
					t.Errorf("not compact: %d of %d bytes", len(r.model.buf), len(data))
				}
			}
			if a, b := describe(whole), describe(r); a != b {
				t.Errorf("compact:\n%s\nwhole:\n%s", b, a)
			}
			if a, b := fmt.Sprint(whole.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})), fmt.Sprint(r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true})); a != b {
				t.Errorf("compact: %s\nwhole: %s", b, a)
			}
			for i := range whole.Len() {
				a, err1 := whole.At(i).Data.ReadAll()
				b, err2 := r.At(i).Data.ReadAll()
				if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
					t.Errorf("%s: other bytes: %v, %v", whole.At(i).Name, err1, err2)
				}
			}
			if !bytes.Equal(patched(t, r, nil), data) {
				t.Error("a copy has other bytes")
			}
			edit := func(p *Patch) error { return p.SetMetadata("license", "BSD") }
			for _, opts := range []*WriterOptions{nil, {Version: 2}} {
				if !bytes.Equal(patched(t, r, opts, edit), patched(t, whole, opts, edit)) {
					t.Errorf("%+v: an edited copy has other bytes", opts)
				}
			}
		})
	}
}

func asVersion1(r *Reader) ([]byte, error) {
	var b bytes.Buffer
	err := NewPatch(r).Write(&b, &WriterOptions{Version: 1})
	return b.Bytes(), err
}

// Whatever is wrong is found in the same words, and what overlaps is kept whole.
func TestCompactModelsThatAreDamaged(t *testing.T) {
	var b raw
	seeds := [][]byte{largeV1(t), golden(t, "rust-0.23.0-v1"), b.model(b.graph([]fb.Offset{b.inline("a", 700, 700), b.inline("b", 300, 300)}, []uint32{0, 1, 1}, nil, nil), 1)}
	rng := rand.New(rand.NewPCG(7, 8))
	opened := 0
	for i := range 500 {
		data := mutant(rng, seeds[i%len(seeds)])
		src := source.OfBytes(data)
		whole, err1 := newReader(src, nil, true, compactFrom)
		r, err2 := newReader(source.OfBytes(data), nil, false, 0)
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("whole: %v\ncompact: %v", err1, err2)
		}
		if err1 != nil {
			continue
		}
		opened++
		if x, y := describe(whole), describe(r); x != y {
			t.Fatalf("compact:\n%s\nwhole:\n%s", y, x)
		}
	}
	if opened < 50 {
		t.Errorf("%d of the mutants open", opened)
	}
}

// G3 for version 1: weights that are mapped are not copied.
func TestLargeVersion1TakesLittleMemory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large.rten")
	g := NewGraphBuilder()
	const each = 4 << 20
	for i := range 12 {
		g.Constant(&tensor.Tensor{Name: fmt.Sprint("w", i), DType: tensor.U8, Shape: tensor.Shape{each},
			Data: tensor.BlobFunc(each, func() (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(bytes.Repeat([]byte{byte(i)}, each))), nil
			})})
	}
	if err := WriteFile(name, g, &WriterOptions{Version: 1}); err != nil {
		t.Fatal(err)
	}
	var r *Reader
	var err error
	peak := readtest.PeakHeap(1<<20, func() {
		if r != nil {
			r.Close()
		}
		if r, err = Open(name, nil); err != nil {
			return
		}
		for x := range r.Tensors() {
			_ = x.Name
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.src.Mapped() {
		t.Skip("no mapping here")
	}
	if peak > 1<<20 {
		t.Errorf("%d bytes of heap for a file of %d", peak, r.Size())
	}
	v, err := tensor.Load[uint8](r.Tensor("w7"))
	if err != nil || v[0] != 7 || v[each-1] != 7 {
		t.Errorf("other elements: %v", err)
	}
	if err := r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true}); err != nil {
		t.Error(err)
	}
	// A file that is cut under the mapping is an error, not a fault.
	if err := os.Truncate(name, 20<<20); err == nil {
		if _, err := r.Tensor("w11").Data.ReadAll(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("read behind the end: %v", err)
		}
		if err := NewPatch(r).Write(io.Discard, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a copy of a file that was cut: %v", err)
		}
	}
}
