package inspect

import (
	"fmt"
	"math"
	"sort"

	"github.com/tensorfile/tensorfile/tensor"
)

// codesOf returns how many codes an element of d, of 8 or 16 bits, may have.
func codesOf(d tensor.DType) int { return 1 << d.Bits() }

// countCodes counts how often each code occurs, and all elements.
func (m *measurement) countCodes() (all []int64, count int64, err error) {
	all = make([]int64, codesOf(m.d))
	wide := m.d.Bits() == 16
	type tally struct {
		count int64
		codes []uint32
	}
	err = eachPiece(m.ctx, []tensor.Blob{m.data}, m.read,
		func(off int64, ps [][]byte, r *tally) error {
			if r.codes == nil {
				r.codes = make([]uint32, len(all))
			} else {
				clear(r.codes)
			}
			p := ps[0]
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
		}, func(r *tally) error {
			count += r.count
			for i, c := range r.codes {
				all[i] += int64(c)
			}
			return nil
		})
	if err == nil && m.d == tensor.Bool {
		for c, n := range all[2:] {
			if n > 0 {
				return nil, 0,
					fmt.Errorf("%w: an element is the bool 0x%02x", tensor.ErrMalformed, c+2)
			}
		}
	}
	return all, count, err
}

// A valueCount is a value and how many elements have it.
type valueCount struct {
	value float64
	n     int64
}

// summaryByCodes returns the summary of all elements from the counts of their codes.
func (m *measurement) summaryByCodes() (*Summary, error) {
	all, count, err := m.countCodes()
	if err != nil {
		return nil, err
	}
	values, err := valuesOf(m.d, len(all))
	if err != nil {
		return nil, err
	}
	s := &Summary{Count: count}
	var sorted []valueCount
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
		sorted = append(sorted, valueCount{v, n})
	}
	if finite == 0 {
		return s, nil
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].value < sorted[j].value })
	sum := 0.0
	for _, c := range sorted {
		sum += c.value * float64(c.n)
	}
	mean, m2 := sum/float64(finite), 0.0
	lo, hi := sorted[0].value, sorted[len(sorted)-1].value
	h := newBinning(lo, hi, m.o.Bins)
	for _, c := range sorted {
		m2 += float64((c.value - mean) * (c.value - mean) * float64(c.n))
		h.counts[h.index(c.value/h.scale)] += c.n
	}
	s.setMoments(mean, math.Sqrt(m2/float64(finite)))
	s.Histogram = &Bins{Min: Float(lo), Max: Float(hi), Counts: h.counts}
	s.Quantiles = quantiles(sorted, finite, m.o.Quantiles)
	s.Min, s.Max = m.number(lo), m.number(hi)
	return s, nil
}

// valuesOf returns the value of each code of d.
func valuesOf(d tensor.DType, codes int) ([]float64, error) {
	if d == tensor.Bool {
		d = tensor.U8 // countCodes refuses bytes that are not bools
	}
	b := make([]byte, 0, codes*d.Size())
	for c := range codes {
		b = append(b, byte(c), byte(c>>8))[:len(b)+d.Size()]
	}
	return tensor.Convert[float64](&tensor.Tensor{DType: d, Shape: tensor.Shape{int64(codes)},
		Data: tensor.BlobOf(b)})
}

// quantiles returns the quantiles of finite elements, whose values are sorted.
func quantiles(sorted []valueCount, finite int64, shares []float64) []Quantile {
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
