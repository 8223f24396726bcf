package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/cmplx"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/tensor"
)

func statsCommand(a *app) *cobra.Command {
	bins := 10
	cmd := &cobra.Command{
		Use:   "stats FILE [NAME...]",
		Short: "Print min, max, mean, standard deviation, zeros, NaN, Inf and a histogram of tensors",
		Long: `Print min, max, mean, standard deviation, zeros, NaN, Inf and a histogram of all tensors,
or of those named (NAME may have * ? [a-z]). All but the counts are over the finite
values. The standard deviation is that of the population. What has no values, such as the
blocks of a quantised tensor, is an error only where it is named.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if bins < 1 || bins > 10_000 {
				return fmt.Errorf("--bins: %d is not from 1 to 10000", bins)
			}
			var wrongNames error
			err := a.each(args[:1], func(in *input) (jsonValue, error) {
				rows, err := chooseRows(in, args[1:])
				if err != nil {
					wrongNames = a.refuse(in.name, err)
					return nil, nil
				}
				return a.stats(in, rows, bins, len(args) > 1)
			})
			if wrongNames != nil {
				return wrongNames
			}
			return err
		},
	}
	cmd.Flags().IntVar(&bins, "bins", bins, "`NUMBER` of bars of the histogram")
	return cmd
}

// chooseRows gives the rows that the names or globs mean, all when there are
// none.
func chooseRows(in *input, names []string) (iter.Seq[row], error) {
	if len(names) == 0 {
		return func(yield func(row) bool) {
			for r := range in.eachRow() {
				if !yield(*r) {
					return
				}
			}
		}, nil
	}
	var out []row
	used := make([]bool, len(names))
	for r := range in.eachRow() {
		for i, n := range names {
			ok := n == r.name
			if !ok {
				ok, _ = glob(n, r.name)
			}
			if ok {
				used[i] = true
				out = append(out, *r)
				break
			}
		}
	}
	for i, n := range names {
		if !used[i] {
			return nil, wrong("tensorfile ls, which lists the names", "no tensor is called %s", quote(n))
		}
	}
	return slices.Values(out), nil
}

// statistics are those of the elements of one blob. Sums are over finite values.
type statistics struct {
	count, zeros, nan, inf int64
	finite                 int64
	min, max               float64
	mean                   float64
	m2, scale              float64 // m2: sum of squared distances from the mean, in units of scale
	histogram              []int64

	minInt, maxInt   int64 // for integers, whose last digits a float64 may not have
	minUint, maxUint uint64
}

// measure reads a blob once for what needs no knowledge of the others, and once
// more for what does: the distances from the mean, and the histogram.
func measure(ctx context.Context, d tensor.DType, b tensor.Blob, n int64, bins int, bar *bar) (*statistics, error) {
	e, err := elementOf(d)
	if err != nil {
		return nil, err
	}
	s := &statistics{minInt: math.MaxInt64, maxInt: math.MinInt64, minUint: math.MaxUint64, min: math.Inf(1), max: math.Inf(-1)}
	pass := func(f func(p []byte, k int)) error {
		left := n
		return stream(ctx, b, bar, func(p []byte) {
			k := int(min(int64(len(p))*8/int64(e.bits), left))
			left -= int64(k)
			f(p, k)
		})
	}
	if err := pass(func(p []byte, k int) { s.first(&e, p, k) }); err != nil {
		return nil, err
	}
	if e.boolean && s.maxUint > 1 {
		return nil, errBool(byte(s.maxUint))
	}
	if e.complex != nil || s.finite == 0 {
		return s, nil
	}
	s.histogram = make([]int64, bins)
	// Squares and differences of values near the end of the range leave it.
	if m := max(math.Abs(s.min), math.Abs(s.max)); m > 1e150 {
		s.scale = m
	} else {
		s.scale = 1
	}
	return s, pass(func(p []byte, k int) { s.second(&e, p, k) })
}

// first counts, and finds min, max and mean.
func (s *statistics) first(e *element, p []byte, k int) {
	s.count += int64(k)
	if e.complex != nil {
		for i := range k {
			switch c := e.complex(p, i); {
			case c == 0:
				s.zeros++
			case cmplx.IsNaN(c):
				s.nan++
			case cmplx.IsInf(c):
				s.inf++
			}
		}
		return
	}
	var n int64
	var sum float64
	for i := range k {
		v := e.value(p, i)
		switch {
		case v == 0:
			s.zeros++
		case math.IsNaN(v):
			s.nan++
			continue
		case math.IsInf(v, 0):
			s.inf++
			continue
		}
		n++
		sum += v
		s.min, s.max = min(s.min, v), max(s.max, v)
	}
	if e.integer != nil {
		for i := range k {
			v := e.integer(p, i)
			s.minInt, s.maxInt = min(s.minInt, v), max(s.maxInt, v)
		}
	}
	if e.unsigned != nil {
		for i := range k {
			v := e.unsigned(p, i)
			s.minUint, s.maxUint = min(s.minUint, v), max(s.maxUint, v)
		}
	}
	if n == 0 {
		return
	}
	mean := sum / float64(n)
	if math.IsInf(mean, 0) { // the sum left the range: take it in smaller steps
		mean = 0
		for i := range k {
			if v := e.value(p, i); !math.IsNaN(v) && !math.IsInf(v, 0) {
				mean += v / float64(n)
			}
		}
	}
	// The mean of both sets, by weight, keeps more digits than one long sum.
	s.finite += n
	w := float64(n) / float64(s.finite)
	s.mean = s.mean*(1-w) + mean*w
}

// second sums up the distances from the mean, and fills the histogram, whose
// bars are half open but for the last, as NumPy's are.
func (s *statistics) second(e *element, p []byte, k int) {
	bins := len(s.histogram)
	lo, hi, mean := s.min/s.scale, s.max/s.scale, s.mean/s.scale
	step := (hi - lo) / float64(bins)
	for i := range k {
		v := e.value(p, i)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		v /= s.scale
		s.m2 += (v - mean) * (v - mean)
		at := 0
		if hi > lo {
			at = min(int((v-lo)/(hi-lo)*float64(bins)), bins-1)
			// The product is rounded; what counts are the edges.
			if v < lo+float64(at)*step {
				at--
			} else if at < bins-1 && v >= lo+float64(at+1)*step {
				at++
			}
		}
		s.histogram[max(at, 0)]++
	}
}

func (s *statistics) std() float64 { return s.scale * math.Sqrt(s.m2/float64(s.finite)) }

// limits are min and max with all their digits.
func (s *statistics) limits(d tensor.DType) (lo, hi any) {
	switch {
	case s.finite == 0:
		return nil, nil
	case s.minInt <= s.maxInt:
		return s.minInt, s.maxInt
	case d == tensor.Bool:
		return s.minUint == 1, s.maxUint == 1
	case s.minUint <= s.maxUint:
		return s.minUint, s.maxUint
	case d.Bits() < 64:
		return float32(s.min), float32(s.max)
	}
	return s.min, s.max
}

// set writes the statistics into an object: null where there are no finite
// values to speak of.
func (s *statistics) set(o *object, d tensor.DType) {
	o.set("count", s.count)
	lo, hi := s.limits(d)
	o.set("min", lo)
	o.set("max", hi)
	if s.finite > 0 {
		o.set("mean", s.mean)
		o.set("std", s.std())
	} else {
		o.set("mean", nil)
		o.set("std", nil)
	}
	o.set("zeros", s.zeros)
	o.set("nan", s.nan)
	o.set("inf", s.inf)
	if s.histogram != nil {
		o.set("histogram", object{{"min", s.min}, {"max", s.max}, {"counts", s.histogram}})
	}
}

// A measured is the statistics of a tensor's data or of one of its parts.
type measured struct {
	role  string
	dtype tensor.DType
	stats *statistics
	err   error
}

func measureTensor(ctx context.Context, t *tensor.Tensor, bins int, bar *bar) []measured {
	if t.External {
		return []measured{{err: errExternal}}
	}
	if t.Dense() {
		n, _ := t.Shape.Elements()
		err := t.Check()
		if !t.DType.Known() {
			_, err = elementOf(t.DType)
		}
		m := measured{dtype: t.DType, err: err}
		if err == nil {
			m.stats, m.err = measure(ctx, t.DType, t.Data, n, bins, bar)
		}
		return []measured{m}
	}
	var all []measured
	for i := range t.Parts {
		p := &t.Parts[i]
		m := measured{role: p.Role, dtype: partType(t, p)}
		m.stats, m.err = measure(ctx, m.dtype, p.Data, math.MaxInt64, bins, bar)
		all = append(all, m)
	}
	return all
}

// stats measures the rows. One that has no values here, such as a quantised block,
// is an error only where somebody asked for it by name.
func (a *app) stats(in *input, rows iter.Seq[row], bins int, asked bool) (jsonValue, error) {
	tab := newTable("NAME", "DTYPE", ">COUNT", ">MIN", ">MAX", ">MEAN", ">STD", ">ZEROS", ">NAN", ">INF", "HISTOGRAM")
	var list lines
	if !asked {
		if err := a.checkDecodedTotal(in, &lister{}); err != nil {
			return nil, err
		}
	}
	bar := a.bar(in.name, 2*in.payload()) // measure goes twice
	defer bar.done()
	inOrder(a.ctx, rows, func(r row) []measured {
		if r.empty {
			return nil
		}
		return measureTensor(a.ctx, a.resolve(r.tensor), bins, bar)
	}, func(r row, all []measured) {
		o := append(appendName(nil, r.name), r.ids...)
		if r.dtype != "" {
			o.set("dtype", r.dtype)
		}
		o.set("shape", r.tensor.Shape)
		var parts []object
		for _, m := range all {
			label, target := r.label(), &o
			if m.role != "" {
				label += ":" + escape(m.role)
				target = &object{{"role", m.role}}
			}
			if m.err != nil {
				if !asked && errors.Is(m.err, errors.ErrUnsupported) {
					why := visible(strings.TrimPrefix(describe(m.err), errors.ErrUnsupported.Error()+": "))
					tab.add(label, cmp.Or(r.dtype, r.scheme()), "-", "-", "-", "-", "-", "-", "-", "-", why)
				} else if !isInterrupt(m.err) {
					a.fail(in.name, fmt.Errorf("%s: %w", label, m.err))
				}
				target.set("error", describe(m.err))
			} else {
				m.stats.set(target, m.dtype)
				if !a.json {
					tab.add(m.cells(label)...)
				}
			}
			if m.role != "" {
				parts = append(parts, *target)
			}
		}
		if parts != nil {
			o.set("scheme", r.scheme())
			o.set("parts", parts)
		}
		if a.json {
			list.add(o)
		}
	})
	if a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	if !a.json {
		tab.print(a)
		return nil, nil
	}
	return func(w *jsonWriter) {
		w.open('{')
		w.field("file", in.name)
		w.field("tensors", list)
		w.close('}')
	}, nil
}

func (m *measured) cells(label string) []string {
	s := m.stats
	lo, hi := s.limits(m.dtype)
	short := func(v any) string {
		switch v := v.(type) {
		case nil:
			return "-"
		case float64:
			return strconv.FormatFloat(v, 'g', 6, 64)
		case float32:
			return strconv.FormatFloat(float64(v), 'g', 6, 32)
		}
		return plain(v)
	}
	mean, std := "-", "-"
	if s.finite > 0 {
		mean, std = short(s.mean), short(s.std())
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return []string{label, m.dtype.String(), n(s.count), short(lo), short(hi), mean, std, n(s.zeros), n(s.nan), n(s.inf), bars(s.histogram)}
}

// bars draws a histogram in one line; a bar that is not empty can be seen.
func bars(counts []int64) string {
	most := int64(0)
	for _, c := range counts {
		most = max(most, c)
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, c := range counts {
		if c == 0 {
			b.WriteByte('_')
			continue
		}
		b.WriteRune(levels[int(float64(c)/float64(most)*float64(len(levels)-1))])
	}
	return b.String()
}
