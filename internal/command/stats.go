package command

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

// A measurement holds the flags of stats.
type measurement struct {
	lister
	opts  inspect.StatsOptions
	order order[statsRow]
	asked bool // tensors are named
}

func statsCommand(a *app) *cobra.Command {
	m := measurement{opts: inspect.StatsOptions{Bins: 10}}
	cmd := &cobra.Command{
		Use:   "stats FILE [NAME...]",
		Short: "Print min, max, mean, std, zeros, NaN, Inf, quantiles, histogram",
		Long: `Print min, max, mean, standard deviation, zeros, NaN, Inf and a histogram
of all tensors, or of each NAME, which may have * ? [a-z]. All but the counts are computed
from the finite values. The standard deviation is of the population. Tensors without values,
such as tensors of an unknown dtype, are left out; if one is named, it is an error.`,
		Example: `  tensorfile stats model.zt
  tensorfile stats model.gguf '*.attn_q.weight' --sort -std --quantiles 0.5`,
		Args: cobra.MinimumNArgs(1),
	}
	many := a.many(cmd, a.inputs, true)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		for _, q := range m.opts.Quantiles {
			if !(q >= 0 && q <= 1) {
				return fmt.Errorf("--quantiles: %v is not from 0 to 1", q)
			}
		}
		files, names := args, []string(nil)
		if !many.isList() {
			files, names = args[:1], args[1:]
		}
		m.asked = len(names) > 0
		err := many.run(files, opened(func(a *app, in *input) (document, error) {
			a.notePart(in)
			m.noteNames(a, in)
			rows, err := m.choose(in, names)
			if err != nil {
				return nil, err
			}
			return a.stats(in, rows, &m)
		}))
		return m.unmatched(a, err)
	}
	f := cmd.Flags()
	dequantizeFlag(f, &a.dequantize)
	m.filterFlag(f)
	number(f, &m.opts.Bins, "bins", 1, 10_000, "`NUMBER` of bars of the histogram")
	f.Float64SliceVar(&m.opts.Quantiles, "quantiles", nil,
		"also print the quantiles for `SHARES`, such as 0.01,0.5,0.99; for dtypes of more "+
			"than 16 bits within 1/128")
	sortFlag(f, &m.order, map[string]order[statsRow]{
		"name":  func(a, b *statsRow) int { return inspect.CompareNames(a.label, b.label) },
		"dtype": func(a, b *statsRow) int { return cmp.Compare(a.DType, b.DType) },
		"count": byFigure(func(s *inspect.Summary) any { return s.Count }),
		"min":   byFigure(func(s *inspect.Summary) any { return s.Min }),
		"max":   byFigure(func(s *inspect.Summary) any { return s.Max }),
		"mean":  byFigure(func(s *inspect.Summary) any { return s.Mean }),
		"std":   byFigure(func(s *inspect.Summary) any { return s.Std }),
		"zeros": byFigure(func(s *inspect.Summary) any { return s.Zeros }),
		"nan":   byFigure(func(s *inspect.Summary) any { return s.NaN }),
		"inf":   byFigure(func(s *inspect.Summary) any { return s.Inf }),
	}, "count", "zeros", "nan", "inf")
	return cmd
}

// A statsRow is an element of tensors in stats --json, and of their parts.
type statsRow struct {
	*rowName
	Role   string        `json:"role,omitempty"`
	DType  string        `json:"dtype,omitempty"`
	Shape  *tensor.Shape `json:"shape,omitempty"`
	Scheme string        `json:"scheme,omitempty"`
	*inspect.Summary
	Parts []statsRow `json:"parts,omitempty"`
	Error string     `json:"error,omitempty"`

	label    string
	noValues bool
}

// A statsDocument is stats --json.
type statsDocument struct {
	File    string     `json:"file"`
	Tensors []statsRow `json:"tensors"`
	outcome
	quantiles []float64
}

// byFigure orders rows by a figure. Rows without figures are the smallest.
func byFigure(of func(*inspect.Summary) any) order[statsRow] {
	value := func(r *statsRow) float64 {
		if r.Summary == nil {
			return math.NaN()
		}
		return asFloat(of(r.Summary))
	}
	return func(a, b *statsRow) int { return cmp.Compare(value(a), value(b)) }
}

// stats computes the statistics of the rows. A row without values, such as quantised
// blocks, is an error only if it was named.
func (a *app) stats(in *input, all []row, m *measurement) (document, error) {
	if !m.asked {
		if err := a.checkDecodedTotal(in, &m.lister); err != nil {
			return nil, err
		}
	}
	shown := map[string]bool{}
	for i := range all {
		shown[all[i].name] = true
	}
	a.noteStored(in, shown)
	list := make([]statsRow, 0, len(all))
	opts := m.opts
	var end func()
	opts.Progress, end = a.progress(in.name)
	defer end()
	results := inspect.StatsEach(a.ctx, func(yield func(*tensor.Tensor) bool) {
		for i := range all {
			if t := a.resolve(all[i].tensor); !all[i].empty && !yield(t) {
				return
			}
		}
	}, &opts)
	next, stop := iter.Pull2(results)
	defer stop()
	for i := range all {
		r := &all[i]
		line := statsRow{rowName: r.rowName(), DType: r.dtype, Shape: shapeOf(r.tensor),
			label: r.label()}
		if r.empty {
			list = append(list, line)
			continue
		}
		payloads, err, _ := next()
		if err != nil {
			return nil, err
		}
		for _, p := range payloads {
			part := &line
			if !r.tensor.Dense() {
				line.Scheme = r.scheme()
			}
			if p.Role != "" {
				line.Parts = append(line.Parts,
					statsRow{Role: p.Role, label: r.label() + ":" + escape(p.Role),
						DType: p.DType.String()})
				part = &line.Parts[len(line.Parts)-1]
			}
			if part.Summary = p.Summary; p.Err == nil {
				continue
			}
			part.Error = describe(p.Err)
			part.noValues = errors.Is(p.Err, errors.ErrUnsupported) || errors.Is(p.Err,
				tensor.ErrDType)
			if m.asked || !part.noValues {
				a.fail(in.name, fmt.Errorf("%s: %w", part.label, adviseOnValues(p.Err)))
			}
		}
		list = append(list, line)
	}
	m.order.sort(list)
	return &statsDocument{File: in.name, Tensors: list, quantiles: m.opts.Quantiles}, nil
}

func (d *statsDocument) print(a *app) {
	titles := []string{"NAME", "DTYPE", ">COUNT", ">MIN", ">MAX", ">MEAN", ">STD", ">ZEROS",
		">NAN", ">INF"}
	for _, q := range d.quantiles {
		titles = append(titles, ">"+strconv.FormatFloat(q, 'g', -1, 64))
	}
	tab := newTable(append(titles, "HISTOGRAM")...)
	// Histogram, count, dtype, zeros, mean, std.
	tab.spare = []int{len(titles), 2, 1, 7, 5, 6}
	for i := range d.Tensors {
		d.Tensors[i].addTo(tab)
		for k := range d.Tensors[i].Parts {
			d.Tensors[i].Parts[k].addTo(tab)
		}
	}
	tab.print(a)
}

// adviseOnValues returns commands that need no values.
func adviseOnValues(err error) error {
	if errors.Is(err, inspect.ErrExternal) {
		return errExternal
	}
	if errors.Is(err, tensor.ErrDType) {
		return advise("cat --raw or hash, which need no values, or --reinterpret, which gives "+
			"them", err)
	}
	return err
}

func (r *statsRow) addTo(t *table) {
	s := r.Summary
	switch {
	case s == nil && (len(r.Parts) > 0 || !r.noValues):
		return
	case s == nil:
		cells := []string{r.label, escape(cmp.Or(r.DType, r.Scheme))}
		for len(cells) < len(t.head)-1 {
			cells = append(cells, "-")
		}
		t.add(append(cells, visible(r.Error))...)
		return
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	cells := []string{r.label, escape(cmp.Or(r.DType, r.Scheme)), n(s.Count), shortNumber(s.Min),
		shortNumber(s.Max),
		shortNumber(s.Mean), shortNumber(s.Std), n(s.Zeros), n(s.NaN), n(s.Inf)}
	for i := range len(t.head) - 11 {
		if i < len(s.Quantiles) {
			cells = append(cells, shortNumber(s.Quantiles[i].Value))
		} else {
			cells = append(cells, "-")
		}
	}
	if s.Histogram != nil {
		cells = append(cells, bars(s.Histogram.Counts))
	}
	t.add(cells...)
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
