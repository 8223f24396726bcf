package inspect

import (
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// moments are the counts, extremes and sums of a piece, or of all pieces so far.
type moments struct {
	zeros, nan, inf, finite int64
	min, max                float64
	mean, m2                float64 // m2: the sum of squared distances from the mean
	minInt, maxInt          int64   // of int64 and uint64, exactly
	minUint, maxUint        uint64
}

func noMoments() moments {
	return moments{min: math.Inf(1), max: math.Inf(-1), minInt: math.MaxInt64,
		maxInt:  math.MinInt64,
		minUint: math.MaxUint64}
}

// A pieceResult is the result of a pass over a piece, and its buffers.
type pieceResult struct {
	moments
	codes    []uint32 // counts by quantileCode
	bars     []int64
	below    int64 // of the range of a histogram
	above    int64
	block    []float64
	signed   []int64
	unsigned []uint64
}

// summaryInTwoPasses computes moments in the first pass, the histogram in the second.
func (m *measurement) summaryInTwoPasses() (*Summary, error) {
	all, count := noMoments(), int64(0)
	var codes []int64
	if len(m.o.Quantiles) > 0 {
		codes = make([]int64, 1<<16)
	}
	err := m.eachBlock(func(first int64, p []byte, r *pieceResult) error {
		return m.measure(p, first, r)
	}, func(r *pieceResult) error {
		all.join(&r.moments)
		for i, c := range r.codes {
			codes[i] += int64(c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	count = all.finite + all.nan + all.inf
	s := &Summary{Count: count, Zeros: all.zeros, NaN: all.nan, Inf: all.inf}
	if all.finite == 0 {
		return s, nil
	}
	h := newBinning(all.min, all.max, m.o.Bins)
	m2 := 0.0
	err = m.eachBlock(func(_ int64, _ []byte, r *pieceResult) error {
		if h.scale != 1 {
			r.m2 += h.squares(r.block, all.mean)
		}
		h.add(r.bars, r.block)
		return nil
	}, func(r *pieceResult) error {
		m2 += r.m2
		for i, n := range r.bars {
			h.counts[i] += n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if h.scale == 1 {
		m2 = all.m2
	}
	s.setMoments(all.mean, h.scale*math.Sqrt(m2/float64(all.finite)))
	s.Histogram = &Bins{Min: Float(all.min), Max: Float(all.max), Counts: h.counts}
	switch m.d {
	case tensor.I64:
		s.Min, s.Max = all.minInt, all.maxInt
	case tensor.U64:
		s.Min, s.Max = all.minUint, all.maxUint
	default:
		s.Min, s.Max = m.number(all.min), m.number(all.max)
	}
	s.Quantiles = m.quantiles(codes, &all)
	return s, nil
}

// quantiles returns the quantiles from the counts of each quantileCode.
func (m *measurement) quantiles(codes []int64, all *moments) []Quantile {
	var sorted []valueCount
	for code, n := range codes {
		if n > 0 {
			v := quantileValue(uint16(code))
			if m.d.IsInt() {
				v = math.Trunc(v)
			}
			sorted = append(sorted, valueCount{min(max(v, all.min), all.max), n})
		}
	}
	list := quantiles(sorted, all.finite, m.o.Quantiles)
	for i, q := range list {
		switch q.Share {
		case 0:
			list[i].Value = Float(all.min)
		case 1:
			list[i].Value = Float(all.max)
		}
	}
	return list
}

// eachBlock calls work for each block of elements of a piece p: r.block has the finite
// elements, first is the index of the block in p. It calls use with the result of each
// piece, in order.
func (m *measurement) eachBlock(work func(first int64, p []byte, r *pieceResult) error,
	use func(r *pieceResult) error) error {
	return eachPiece(m.ctx, []tensor.Blob{m.data}, m.read,
		func(off int64, ps [][]byte, r *pieceResult) error {
			if r.block == nil {
				r.block, r.bars = make([]float64, compareBlock), make([]int64, m.o.Bins)
				if len(m.o.Quantiles) > 0 {
					r.codes = make([]uint32, 1<<16)
				}
			}
			clear(r.bars)
			clear(r.codes)
			r.moments, r.below, r.above = noMoments(), 0, 0
			n := int64(m.elements(off, len(ps[0])))
			x := m.tensor(ps[0], int(n))
			for first := int64(0); first < n; first += compareBlock {
				r.block = r.block[:min(compareBlock, n-first)]
				if err := convertBlock(r.block, x,
					blockOf(m.d, ps[0], first, int64(len(r.block)))); err != nil {
					return err
				}
				r.dropSpecial()
				if err := work(first, ps[0], r); err != nil {
					return err
				}
				r.block = r.block[:cap(r.block)]
			}
			return nil
		}, use)
}

// dropSpecial counts elements that are not finite, and removes them from the block.
func (r *pieceResult) dropSpecial() {
	var largest uint64
	for _, v := range r.block {
		largest = max(largest, math.Float64bits(v)&^(1<<63))
	}
	if largest < infinite {
		return
	}
	finite := r.block[:0]
	for _, v := range r.block {
		switch {
		case v-v == 0:
			finite = append(finite, v)
		case v != v:
			r.nan++
		default:
			r.inf++
		}
	}
	r.block = finite
}

// measure adds the moments and codes of a block to r.
func (m *measurement) measure(p []byte, first int64, r *pieceResult) error {
	switch n := int64(len(r.block)); m.d { // integers are all finite
	case tensor.I64:
		r.signed = resize(r.signed, n)
		if err := convertBlock(r.signed, m.tensor(p, 0), blockOf(m.d, p, first, n)); err != nil {
			return err
		}
		for _, v := range r.signed {
			r.minInt, r.maxInt = min(r.minInt, v), max(r.maxInt, v)
		}
	case tensor.U64:
		r.unsigned = resize(r.unsigned, n)
		if err := convertBlock(r.unsigned, m.tensor(p, 0), blockOf(m.d, p, first, n)); err != nil {
			return err
		}
		for _, v := range r.unsigned {
			r.minUint, r.maxUint = min(r.minUint, v), max(r.maxUint, v)
		}
	}
	for _, v := range r.block {
		if r.codes == nil {
			break
		}
		r.codes[quantileCode(v)]++
	}
	one := momentsOf(r.block)
	r.join(&one)
	return nil
}

// momentsOf returns the moments of finite values. It sums in two halves: the processor
// adds to both at once.
func momentsOf(x []float64) moments {
	r := noMoments()
	if len(x) == 0 {
		return r
	}
	lo, hi, even, odd := x[0], x[0], 0.0, 0.0
	for i, v := range x {
		r.zeros += int64((math.Float64bits(v)&^(1<<63) - 1) >> 63)
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
		if i&1 == 0 {
			even += v
		} else {
			odd += v
		}
	}
	r.finite, r.min, r.max = int64(len(x)), lo, hi
	n := float64(len(x))
	if r.mean = (even + odd) / n; r.mean-r.mean != 0 { // the sum left the range
		r.mean = 0
		for _, v := range x {
			r.mean += v / n
		}
	}
	even, odd = 0, 0
	for i, v := range x {
		d := v - r.mean
		if i&1 == 0 {
			even += float64(d * d)
		} else {
			odd += float64(d * d)
		}
	}
	r.m2 = even + odd
	return r
}

// join adds the moments of later elements.
func (a *moments) join(r *moments) {
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
	away, before := r.mean-a.mean, float64(a.finite)
	a.finite += r.finite
	w := float64(r.finite) / float64(a.finite)
	a.mean = float64(a.mean*(1-w)) + float64(r.mean*w)
	a.m2 += r.m2 + float64(float64(away*away)*float64(before*w))
}

// quantileCode returns the upper half of v as float32, changed so that codes have the
// order of the values.
func quantileCode(v float64) uint16 {
	b := math.Float32bits(float32(v)) >> 16
	if b&0x8000 != 0 {
		return ^uint16(b)
	}
	return uint16(b) | 0x8000
}

// quantileValue returns the middle of the values of a code, 0 for the smallest values.
func quantileValue(code uint16) float64 {
	b := uint32(code &^ 0x8000)
	if code&0x8000 == 0 {
		b = uint32(^code)
	}
	if b == 0 {
		return 0
	}
	return float64(math.Float32frombits(b<<16 | 0x8000))
}
