package tensor

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive computes a slice one element at a time, from the definition.
func naive(t *testing.T, x *Tensor, index []Index) (Shape, []uint16) {
	t.Helper()
	all, err := Load[uint16](x)
	if err != nil {
		t.Fatal(err)
	}
	strides, _ := x.Order.Strides(x.Shape)
	shape := Shape{}
	places := []int64{0}
	for d, n := range x.Shape {
		var picked []int64
		var ix Index = All
		if d < len(index) {
			ix = index[d]
		}
		switch ix := ix.(type) {
		case At:
			at := int64(ix)
			if at < 0 {
				at += n
			}
			picked = []int64{at}
		case Range:
			for i := range n {
				from, to := ix.Start, ix.Stop
				if from < 0 {
					from += n
				}
				if to < 0 {
					to += n
				}
				if i >= from && i < to {
					picked = append(picked, i)
				}
			}
		case Stride: // only as this test makes them
			if ix.Step > 0 {
				for i := ix.Start; i < min(ix.Stop, n); i += ix.Step {
					picked = append(picked, i)
				}
			} else {
				for i := n - 1; i >= 0; i += ix.Step {
					picked = append(picked, i)
				}
			}
		}
		if _, dropped := ix.(At); !dropped {
			shape = append(shape, int64(len(picked)))
		}
		var next []int64
		for _, p := range places {
			for _, i := range picked {
				next = append(next, p+i*strides[d])
			}
		}
		places = next
	}
	var want []uint16
	for _, p := range places {
		want = append(want, all[p])
	}
	return shape, want
}

func TestSliceAgreesWithTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		rank := rng.IntN(5)
		x := &Tensor{Name: "x", DType: U16, Shape: Shape{}}
		n := 1
		for range rank {
			d := 1 + rng.IntN(6)
			x.Shape = append(x.Shape, int64(d))
			n *= d
		}
		if rng.IntN(2) == 0 {
			x.Order = rng.Perm(rank)
		}
		data := make([]uint16, n)
		for i := range data {
			data[i] = uint16(i)
		}
		x.Data = New("", Shape{int64(n)}, data).Data
		var index []Index
		for d := range rng.IntN(rank + 1) {
			size := int64(x.Shape[d])
			switch rng.IntN(5) {
			case 0:
				index = append(index, All)
			case 1:
				index = append(index, At(rng.Int64N(2*size)-size))
			case 2:
				index = append(index, Range{rng.Int64N(size), rng.Int64N(size + 3)})
			case 3:
				index = append(index, Stride{rng.Int64N(size), End, 1 + rng.Int64N(3)})
			default:
				index = append(index, Stride{End, End, -1 - rng.Int64N(3)})
			}
		}
		shape, want := naive(t, x, index)
		raw, _ := x.Data.Bytes()
		encoded := codedOf(raw, int64(len(raw)), 9)
		for _, data := range []Blob{x.Data, plainOf(raw), encoded} {
			y := *x
			y.Data = data
			got, err := Slice(&y, index...)
			if err != nil {
				t.Fatal(err)
			}
			values, err := Load[uint16](got)
			if err != nil || !got.Shape.Equal(shape) || !slices.Equal(values, want) {
				t.Fatalf("%v of %v %v: %v %v, want %v %v (%v)", index, x.Shape, x.Order, got.Shape,
					values, shape, want, err)
			}
		}
	}
}

func TestSliceRefusesIndicesOutside(t *testing.T) {
	x := New("x", Shape{2, 3}, make([]uint8, 6))
	for name, index := range map[string][]Index{
		"an index beyond":  {At(2)},
		"one before":       {At(-3)},
		"a step of 0":      {Stride{0, 1, 0}},
		"three dimensions": {All, All, All},
	} {
		if _, err := Slice(x, index...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Slice(&Tensor{Name: "x", Scheme: "sparse"}); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := Slice(nil); !errors.Is(err, ErrNoTensor) {
		t.Error(err)
	}
	empty, err := Slice(x, Range{2, 1})
	if err != nil || !empty.Shape.Equal(Shape{0, 3}) || empty.Data.Size() != 0 {
		t.Error(empty, err)
	}
}

// A counting source counts the bytes that are read.
type counting struct {
	plain
	read, reads int
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	n, err := c.plain.ReadAt(p, off)
	c.read += n
	return n, err
}

func TestSliceReadsWhatItNeeds(t *testing.T) {
	const rows, columns = 1000, 20_000
	src := &counting{plain: plain{Reader: bytes.NewReader(make([]byte, rows*columns))}}
	x := &Tensor{Name: "x", DType: U8, Shape: Shape{rows, columns}, Data: NewBlob(src)}
	for _, c := range []struct {
		index       []Index
		read, reads int
	}{
		{[]Index{Range{10, 20}}, 10 * columns, 1},
		{[]Index{At(-1), Range{5, 6}}, 1, 1},
		{[]Index{All, Range{0, 100}}, rows * 100, rows},
		{[]Index{At(3), Stride{0, End, 100}}, columns - 99, 1}, // with the gaps between
	} {
		src.read, src.reads = 0, 0
		y, err := Slice(x, c.index...)
		if err != nil {
			t.Fatal(err)
		}
		if src.reads > 0 {
			t.Errorf("%v: Slice reads", c.index)
		}
		if _, err := y.Data.ReadAll(); err != nil || src.read != c.read || src.reads > c.reads {
			t.Errorf("%v: %d bytes in %d reads, want %d in %d (%v)", c.index, src.read, src.reads,
				c.read, c.reads, err)
		}
	}
}

// Data that must be decoded from its start is decoded once.
func TestSliceDecodesOnce(t *testing.T) {
	const n = 12 << 20
	opened, read := 0, 0
	x := &Tensor{Name: "x", DType: U8, Shape: Shape{n / 4, 4},
		Data: BlobFunc(n, func() (io.ReadCloser, error) {
			opened++
			return io.NopCloser(io.TeeReader(bytes.NewReader(make([]byte, n)),
				writerFunc(func(p []byte) { read += len(p) }))), nil
		})}
	y, err := Slice(x, All, Range{0, 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, must(y.Data.Open())); err != nil || opened != 1 || read > n {
		t.Errorf("opened %d times, %d bytes of %d (%v)", opened, read, n, err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSliceTakesPackedElements(t *testing.T) {
	for _, d := range []DType{F4E2M1FN, F6E2M3FN, F6E3M2FN} {
		x := randomTensor(d, 60, 5)
		x.Shape = Shape{5, 12}
		all, err := Convert[float32](x)
		if err != nil {
			t.Fatal(err)
		}
		y, err := Slice(x, Range{1, 4}, Stride{End, End, -5})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Convert[float32](y)
		if err != nil {
			t.Fatal(err)
		}
		var want []float32
		for r := 1; r < 4; r++ {
			for _, c := range []int{11, 6, 1} {
				want = append(want, all[r*12+c])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
	}
}
