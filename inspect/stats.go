package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
)

// StatsOptions are options of [Stats] and [StatsOf]; nil is the zero value.
type StatsOptions struct {
	// Bins is the number of bars of the histogram; 0 means 10, at most 10,000.
	Bins int
	// Quantiles are numbers from 0 to 1.
	Quantiles []float64
	// Progress is told of bytes that were read. Dtypes of more than 16 bits are read twice.
	Progress Progress
}

// A Summary is the statistics of elements. All but the counts are over the finite ones; complex
// numbers have counts only.
type Summary struct {
	Count int64 `json:"count"`
	// Min and Max are a bool, int64, uint64, float32 or float64, whichever has all digits; nil
	// where there are no finite elements.
	Min any `json:"min"`
	Max any `json:"max"`
	// Mean and Std, the standard deviation of the population, are nil where there are no finite
	// elements.
	Mean  *Float `json:"mean"`
	Std   *Float `json:"std"`
	Zeros int64  `json:"zeros"`
	NaN   int64  `json:"nan"`
	Inf   int64  `json:"inf"`
	// Quantiles are those asked for, without interpolation: the smallest element that is not less
	// than the given share of all. They are exact for dtypes of up to 16 bits; for others they are
	// off by up to 1/128 of their value, or by 1e-38.
	Quantiles []Quantile `json:"quantiles,omitempty"`
	Histogram *Histogram `json:"histogram,omitempty"`
}

// A Quantile is the value below or at which a share of the elements is.
type Quantile struct {
	Share float64 `json:"share"`
	Value Float   `json:"value"`
}

// A Histogram counts finite elements between Min and Max in bars of equal width, which are
// half open but for the last, as NumPy's are.
type Histogram struct {
	Min    Float   `json:"min"`
	Max    Float   `json:"max"`
	Counts []int64 `json:"counts"`
}

// Stats returns the statistics of the elements of a dense tensor. It is an ErrDType where the dtype
// has no numbers.
func Stats(ctx context.Context, t *tensor.Tensor, opts *StatsOptions) (*Summary, error) {
	switch {
	case t == nil:
		return nil, tensor.ErrNoTensor
	case !t.Dense() || t.External:
		return nil, fmt.Errorf("%w: statistics of tensor %s, which is not dense or not in the file", errors.ErrUnsupported, quote.Name(t.Name))
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	n, _ := t.Shape.Elements()
	return StatsOf(ctx, t.DType, t.Data, n, opts)
}

// StatsOf returns the statistics of the first n elements of data, or of all where n is negative,
// such as those of a part of a sparse tensor.
func StatsOf(ctx context.Context, d tensor.DType, data tensor.Blob, n int64, opts *StatsOptions) (*Summary, error) {
	var o StatsOptions
	if opts != nil {
		o = *opts
	}
	if o.Bins == 0 {
		o.Bins = 10
	}
	switch {
	case o.Bins < 1 || o.Bins > 10_000:
		return nil, fmt.Errorf("inspect: StatsOptions.Bins is %d, not from 1 to 10000", o.Bins)
	case slices.ContainsFunc(o.Quantiles, func(q float64) bool { return !(q >= 0 && q <= 1) }):
		return nil, errors.New("inspect: a quantile is not from 0 to 1")
	case !d.Known():
		return nil, fmt.Errorf("%w: no values are known for dtype %v", tensor.ErrDType, d)
	}
	m := &measuring{ctx: ctx, d: d, data: data, n: n, o: &o}
	if n < 0 {
		m.n = math.MaxInt64
	}
	switch {
	case d.IsComplex():
		return m.complexNumbers()
	case d.Bits() == 8 || d.Bits() == 16:
		return m.byCodes()
	}
	return m.inTwoPasses()
}

type measuring struct {
	ctx  context.Context
	d    tensor.DType
	data tensor.Blob
	n    int64
	o    *StatsOptions
}

// elements is how many whole elements of the first n a piece of that size at off has.
func (m *measuring) elements(off int64, size int) int {
	bits := int64(m.d.Bits())
	return int(max(0, min(int64(size)*8/bits, m.n-off*8/bits)))
}

func (m *measuring) eachPiece(work func(off int64, p []byte, r *partial) error, use func(r *partial) error) error {
	return eachPiece(m.ctx, []tensor.Blob{m.data}, m.o.Progress,
		func(off int64, ps [][]byte, r *partial) error { return work(off, ps[0], r) }, use)
}

// A partial is the result for a piece, and of all of them together.
type partial struct {
	count, zeros, nan, inf, finite int64
	min, max, mean                 float64
	minInt, maxInt                 int64
	minUint, maxUint               uint64
	m2                             float64
	bars                           []int64
	codes                          []uint32
	floats                         []float64
}

// codesOf is how many different codes an element of d has, where they can be counted.
func codesOf(d tensor.DType) int { return 1 << d.Bits() }

// byCodes counts how often each code occurs, from which all else follows exactly.
func (m *measuring) byCodes() (*Summary, error) {
	all := make([]int64, codesOf(m.d))
	var count int64
	wide := m.d.Bits() == 16
	err := m.eachPiece(func(off int64, p []byte, r *partial) error {
		if r.codes == nil {
			r.codes = make([]uint32, len(all))
		} else {
			clear(r.codes)
		}
		n := m.elements(off, len(p))
		r.count = int64(n)
		if wide {
			codes := r.codes[:1<<16]
			for p := p[:2*n]; len(p) >= 2; p = p[2:] {
				codes[uint16(p[0])|uint16(p[1])<<8]++
			}
			return nil
		}
		codes := r.codes[:1<<8]
		for _, c := range p[:n] {
			codes[c]++
		}
		return nil
	}, func(r *partial) error {
		count += r.count
		for i, c := range r.codes {
			all[i] += int64(c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.d == tensor.Bool {
		for c, n := range all[2:] {
			if n > 0 {
				return nil, fmt.Errorf("%w: %d is not a value of bool", tensor.ErrMalformed, c+2)
			}
		}
	}
	return m.fromCodes(all, count)
}

// A counted is a value and how many elements have it.
type counted struct {
	value float64
	n     int64
}

func (m *measuring) fromCodes(all []int64, count int64) (*Summary, error) {
	values, err := valuesOf(m.d, len(all))
	if err != nil {
		return nil, err
	}
	s := &Summary{Count: count}
	var sorted []counted
	finite := int64(0)
	for c, n := range all {
		v := values[c]
		switch {
		case n == 0:
			continue
		case math.IsNaN(v):
			s.NaN += n
			continue
		case math.IsInf(v, 0):
			s.Inf += n
			continue
		case v == 0:
			s.Zeros += n
		}
		finite += n
		sorted = append(sorted, counted{v, n})
	}
	if finite == 0 {
		return s, nil
	}
	slices.SortFunc(sorted, func(a, b counted) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, c := range sorted {
		sum += c.value * float64(c.n)
	}
	mean, m2 := sum/float64(finite), 0.0
	lo, hi := sorted[0].value, sorted[len(sorted)-1].value
	h := &Histogram{Min: Float(lo), Max: Float(hi), Counts: make([]int64, m.o.Bins)}
	for _, c := range sorted {
		m2 += float64((c.value - mean) * (c.value - mean) * float64(c.n))
		h.Counts[bar(c.value, lo, hi, m.o.Bins)] += c.n
	}
	s.setMoments(mean, math.Sqrt(m2/float64(finite)))
	s.Histogram, s.Quantiles = h, quantiles(sorted, finite, m.o.Quantiles)
	s.Min, s.Max = m.number(lo), m.number(hi)
	return s, nil
}

// number is a value of a dtype of up to 32 bits with all its digits.
func (m *measuring) number(v float64) any {
	switch {
	case m.d == tensor.Bool:
		return v == 1
	case m.d == tensor.F64:
		return v
	case m.d.IsFloat():
		return float32(v)
	case isUnsigned(m.d):
		return uint64(v)
	}
	return int64(v)
}

func isUnsigned(d tensor.DType) bool {
	switch d {
	case tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.QI8, tensor.QI32:
		return false
	}
	return !d.IsFloat()
}

func (s *Summary) setMoments(mean, std float64) {
	a, b := Float(mean), Float(std)
	s.Mean, s.Std = &a, &b
}

// valuesOf returns the value of each code of d.
func valuesOf(d tensor.DType, codes int) ([]float64, error) {
	if d == tensor.Bool {
		d = tensor.U8 // bytes that are no bool are counted, then refused
	}
	b := make([]byte, 0, codes*d.Size())
	for c := range codes {
		b = append(b, byte(c), byte(c>>8))[:len(b)+d.Size()]
	}
	return tensor.Convert[float64](&tensor.Tensor{DType: d, Shape: tensor.Shape{int64(codes)}, Data: tensor.BlobOf(b)})
}

func quantiles(sorted []counted, finite int64, shares []float64) []Quantile {
	var out []Quantile
	for _, share := range shares {
		rank := max(1, int64(math.Ceil(share*float64(finite))))
		q := Quantile{Share: share}
		for _, c := range sorted {
			if rank -= c.n; rank <= 0 {
				q.Value = Float(c.value)
				break
			}
		}
		out = append(out, q)
	}
	return out
}

// bar returns the bar that v belongs to.
func bar(v, lo, hi float64, bins int) int {
	if !(hi > lo) {
		return 0
	}
	step := (hi - lo) / float64(bins)
	at := min(int((v-lo)/(hi-lo)*float64(bins)), bins-1)
	// The product is rounded; what counts are the edges.
	if v < lo+float64(float64(at)*step) {
		at--
	} else if at < bins-1 && v >= lo+float64(float64(at+1)*step) {
		at++
	}
	return max(at, 0)
}

// coarse is the code of v among 65,536 that are in the order of the values: the upper half of its
// float32.
func coarse(v float64) uint16 {
	b := math.Float32bits(float32(v)) >> 16
	if b&0x8000 != 0 {
		return ^uint16(b)
	}
	return uint16(b) | 0x8000
}

// middle is the value in the middle of those with that code.
func middle(code uint16) float64 {
	b := uint32(code &^ 0x8000)
	if code&0x8000 == 0 {
		b = uint32(^code)
	}
	return float64(math.Float32frombits(b<<16 | 0x8000))
}

// inTwoPasses measures what needs no knowledge of other elements, then the distances from the mean
// and the histogram.
func (m *measuring) inTwoPasses() (*Summary, error) {
	all := partial{min: math.Inf(1), max: math.Inf(-1), minInt: math.MaxInt64, maxInt: math.MinInt64, minUint: math.MaxUint64}
	codes := make([]int64, 1<<16)
	if err := m.eachPiece(m.firstPass, func(r *partial) error {
		all.join(r)
		for i, c := range r.codes {
			codes[i] += int64(c)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	s := &Summary{Count: all.count, Zeros: all.zeros, NaN: all.nan, Inf: all.inf}
	if all.finite == 0 {
		return s, nil
	}
	// Squares and differences of values near the end of the range leave it.
	scale := 1.0
	if a := max(math.Abs(all.min), math.Abs(all.max)); a > 1e150 {
		scale = a
	}
	lo, hi, mean := all.min/scale, all.max/scale, all.mean/scale
	counts, m2 := make([]int64, m.o.Bins), 0.0
	err := m.eachPiece(func(off int64, p []byte, r *partial) error {
		if err := m.decode(off, p, r); err != nil {
			return err
		}
		if r.m2 = 0; r.bars == nil {
			r.bars = make([]int64, m.o.Bins)
		} else {
			clear(r.bars)
		}
		for _, v := range r.floats {
			if v-v != 0 {
				continue // NaN or infinite
			}
			v /= scale
			r.m2 += float64((v - mean) * (v - mean))
			r.bars[bar(v, lo, hi, m.o.Bins)]++
		}
		return nil
	}, func(r *partial) error {
		m2 += r.m2
		for i, n := range r.bars {
			counts[i] += n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.setMoments(all.mean, scale*math.Sqrt(m2/float64(all.finite)))
	s.Histogram = &Histogram{Float(all.min), Float(all.max), counts}
	switch {
	case all.minInt <= all.maxInt:
		s.Min, s.Max = all.minInt, all.maxInt
	case all.minUint <= all.maxUint:
		s.Min, s.Max = all.minUint, all.maxUint
	default:
		s.Min, s.Max = m.number(all.min), m.number(all.max)
	}
	if len(m.o.Quantiles) > 0 {
		var sorted []counted
		for code, n := range codes {
			if n > 0 {
				sorted = append(sorted, counted{min(max(middle(uint16(code)), all.min), all.max), n})
			}
		}
		s.Quantiles = quantiles(sorted, all.finite, m.o.Quantiles)
	}
	return s, nil
}

// decode fills r.floats.
func (m *measuring) decode(off int64, p []byte, r *partial) error {
	n := m.elements(off, len(p))
	if cap(r.floats) < n {
		r.floats = make([]float64, n)
	}
	r.floats = r.floats[:n]
	return tensor.ConvertInto(r.floats, m.tensor(p, n))
}

// tensor is n elements of p.
func (m *measuring) tensor(p []byte, n int) *tensor.Tensor {
	size, _ := m.d.Bytes(int64(n))
	return &tensor.Tensor{DType: m.d, Shape: tensor.Shape{int64(n)}, Data: tensor.BlobOf(p[:size])}
}

func (m *measuring) firstPass(off int64, p []byte, r *partial) error {
	if err := m.decode(off, p, r); err != nil {
		return err
	}
	codes := r.codes
	floats := r.floats
	*r = partial{count: int64(len(floats)), min: math.Inf(1), max: math.Inf(-1), minInt: math.MaxInt64, maxInt: math.MinInt64,
		minUint: math.MaxUint64, codes: codes, floats: floats}
	if len(m.o.Quantiles) > 0 {
		if r.codes == nil {
			r.codes = make([]uint32, 1<<16)
		} else {
			clear(r.codes)
		}
	}
	sum := 0.0
	for _, v := range floats {
		if v == 0 {
			r.zeros++
		} else if v-v != 0 {
			if v != v {
				r.nan++
			} else {
				r.inf++
			}
			continue
		}
		sum += v
		r.min, r.max = min(r.min, v), max(r.max, v)
	}
	if len(m.o.Quantiles) > 0 {
		for _, v := range floats {
			if v-v == 0 {
				r.codes[coarse(v)]++
			}
		}
	}
	r.finite = r.count - r.nan - r.inf
	switch m.d {
	case tensor.I64, tensor.I32, tensor.QI32:
		values, err := tensor.Convert[int64](m.tensor(p, len(floats)))
		if err != nil {
			return err
		}
		for _, v := range values {
			r.minInt, r.maxInt = min(r.minInt, v), max(r.maxInt, v)
		}
	case tensor.U64, tensor.U32:
		values, err := tensor.Convert[uint64](m.tensor(p, len(floats)))
		if err != nil {
			return err
		}
		for _, v := range values {
			r.minUint, r.maxUint = min(r.minUint, v), max(r.maxUint, v)
		}
	}
	if r.finite == 0 {
		return nil
	}
	if r.mean = sum / float64(r.finite); math.IsInf(r.mean, 0) { // the sum left the range
		r.mean = 0
		for _, v := range floats {
			if v-v == 0 {
				r.mean += v / float64(r.finite)
			}
		}
	}
	return nil
}

// join adds what was measured of a later piece.
func (a *partial) join(r *partial) {
	a.count += r.count
	a.zeros += r.zeros
	a.nan += r.nan
	a.inf += r.inf
	a.min, a.max = min(a.min, r.min), max(a.max, r.max)
	a.minInt, a.maxInt = min(a.minInt, r.minInt), max(a.maxInt, r.maxInt)
	a.minUint, a.maxUint = min(a.minUint, r.minUint), max(a.maxUint, r.maxUint)
	if r.finite == 0 {
		return
	}
	// The mean of both sets, by weight, keeps more digits than one long sum.
	a.finite += r.finite
	w := float64(r.finite) / float64(a.finite)
	a.mean = float64(a.mean*(1-w)) + float64(r.mean*w)
}

func (m *measuring) complexNumbers() (*Summary, error) {
	s := new(Summary)
	err := m.eachPiece(func(off int64, p []byte, r *partial) error {
		n := m.elements(off, len(p))
		values, err := tensor.Convert[complex128](m.tensor(p, n))
		*r = partial{count: int64(n)}
		for _, c := range values {
			switch {
			case c == 0:
				r.zeros++
			case cmplx.IsNaN(c):
				r.nan++
			case cmplx.IsInf(c):
				r.inf++
			}
		}
		return err
	}, func(r *partial) error {
		s.Count += r.count
		s.Zeros += r.zeros
		s.NaN += r.nan
		s.Inf += r.inf
		return nil
	})
	return s, err
}
