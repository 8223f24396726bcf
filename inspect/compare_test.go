package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// comparePair makes two tensors of random bits, special values among them, that are equal
// in places. Their data starts at an odd address.
func comparePair(d tensor.DType, n int, seed uint64) (a, b *tensor.Tensor) {
	rng := rand.New(rand.NewPCG(seed, uint64(d)))
	size, _ := d.Bytes(int64(n))
	x := make([]byte, size+1)[1:]
	for i := range x {
		x[i] = byte(rng.Uint32())
	}
	specials := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1,
		math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat32, math.MaxFloat32, math.MaxFloat64}
	w := d.Size()
	for i := 0; w > 0 && i < n; i++ {
		switch p := x[i*w:][:w]; {
		case d == tensor.Bool:
			p[0] &= 1
		case d == tensor.I64 || d == tensor.U64: // float64 holds the distances of these
			binary.LittleEndian.PutUint64(p, rng.Uint64()>>20)
		case d == tensor.F64 && i%7 == 0:
			binary.LittleEndian.PutUint64(p, math.Float64bits(specials[i%len(specials)]))
		case d == tensor.F32 && i%7 == 0:
			binary.LittleEndian.PutUint32(p, math.Float32bits(float32(specials[i%len(specials)])))
		}
	}
	y := append(make([]byte, 1, size+1), x...)[1:]
	for i := 0; w > 0 && i < n; i++ {
		if rng.IntN(3) == 0 {
			copy(y[i*w:][:w], x[rng.IntN(n)*w:][:w])
		}
	}
	of := func(p []byte) *tensor.Tensor {
		return &tensor.Tensor{Name: "x", DType: d, Shape: tensor.Shape{int64(n)},
			Data: tensor.BlobOf(p)}
	}
	return of(x), of(y)
}

// compareByDefinition is Compare as its documentation puts it.
func compareByDefinition(t *testing.T, a, b *tensor.Tensor,
	o CompareOptions) (different, first int64, largest float64) {
	t.Helper()
	width := 1
	var x, y []float64
	for _, side := range []struct {
		t   *tensor.Tensor
		dst *[]float64
	}{{a, &x}, {b, &y}} {
		if !side.t.DType.IsComplex() {
			v, err := tensor.Convert[float64](side.t)
			if err != nil {
				t.Fatal(err)
			}
			*side.dst = v
			continue
		}
		v, err := tensor.Convert[complex128](side.t)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range v {
			*side.dst = append(*side.dst, real(c), imag(c))
		}
		width = 2
	}
	p, _ := a.Data.ReadAll()
	q, _ := b.Data.ReadAll()
	numeric := o.Numeric || o.Tolerance > 0 || o.Relative > 0 || a.DType != b.DType
	first, largest = -1, math.NaN()
	for i := 0; i < len(x); i += width {
		same := true
		for k := i; k < i+width; k++ {
			u, v := x[k], y[k]
			away := math.Abs(u - v)
			if away > 0 && !(away <= largest) {
				largest = away
			}
			isNear := away <= o.Tolerance || !math.IsInf(v, 0) && !math.IsInf(away, 0) &&
				away <= o.Tolerance+float64(o.Relative*math.Abs(v))
			same = same && (u == v || u != u && v != v || isNear)
		}
		if w := a.DType.Size(); !numeric && w > 0 {
			at := i / width * w
			same = bytes.Equal(p[at:at+w], q[at:at+w])
		} else if !numeric {
			same = math.Float64bits(x[i]) == math.Float64bits(y[i])
		}
		if !same {
			if different++; first < 0 {
				first = int64(i / width)
			}
		}
	}
	return different, first, largest
}

// Such as text in an .npz, whose elements have a size and no dtype.
func TestCompareRefusesAnUnknownDType(t *testing.T) {
	x := &tensor.Tensor{Name: "x", Shape: tensor.Shape{2}, Data: tensor.BlobOf(make([]byte, 8))}
	if c, err := Compare(t.Context(), x, x, nil); !errors.Is(err, tensor.ErrDType) {
		t.Errorf("%v, %v", c, err)
	}
}

func TestCompareAgreesWithTheDefinition(t *testing.T) {
	var dtypes []tensor.DType
	for d := tensor.Unknown + 1; d.Known(); d++ {
		dtypes = append(dtypes, d)
	}
	check := func(a, b *tensor.Tensor, o CompareOptions) {
		t.Helper()
		different, first, largest := compareByDefinition(t, a, b, o)
		got, err := Compare(t.Context(), a, b, &o)
		if err != nil {
			t.Fatalf("%v, %v, %+v: %v", a.DType, b.DType, o, err)
		}
		at := int64(-1)
		if len(got.First) == 1 {
			at = got.First[0]
		}
		if got.Different != different || at != first ||
			math.Float64bits(float64(got.Largest)) != math.Float64bits(largest) {
			t.Errorf("%v, %v, %+v: %d differ from %d on by up to %v; want %d, %d, %v",
				a.DType, b.DType, o, got.Different, at, got.Largest, different, first, largest)
		}
	}
	for _, d := range dtypes {
		// One block, several, and as many as a table of 16-bit codes takes.
		sizes := []int{1, 7, compareBlock + 3}
		if d.Bits() == 16 {
			sizes = append(sizes, 1<<16+1)
		}
		for seed, n := range sizes {
			a, b := comparePair(d, n, uint64(seed))
			for i, o := range []CompareOptions{{}, {Numeric: true}, {Tolerance: 0.5},
				{Tolerance: math.Inf(1)},
				{Relative: 0.01}, {Tolerance: 2, Relative: 0.5}, {Tolerance: 0.5, Figures: true},
				{Figures: true}} {
				if testing.Short() && (i+int(d)+seed)%3 != 0 {
					continue
				}
				check(a, b, o)
				check(a, a, o)
			}
		}
	}
	for _, pair := range [][2]tensor.DType{{tensor.F16, tensor.BF16}, {tensor.BF16, tensor.F32},
		{tensor.F32, tensor.I32},
		{tensor.I8, tensor.U8}, {tensor.F64, tensor.F32}, {tensor.F8E4M3FN, tensor.F8E5M2}} {
		a, _ := comparePair(pair[0], 1<<16+1, 1)
		b, _ := comparePair(pair[1], 1<<16+1, 1)
		for _, o := range []CompareOptions{{}, {Tolerance: 0.5}, {Relative: 0.5},
			{Figures: true}} {
			check(a, b, o)
		}
	}
}
