package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestStatistics(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		x    *tensor.Tensor
		want string
	}{
		{tensor.New("", tensor.Shape{6}, []float64{1, 2, nan, inf, -inf, 0}), "6 0 2 1 0.816496580927726 1 1 2 [1 1 1]"},
		{tensor.New("", tensor.Shape{3}, []int64{math.MinInt64, 0, math.MaxInt64}), "3 -9223372036854775808 9223372036854775807 0 7.530851732716321e+18 1 0 0 [1 1 1]"},
		{tensor.New("", tensor.Shape{2}, []uint64{math.MaxUint64, 1}), "2 1 18446744073709551615 9.223372036854776e+18 9.223372036854776e+18 0 0 0 [1 0 1]"},
		{tensor.New("", tensor.Shape{3}, []bool{true, false, true}), "3 false true 0.6666666666666666 0.4714045207910317 1 0 0 [1 0 2]"},
		{tensor.New("", tensor.Shape{2}, []float64{math.MaxFloat64, -math.MaxFloat64}), "2 -1.7976931348623157e+308 1.7976931348623157e+308 0 1.7976931348623157e+308 0 0 0 [1 0 1]"},
		{tensor.New("", tensor.Shape{2}, []float32{7, 7}), "2 7 7 7 0 0 0 0 [2 0 0]"},
		{tensor.New("", tensor.Shape{1}, []float32{float32(nan)}), "1 <nil> <nil> 0 NaN 0 1 0 []"},
		{tensor.New("", tensor.Shape{0}, []float32{}), "0 <nil> <nil> 0 NaN 0 0 0 []"},
		{tensor.New("", tensor.Shape{2}, []complex64{0, complex(float32(nan), 1)}), "2 <nil> <nil> 0 NaN 1 1 0 []"},
	} {
		n, _ := c.x.Shape.Elements()
		s, err := measure(t.Context(), c.x.DType, c.x.Data, n, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := s.limits(c.x.DType)
		got := fmt.Sprint(s.count, " ", lo, " ", hi, " ", s.mean, " ", s.std(), " ", s.zeros, " ", s.nan, " ", s.inf, " ", s.histogram)
		if got != c.want {
			t.Errorf("%v: %s\nwant %s", c.x.DType, got, c.want)
		}
	}
}

// More elements than one piece: sums by pieces are those of the whole.
func TestStatisticsOfManyPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	v := make([]float32, 700_001)
	sum := 0.0
	for i := range v {
		v[i] = float32(r.NormFloat64()*3 + 1000)
		sum += float64(v[i])
	}
	x := tensor.New("", tensor.Shape{int64(len(v))}, v)
	s, err := measure(t.Context(), tensor.F32, x.Data, int64(len(v)), 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	mean, m2, total := sum/float64(len(v)), 0.0, int64(0)
	for _, e := range v {
		m2 += (float64(e) - mean) * (float64(e) - mean)
	}
	for _, n := range s.histogram {
		total += n
	}
	if std := math.Sqrt(m2 / float64(len(v))); math.Abs(s.mean-mean) > 1e-9*mean || math.Abs(s.std()-std) > 1e-9*std || total != int64(len(v)) {
		t.Errorf("mean %v, want %v; std %v, want %v; %d in the histogram", s.mean, mean, s.std(), std, total)
	}
}

// Every dtype has values, or says that it has none; sub-byte ones by hand.
func TestElements(t *testing.T) {
	for _, d := range tensor.DTypes() {
		e, err := elementOf(d)
		if err != nil {
			t.Errorf("%v: %v", d, err)
			continue
		}
		p := make([]byte, 32)
		if got := e.append(nil, p, 1, true); len(got) == 0 || e.bits != d.Bits() {
			t.Errorf("%v: %q", d, got)
		}
	}
	f4, _ := elementOf(tensor.F4E2M1FN)
	f6a, _ := elementOf(tensor.F6E2M3FN)
	f6b, _ := elementOf(tensor.F6E3M2FN)
	// Three 6-bit elements: 0b011111, 0b100001, 0b000010, from the low bits up.
	six := []byte{0b01_011111, 0b0010_1000, 0b000000_00}
	for _, c := range []struct {
		e    element
		p    []byte
		want []float64
	}{
		{f4, []byte{0x10, 0xf7}, []float64{0, 0.5, 6, -6}},
		{f6a, six, []float64{7.5, -0.125, 0.25}},
		{f6b, six, []float64{28, -0.0625, 0.125}},
	} {
		for i, want := range c.want {
			if got := c.e.real(c.p, i); got != want {
				t.Errorf("element %d of % x: %v, want %v", i, c.p, got, want)
			}
		}
	}
	bad, _ := elementOf(tensor.Bool)
	if err := bad.check([]byte{2}, 0); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("a bool of 2: %v", err)
	}
}

// Integers that a float64 does not tell apart are apart all the same.
func TestDistanceOfIntegers(t *testing.T) {
	x := tensor.New("", tensor.Shape{4}, []int64{1<<53 + 1, math.MinInt64, -1, 5})
	y := tensor.New("", tensor.Shape{4}, []int64{1 << 53, math.MinInt64, -1, 5})
	z := tensor.New("", tensor.Shape{4}, []uint64{1<<53 + 1, 1 << 63, math.MaxUint64, 5})
	for _, c := range []struct {
		a, b      *tensor.Tensor
		tolerance float64
		numeric   bool
		different int64
		largest   float64
	}{
		{x, y, 0, false, 1, 1},
		{x, y, 0.5, true, 1, 1},
		{x, y, 1, true, 0, 1},
		{x, z, 1, true, 2, 1 << 64},
		{z, x, 1 << 64, true, 0, 1 << 64},
	} {
		d := &differ{tolerance: c.tolerance, numeric: c.numeric}
		n, err := d.values(t.Context(), c.a, c.b)
		if err != nil {
			t.Fatal(err)
		}
		if n.different != c.different || n.largest != c.largest {
			t.Errorf("%v, %v within %v: %d differ, by %v at most; want %d, %v", c.a.DType, c.b.DType, c.tolerance, n.different, n.largest, c.different, c.largest)
		}
	}
}
