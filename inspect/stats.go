package inspect

import (
	"context"
	"errors"
	"fmt"
	"math/cmplx"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// StatsOptions are options of [Stats]; nil is the zero value.
type StatsOptions struct {
	// Bins is the number of bins of the histogram; 0 means 10, at most 10,000.
	Bins int
	// Quantiles are numbers from 0 to 1.
	Quantiles []float64
	// Progress, if not nil, is called with the bytes read so far and in all, from one
	// goroutine at a time; the last call has done = total.
	// Dtypes of more than 16 bits are read twice.
	Progress func(done, total int64)
}

// A Summary is the statistics of elements. All fields but the counts are of the finite
// elements; for complex numbers there are only counts.
type Summary struct {
	Count int64 `json:"count"`
	// Min and Max are a bool, int64, uint64, float32 or float64, as the dtype requires;
	// nil if there are no finite elements.
	Min any `json:"min"`
	Max any `json:"max"`
	// Mean and Std, the standard deviation of the population, are nil if there are no
	// finite elements.
	Mean  *Float `json:"mean"`
	Std   *Float `json:"std"`
	Zeros int64  `json:"zeros"`
	NaN   int64  `json:"nan"`
	Inf   int64  `json:"inf"`
	// Quantiles are the quantiles of StatsOptions, without interpolation: each is the
	// smallest element that is not less than the given share of all. Quantiles of 0 and
	// 1, and of dtypes of up to 16 bits and of integers below 256 are exact; others are
	// off by up to 1/128 of their value, or by 1e-38.
	Quantiles []Quantile `json:"quantiles,omitempty"`
	Histogram *Bins      `json:"histogram,omitempty"`
}

// A Quantile is the smallest value that a share of the elements does not exceed.
type Quantile struct {
	Share float64 `json:"share"`
	Value Float   `json:"value"`
}

// Stats returns the statistics of the elements of a dense tensor, or of quantised blocks.
// It fails with tensor.ErrDType if the elements are not numbers, with
// errors.ErrUnsupported if t is not dense or its data is in another file.
func Stats(ctx context.Context, t *tensor.Tensor, opts *StatsOptions) (*Summary, error) {
	if opts == nil || t == nil {
		return stats(ctx, t, opts, nil)
	}
	m := format.NewMeter(opts.Progress, sizeRead(t))
	s, err := stats(ctx, t, opts, m.Add)
	if err == nil {
		m.End()
	}
	return s, err
}

// stats is Stats with a counter in place of Progress.
func stats(ctx context.Context, t *tensor.Tensor, opts *StatsOptions,
	read counter) (*Summary, error) {
	m, err := newMeasurement(ctx, t, opts, read)
	if err != nil {
		return nil, err
	}
	return m.summary()
}

func newMeasurement(ctx context.Context, t *tensor.Tensor, opts *StatsOptions,
	read counter) (*measurement, error) {
	var o StatsOptions
	if opts != nil {
		o = *opts
	}
	if o.Bins == 0 {
		o.Bins = 10
	}
	if t == nil {
		return nil, tensor.ErrNoTensor
	}
	if _, ok := format.BlocksOf(t); ok {
		var err error
		if t, err = tensor.As(t, tensor.F32); err != nil {
			return nil, err
		}
	}
	switch {
	case !t.Dense() || t.External:
		return nil, fmt.Errorf(
			"%w: statistics of tensor %s, which is not dense or not in the file",
			errors.ErrUnsupported, naming.Quote(t.Name))
	case o.Bins < 1 || o.Bins > 10_000:
		return nil, fmt.Errorf("inspect: %d bins, not 1 to 10000", o.Bins)
	case slices.ContainsFunc(o.Quantiles, func(q float64) bool { return !(q >= 0 && q <= 1) }):
		return nil, errors.New("inspect: a quantile is not from 0 to 1")
	case !t.DType.Known():
		return nil, fmt.Errorf("%w: %s has no numbers", tensor.ErrDType,
			dtypeName(t.DType, t.Data))
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	n, _ := t.Shape.Elements()
	return &measurement{ctx: ctx, d: t.DType, data: t.Data, n: n, o: &o, read: read}, nil
}

func (m *measurement) summary() (*Summary, error) {
	switch {
	case m.d.IsComplex():
		return m.complexNumbers()
	case m.countsCodes() || m.d.Bits() == 16 && len(m.o.Quantiles) > 0:
		return m.summaryByCodes()
	}
	return m.summaryInTwoPasses()
}

// countsCodes reports whether summaries are computed from counts of codes, which pays for
// many elements of 16 bits.
func (m *measurement) countsCodes() bool {
	return m.d.Bits() == 8 || m.d.Bits() == 16 && m.n >= 1<<14
}

type measurement struct {
	ctx  context.Context
	d    tensor.DType
	data tensor.Blob
	n    int64
	o    *StatsOptions
	read counter
}

// elements returns how many of the first m.n elements a piece of that size at off has.
func (m *measurement) elements(off int64, size int) int {
	bits := int64(m.d.Bits())
	return int(max(0, min(int64(size)*8/bits, m.n-off*8/bits)))
}

// number returns a value in the Go type that Summary.Min has for the dtype. It is not for
// int64 and uint64, which float64 cannot represent.
func (m *measurement) number(v float64) any {
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
	case tensor.I2, tensor.I4, tensor.I8, tensor.I16, tensor.I32, tensor.I64, tensor.QI8,
		tensor.QI32:
		return false
	}
	return !d.IsFloat()
}

func (s *Summary) setMoments(mean, std float64) {
	a, b := Float(mean), Float(std)
	s.Mean, s.Std = &a, &b
}

func (m *measurement) complexNumbers() (*Summary, error) {
	s := new(Summary)
	err := eachPiece(m.ctx, []tensor.Blob{m.data}, m.read,
		func(off int64, ps [][]byte, r *Summary) error {
			n := m.elements(off, len(ps[0]))
			values, err := tensor.Convert[complex128](m.tensor(ps[0], n))
			*r = Summary{Count: int64(n)}
			for _, c := range values {
				switch {
				case c == 0:
					r.Zeros++
				case cmplx.IsNaN(c):
					r.NaN++
				case cmplx.IsInf(c):
					r.Inf++
				}
			}
			return err
		}, func(r *Summary) error {
			s.Count += r.Count
			s.Zeros += r.Zeros
			s.NaN += r.NaN
			s.Inf += r.Inf
			return nil
		})
	return s, err
}

// tensor returns the first n elements of p as a tensor.
func (m *measurement) tensor(p []byte, n int) *tensor.Tensor {
	size, _ := m.d.Bytes(int64(n))
	return &tensor.Tensor{DType: m.d, Shape: tensor.Shape{int64(n)}, Data: tensor.BlobOf(p[:size])}
}
