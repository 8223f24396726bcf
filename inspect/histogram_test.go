package inspect

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// histogramByDefinition counts values between edges that are computed one by one.
func histogramByDefinition(values []float64, lo, hi float64, bins int) *Distribution {
	b := &Distribution{Bins: Bins{Min: Float(lo), Max: Float(hi), Counts: make([]int64, bins)}}
	for _, v := range values {
		switch {
		case v-v != 0:
			continue
		case v < lo:
			b.Below++
			continue
		case v > hi:
			b.Above++
			continue
		}
		at := bins - 1
		for at > 0 && v < lo+float64(float64(at)*((hi-lo)/float64(bins))) {
			at--
		}
		b.Counts[at]++
	}
	return b
}

func TestHistogramAgreesWithTheDefinition(t *testing.T) {
	for d := tensor.Unknown + 1; d.Known(); d++ {
		if d.IsComplex() {
			continue
		}
		for _, n := range []int{50, 40_000} {
			x := random(d, n, 3)
			values, err := tensor.Convert[float64](x)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Histogram(t.Context(), x, &HistogramOptions{Bins: 7, Min: -2, Max: 12})
			want := histogramByDefinition(values, -2, 12, 7)
			if err != nil || !slices.Equal(got.Counts, want.Counts) || got.Below != want.Below ||
				got.Above != want.Above {
				t.Errorf("%d of %v: %+v (%v), want %+v", n, d, got, err, want)
			}
			s, err := Stats(t.Context(), x, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err = Histogram(t.Context(), x, nil)
			if err != nil || !slices.Equal(got.Counts, s.Histogram.Counts) ||
				got.Min != s.Histogram.Min || got.Max != s.Histogram.Max {
				t.Errorf("%d of %v: %+v (%v), Stats has %+v", n, d, got, err, s.Histogram)
			}
		}
	}
}

// The quotient of bins and range is infinite where the range is subnormal.
func TestHistogramSeparatesSubnormalNumbers(t *testing.T) {
	tiny := math.SmallestNonzeroFloat64
	for _, values := range [][]float64{{0, tiny}, {-tiny, tiny}, {1e-300, 2e-300}, {0, 1e-310}} {
		x := tensor.New("x", tensor.Shape{2}, values)
		h, err := Histogram(t.Context(), x, nil)
		if err != nil || h.Counts[0] != 1 || h.Counts[9] != 1 {
			t.Errorf("%v: %+v, %v", values, h, err)
		}
	}
}

func TestHistogramOfNoFiniteElementsIsEmpty(t *testing.T) {
	for _, values := range [][]float32{{}, {float32(math.NaN()), float32(math.Inf(-1))}} {
		x := tensor.New("x", tensor.Shape{int64(len(values))}, values)
		h, err := Histogram(t.Context(), x, &HistogramOptions{Bins: 3})
		if err != nil || !slices.Equal(h.Counts, []int64{0, 0, 0}) || h.Min != 0 || h.Max != 0 {
			t.Errorf("%v: %+v, %v", values, h, err)
		}
	}
}

func TestHistogramRefusesBinsAndRangesThatAreNone(t *testing.T) {
	x := tensor.New("x", tensor.Shape{1}, []float32{1})
	for name, o := range map[string]HistogramOptions{
		"bins below 0":    {Bins: -1},
		"too many bins":   {Bins: 10_001},
		"a reverse range": {Min: 1, Max: -1},
		"a range of NaN":  {Min: math.NaN(), Max: 1},
		"no finite range": {Min: math.Inf(-1), Max: 1},
	} {
		if _, err := Histogram(t.Context(), x, &o); err == nil {
			t.Error(name)
		}
	}
	if _, err := Histogram(t.Context(), nil, nil); !errors.Is(err, tensor.ErrNoTensor) {
		t.Error(err)
	}
	if _, err := Histogram(t.Context(), tensor.New("x", tensor.Shape{1}, []complex64{1}),
		nil); !errors.Is(err, tensor.ErrDType) {
		t.Error(err)
	}
}
