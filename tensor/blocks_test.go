package tensor

import (
	"errors"
	"io"
	"slices"
	"testing"
)

func TestQuantisedBlocksConvertLikeTheirValues(t *testing.T) {
	q, want := quantised(1000)
	if got, err := Convert[float32](q); err != nil || !slices.Equal(got, want) {
		t.Error("Convert", err)
	}
	into := make([]float64, len(want))
	if err := ConvertInto(into, q); err != nil || into[77] != float64(want[77]) {
		t.Error("ConvertInto", err)
	}
	var got []float32
	for p, err := range Values[float32](q) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p...)
	}
	if !slices.Equal(got, want) {
		t.Error("Values")
	}
	as, err := As(q, BF16)
	if err != nil || as.DType != BF16 || !as.Dense() {
		t.Fatal(as, err)
	}
	if v, err := Load[BFloat16](as); err != nil || v[5] != NewBFloat16(want[5]) {
		t.Error("As", err)
	}
	part, err := Slice(q, Range{10, 20}, Stride{1, End, 3})
	if err != nil || part.DType != F32 || !part.Shape.Equal(Shape{10, 21}) {
		t.Fatal(part, err)
	}
	if v, err := Load[float32](part); err != nil || v[22] != want[11*64+1+3] {
		t.Error("Slice", err)
	}
	zt := *q
	zt.Scheme = "gguf.q4_0/1"
	zt.Parts = []Part{{Role: "data", DType: U8, Data: q.Parts[0].Data}}
	if got, err := Convert[float32](&zt); err != nil || !slices.Equal(got, want) {
		t.Error("of zTensor 2", err)
	}
}

// A part of a quantised tensor costs its blocks.
func TestSliceOfBlocksReadsOnlyThem(t *testing.T) {
	q, want := quantised(1000)
	b, _ := q.Parts[0].Data.Bytes()
	counter := &countingSource{b: b}
	q.Parts[0].Data = NewBlob(counter)
	part, err := Slice(q, Range{500, 502})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Load[float32](part)
	if err != nil || !slices.Equal(v, want[500*64:502*64]) {
		t.Error(err)
	}
	if counter.n != 2*2*18 {
		t.Errorf("%d bytes read for two rows of %d", counter.n, 2*18)
	}
}

type countingSource struct {
	Computed
	b []byte
	n int
}

func (c *countingSource) Size() int64                  { return int64(len(c.b)) }
func (c *countingSource) Seekable() bool               { return true }
func (c *countingSource) ReadInto(p []byte) error      { return ReadFull(c, p) }
func (c *countingSource) Open() (io.ReadCloser, error) { return Stream(c), nil }
func (c *countingSource) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, c.b[off:])
	c.n += n
	return n, nil
}

func TestDequantizerReadsAtAnyOffset(t *testing.T) {
	q, _ := quantised(200)
	f, err := numbers(q)
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.Data.ReadAll()
	if err != nil || int64(len(all)) != f.Data.Size() {
		t.Fatal(len(all), err)
	}
	for _, c := range []struct{ off, n int }{{0, 1}, {1, 3}, {127, 2}, {128, 128}, {130, 20000},
		{len(all) - 5, 5}, {0, len(all)}, {len(all), 0}} {
		p := make([]byte, c.n)
		if n, err := f.Data.ReadAt(p, int64(c.off)); n != c.n || err != nil ||
			string(p) != string(all[c.off:c.off+c.n]) {
			t.Errorf("%d bytes at %d: %d, %v", c.n, c.off, n, err)
		}
	}
	if n, err := f.Data.ReadAt(make([]byte, 10), int64(len(all)-5)); n != 5 || err != io.EOF {
		t.Errorf("beyond the end: %d, %v", n, err)
	}
}

func TestWrongQuantisedBlocksAreRefused(t *testing.T) {
	for name, change := range map[string]func(q *Tensor){
		"short":                func(q *Tensor) { q.Parts[0].Data = BlobOf(make([]byte, 35)) },
		"rows of half a block": func(q *Tensor) { q.Shape = Shape{4, 16} },
		"a negative dimension": func(q *Tensor) { q.Shape = Shape{-1, 64} },
		"beyond 2^63 elements": func(q *Tensor) { q.Shape = Shape{1 << 62, 64} },
		"beyond 2^63 bytes":    func(q *Tensor) { q.Shape = Shape{1 << 50, 1 << 12} },
		"an unknown type":      func(q *Tensor) { q.Scheme = "Q4_2" },
		"another role":         func(q *Tensor) { q.Parts[0].Role = "values" },
		"two parts":            func(q *Tensor) { q.Parts = append(q.Parts, q.Parts[0]) },
		"another version":      func(q *Tensor) { q.Scheme = "gguf.q4_0/2" },
		"external":             func(q *Tensor) { q.External = true },
		"a scalar":             func(q *Tensor) { q.Shape = nil },
		"data that is not read": func(q *Tensor) {
			q.Parts[0].Data = BlobFunc(36,
				func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe })
		},
	} {
		q, _ := quantised(1)
		change(q)
		_, err := Convert[float32](q)
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, errors.ErrUnsupported) &&
			!errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty := &Tensor{Name: "e", Scheme: "Q4_0", Shape: Shape{0, 32},
		Parts: []Part{{Role: "blocks"}}}
	if v, err := Convert[float32](empty); err != nil || len(v) != 0 {
		t.Error(v, err)
	}
}
