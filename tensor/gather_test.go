package tensor

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// Gather gives what reading element by element gives, whole and at any place.
func TestGatherReadsEachElement(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 4000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for range 300 {
		width := int64(1) << random.IntN(4)
		rank := random.IntN(4)
		shape, strides, first := make(Shape, rank), make([]int64, rank), random.Int64N(8)
		for i := range shape {
			shape[i], strides[i] = random.Int64N(6), random.Int64N(12)
		}
		var want []byte
		index := make([]int64, rank)
		n, _ := shape.Elements()
		for range n {
			at := first
			for i := range index {
				at += index[i] * strides[i]
			}
			want = append(want, data[at*width:][:width]...)
			for i := rank - 1; i >= 0; i-- {
				if index[i]++; index[i] < shape[i] {
					break
				}
				index[i] = 0
			}
		}
		b, err := Gather(BlobOf(data), width, shape, strides, first, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := b.ReadAll(); err != nil || !bytes.Equal(p, want) {
			t.Fatalf("%v with strides %v from %d: %x, %v, want %x", shape, strides, first, p, err,
				want)
		}
		if len(want) > 0 {
			from := random.IntN(len(want))
			p := make([]byte, 1+random.IntN(len(want)-from))
			if _, err := b.ReadAt(p, int64(from)); err != nil ||
				!bytes.Equal(p, want[from:from+len(p)]) {
				t.Fatalf("%v at %d: %x, %v", shape, from, p, err)
			}
		}
	}
}

func TestGatherIsChecked(t *testing.T) {
	data := BlobOf(make([]byte, 16))
	for name, c := range map[string]struct {
		shape   Shape
		strides []int64
		first   int64
	}{
		"an element that is outside": {Shape{5}, []int64{1}, 0},
		"a first that is outside":    {Shape{}, nil, 4},
		"a negative first":           {Shape{1}, []int64{1}, -1},
		"a negative stride":          {Shape{2}, []int64{-1}, 3},
		"a negative dimension":       {Shape{-1}, []int64{1}, 0},
		"a stride that is missing":   {Shape{1, 1}, []int64{1}, 0},
		"a sum that wraps":           {Shape{3, 3}, []int64{1 << 61, 1 << 62}, 0},
		"a product that wraps":       {Shape{1 << 32, 1 << 32}, []int64{0, 0}, 0},
		"bytes that wrap":            {Shape{1 << 62}, []int64{0}, 0},
	} {
		if _, err := Gather(data, 4, c.shape, c.strides, c.first, 1<<20); !errors.Is(err,
			ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An array larger than its data is read up to a limit.
func TestGatherIsLimited(t *testing.T) {
	b, err := Gather(BlobOf([]byte{1, 2}), 1, Shape{1 << 40, 2}, []int64{0, 1}, 0, 1<<20)
	if err != nil || b.Size() != 1<<41 {
		t.Fatal(b.Size(), err)
	}
	if _, err := b.ReadAll(); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if _, err := b.ReadAt(make([]byte, 1), 5); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if st, ok := b.Stored(); !ok || st.Offset != -1 || st.Encoding != "strided" {
		t.Errorf("%+v", st)
	}
}
