package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// HistogramOptions are options of [Histogram]; nil is the zero value.
type HistogramOptions struct {
	// Bins is the number of bins, at most 10,000; 0 means 10.
	Bins int
	// Min and Max are the range of the bins. If both are 0, it is the range of the finite
	// elements.
	Min, Max float64
	// Progress, if not nil, is called with the bytes read so far and in all, from one
	// goroutine at a time; the last call has done = total.
	// Without a range, dtypes of more than 16 bits are read twice.
	Progress func(done, total int64)
}

// Bins count finite elements from Min to Max, in bins of equal width. As in NumPy, each
// bin includes its lower edge, and the last also its upper edge.
type Bins struct {
	Min    Float   `json:"min"`
	Max    Float   `json:"max"`
	Counts []int64 `json:"counts"`
}

// A Distribution is the result of [Histogram].
type Distribution struct {
	Bins
	// Below and Above count the finite elements outside of HistogramOptions.Min and Max.
	Below int64 `json:"below"`
	Above int64 `json:"above"`
}

// Histogram counts the finite elements of a dense tensor, or of quantised blocks, in bins
// of equal width. It fails with tensor.ErrDType if the elements are not real numbers,
// with errors.ErrUnsupported if t is not dense or its data is in another file.
func Histogram(ctx context.Context, t *tensor.Tensor,
	opts *HistogramOptions) (*Distribution, error) {
	var o HistogramOptions
	if opts != nil {
		o = *opts
	}
	total := int64(0)
	if t != nil {
		total = sizeRead(t)
	}
	meter := format.NewMeter(o.Progress, total)
	d, err := histogram(ctx, t, &o, meter.Add)
	if err == nil {
		meter.End()
	}
	return d, err
}

func histogram(ctx context.Context, t *tensor.Tensor, o *HistogramOptions,
	read counter) (*Distribution, error) {
	m, err := newMeasurement(ctx, t, &StatsOptions{Bins: o.Bins}, read)
	switch {
	case err != nil:
		return nil, err
	case !(o.Min <= o.Max) || math.IsInf(o.Min, 0) || math.IsInf(o.Max, 0):
		return nil, errors.New("inspect: HistogramOptions.Min and Max are not a finite range")
	case m.d.IsComplex():
		return nil, fmt.Errorf("%w: a histogram of tensor %s, which is %v", tensor.ErrDType,
			naming.Quote(t.Name), m.d)
	case o.Min != 0 || o.Max != 0:
		return m.histogramOf(o.Min, o.Max)
	}
	s, err := m.summary()
	if err != nil {
		return nil, err
	}
	if s.Histogram == nil {
		return &Distribution{Bins: Bins{Counts: make([]int64, m.o.Bins)}}, nil
	}
	return &Distribution{Bins: *s.Histogram}, nil
}

// histogramOf returns the histogram of a given range.
func (m *measurement) histogramOf(lo, hi float64) (*Distribution, error) {
	h := newBinning(lo, hi, m.o.Bins)
	out := &Distribution{Bins: Bins{Min: Float(lo), Max: Float(hi), Counts: h.counts}}
	if m.countsCodes() {
		all, _, err := m.countCodes()
		if err != nil {
			return nil, err
		}
		values, err := valuesOf(m.d, len(all))
		for c, v := range values {
			switch {
			case v-v != 0:
			case v < lo:
				out.Below += all[c]
			case v > hi:
				out.Above += all[c]
			default:
				h.counts[h.index(v/h.scale)] += all[c]
			}
		}
		return out, err
	}
	err := m.eachBlock(func(_ int64, _ []byte, r *pieceResult) error {
		inside := r.block[:0]
		for _, v := range r.block {
			switch {
			case v < lo:
				r.below++
			case v > hi:
				r.above++
			default:
				inside = append(inside, v)
			}
		}
		h.add(r.bars, inside)
		return nil
	}, func(r *pieceResult) error {
		out.Below += r.below
		out.Above += r.above
		for i, n := range r.bars {
			h.counts[i] += n
		}
		return nil
	})
	return out, err
}

// A binning counts values in the bins of a histogram.
type binning struct {
	scale       float64 // values are divided by it, so that no result overflows; mostly 1
	lo, perUnit float64
	edges       []float64
	counts      []int64
}

func newBinning(lo, hi float64, bins int) *binning {
	b := &binning{scale: 1, counts: make([]int64, bins), edges: make([]float64, bins+1)}
	if a := max(math.Abs(lo), math.Abs(hi)); a > 1e150 || a > 0 && a < 1e-140 {
		b.scale = a
	}
	lo, hi = lo/b.scale, hi/b.scale
	step := (hi - lo) / float64(bins)
	b.lo = lo
	if hi > lo {
		b.perUnit = float64(bins) / (hi - lo)
	}
	for i := range b.edges {
		b.edges[i] = lo + float64(float64(i)*step)
	}
	b.edges[bins] = math.Inf(1)
	if !(hi > lo) {
		b.edges[1] = math.Inf(1)
	}
	return b
}

// add counts the values of a block.
func (b *binning) add(counts []int64, x []float64) {
	if b.scale != 1 {
		for i := range x {
			x[i] /= b.scale
		}
	}
	for _, v := range x {
		counts[b.index(v)]++
	}
}

// index returns the bin of a scaled value. The product is rounded, so that it compares
// the edges.
func (b *binning) index(v float64) int {
	at := min(int((v-b.lo)*b.perUnit), len(b.counts)-1)
	if v < b.edges[at] {
		at--
	} else if v >= b.edges[at+1] {
		at++
	}
	return at
}

// squares returns the sum of the squared distances from the mean, divided by scale².
func (b *binning) squares(x []float64, mean float64) (sum float64) {
	for _, v := range x {
		d := v/b.scale - mean/b.scale
		sum += float64(d * d)
	}
	return sum
}
