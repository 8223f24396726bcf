package page

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/sparse"
	"github.com/tensorfile/tensorfile/tensor"
)

// gridSize and pictureSize are the largest numbers of rows and columns that are shown.
const (
	gridSize    = 32
	pictureSize = 256
	// maxGap is the largest distance in bytes between elements of a row of a picture.
	// Across larger gaps Slice would read elements one by one.
	maxGap = 4096
)

// elements returns a dense tensor to show: the tensor, or a part of it, a sparse tensor
// as dense, quantised blocks as numbers, an external tensor from its file.
func (f *file) elements(ctx context.Context, p params) (*tensor.Tensor, error) {
	t, err := f.tensor(&p)
	if err != nil {
		return nil, err
	}
	if t.External {
		if f.External != nil {
			t = f.External(t.Name)
		}
		if t == nil || t.External {
			return nil, inspect.ErrExternal
		}
	}
	err = format.CheckDecoded(f.Limits, f.File.TotalSize(), format.Blobs(t))
	switch {
	case err != nil:
		return nil, err
	case p.Part != "":
		part := t.Part(p.Part)
		if part == nil {
			return nil, fmt.Errorf("page: no part %.40q", p.Part)
		}
		return inspect.Part(ctx, t, part)
	case sparse.Known(t.Scheme):
		return sparse.Densify(ctx, t, nil)
	case !t.Dense():
		if values, err := tensor.Slice(t); err == nil { // of quantised blocks
			return values, nil
		}
	}
	return t, t.Check()
}

// tensor returns the tensor with the index in p, or the numbers or a part of a quantised
// weight. It clears p.Part if it returns that part of a weight.
func (f *file) tensor(p *params) (*tensor.Tensor, error) {
	i := p.Tensor
	if i >= 0 && i < len(f.tensors) {
		return f.tensors[i], nil
	}
	all := f.weights()
	if i -= len(f.tensors); i < 0 || i >= len(all) {
		return nil, fmt.Errorf("page: tensor %d of %d", p.Tensor, len(f.tensors)+len(all))
	}
	if p.Part == "" {
		return all[i].Tensor, nil
	}
	for _, part := range all[i].Parts {
		if part.Role == p.Part {
			p.Part = ""
			return part.Tensor, nil
		}
	}
	return nil, fmt.Errorf("page: no part %.40q", p.Part)
}

// A grid is a part of a tensor as text.
type grid struct {
	Shape  tensor.Shape `json:"shape"` // of the whole tensor
	Rows   int          `json:"rows"`  // dimension of the rows, -1 if there is none
	Cols   int          `json:"cols"`
	Index  []int64      `json:"index"`
	Values [][]string   `json:"values"`
}

// window returns the dimensions that are rows and columns, by default the last two, and
// the index of the first element that is shown, which is inside the tensor.
func window(t *tensor.Tensor, p params) (rows, cols int, index []int64) {
	rank := len(t.Shape)
	rows, cols = rank-2, rank-1
	if p.Rows >= 0 && p.Rows < p.Cols && p.Cols < rank {
		rows, cols = p.Rows, p.Cols
	}
	index = make([]int64, rank)
	for d := range min(rank, len(p.Index)) {
		index[d] = max(min(p.Index[d], t.Shape[d]-1), 0)
	}
	return max(rows, -1), cols, index
}

func (f *file) values(ctx context.Context, p params) (*grid, error) {
	t, err := f.elements(ctx, p)
	if err != nil {
		return nil, err
	}
	g := &grid{Shape: slices.Clone(t.Shape), Values: [][]string{}}
	if g.Shape == nil {
		g.Shape = tensor.Shape{}
	}
	g.Rows, g.Cols, g.Index = window(t, p)
	if slices.Contains(t.Shape, 0) {
		return g, nil
	}
	at := make([]tensor.Index, len(t.Shape))
	for d, first := range g.Index {
		at[d] = tensor.At(first)
		if d == g.Rows || d == g.Cols {
			at[d] = tensor.Range{Start: first, Stop: min(first+gridSize, t.Shape[d])}
		}
	}
	shown, err := tensor.Slice(t, at...)
	if err != nil {
		return nil, err
	}
	b, err := shown.Data.ReadAll()
	if err != nil {
		return nil, err
	}
	memory := *shown
	memory.Data = tensor.BlobOf(b)
	sizes := append([]int64{1, 1}, shown.Shape...)
	sizes = sizes[len(sizes)-2:]
	for i := range sizes[0] {
		texts := make([]string, 0, sizes[1])
		for j := range sizes[1] {
			place := []tensor.Index{tensor.At(i), tensor.At(j)}
			one, err := tensor.Slice(&memory, place[2-len(shown.Shape):]...)
			if err != nil {
				return nil, err
			}
			v, err := inspect.Value(one)
			if err != nil {
				return nil, err
			}
			texts = append(texts, textOf(v))
		}
		g.Values = append(g.Values, texts)
	}
	return g, nil
}

// textOf returns a value as text with all its digits: a JavaScript number may have fewer.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case inspect.Float:
		return textOf(float64(v))
	case inspect.Complex:
		return fmt.Sprintf("%v%+vi", float64(v[0]), float64(v[1]))
	}
	return fmt.Sprint(v)
}

// A picture has a byte for each element: 0 if it is not finite, else from 1 for Low to
// 255 for High. With three channels a pixel has three bytes: red, green and blue.
type picture struct {
	Channels int     `json:"channels"`
	Width    int     `json:"width"`
	Height   int     `json:"height"`
	RowStep  int64   `json:"row_step"` // one of RowStep rows is shown
	ColStep  int64   `json:"col_step"`
	Cut      bool    `json:"cut"` // columns at the right are not shown
	Min      float64 `json:"min"` // of the elements shown
	Max      float64 `json:"max"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Pixels   []byte  `json:"pixels"`
}

// colours returns the dimensions of the three colour channels, rows and columns of an
// image, [n, h, w, 3] or [3, h, w]; -1 if the shape is not an image. The shape of 3x3
// kernels, [n, m, 3, 3], is not.
func colours(shape tensor.Shape) (channel, rows, cols int) {
	const least = 4
	switch n := len(shape); {
	case n == 4 && shape[3] == 3 && min(shape[1], shape[2]) >= least:
		return 3, 1, 2
	case n == 3 && shape[0] == 3 && min(shape[1], shape[2]) >= least:
		return 0, 1, 2
	}
	return -1, -1, -1
}

func (f *file) picture(ctx context.Context, p params) (*picture, error) {
	t, err := f.elements(ctx, p)
	if err != nil {
		return nil, err
	}
	rows, cols, index := window(t, p)
	channel, gap := -1, int64(max(t.DType.Bits()/8, 1)) // bytes from column to column
	if c, r, w := colours(t.Shape); c >= 0 && !p.Plain && !t.DType.IsComplex() {
		channel, rows, cols = c, r, w
		if c > w {
			gap *= 3
		}
	}
	out := &picture{Channels: 1, RowStep: 1, ColStep: 1}
	if slices.Contains(t.Shape, 0) {
		return out, nil
	}
	at := make([]tensor.Index, len(t.Shape))
	for d, first := range index {
		n := t.Shape[d]
		step := (n-1)/pictureSize + 1
		switch d {
		case rows:
			out.RowStep = step
			at[d] = tensor.Stride{Stop: n, Step: step}
		case cols:
			step = min(step, maxGap/gap)
			out.ColStep, out.Cut = step, pictureSize*step < n
			at[d] = tensor.Stride{Stop: min(pictureSize*step, n), Step: step}
		case channel:
			at[d] = tensor.Range{Stop: n}
		default:
			at[d] = tensor.At(first)
		}
	}
	shown, err := tensor.Slice(t, at...)
	if err != nil {
		return nil, err
	}
	values, err := tensor.Convert[float64](shown)
	if err != nil {
		return nil, err
	}
	shape := shown.Shape
	switch channel {
	case 0: // one channel after the other
		n := len(values) / 3
		pixels := make([]float64, 0, len(values))
		for i := range n {
			pixels = append(pixels, values[i], values[n+i], values[2*n+i])
		}
		out.Channels, values, shape = 3, pixels, shape[1:]
	case 3:
		out.Channels, shape = 3, shape[:2]
	}
	out.Width, out.Height = len(values), 1
	if len(shape) == 2 {
		out.Width, out.Height = int(shape[1]), int(shape[0])
	}
	out.paint(values, t.DType)
	return out, nil
}

// paint sets the range and the bytes of the pixels. The range of a colour image is 0 to
// 255 for bytes, 0 to 1 if all elements are in it, else from the smallest to the largest
// element.
func (p *picture) paint(values []float64, d tensor.DType) {
	p.Min, p.Max = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			p.Min, p.Max = min(p.Min, v), max(p.Max, v)
		}
	}
	if p.Min > p.Max {
		p.Min, p.Max = 0, 0
	}
	p.Low, p.High = p.Min, p.Max
	switch {
	case p.Channels == 1:
	case d == tensor.U8:
		p.Low, p.High = 0, 255
	case p.Min >= 0 && p.Max <= 1:
		p.Low, p.High = 0, 1
	}
	span := p.High/2 - p.Low/2 // cannot overflow
	p.Pixels = make([]byte, len(values))
	for i, v := range values {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
		case span == 0:
			p.Pixels[i] = 128
		default:
			p.Pixels[i] = 1 + byte(254*((v/2-p.Low/2)/span))
		}
	}
}

// A summary has the statistics of a tensor or of one of its parts. Numbers are text, with
// all their digits.
type summary struct {
	Role      string        `json:"role,omitempty"`
	Facts     [][2]string   `json:"facts"`
	Histogram *inspect.Bins `json:"histogram,omitempty"`
	Error     string        `json:"error,omitempty"`
}

func (f *file) stats(ctx context.Context, p params, progress Progress) ([]summary, error) {
	t, err := f.elements(ctx, p)
	if err != nil {
		return nil, err
	}
	out := []summary{}
	for all, err := range inspect.StatsEach(ctx, slices.Values([]*tensor.Tensor{t}),
		&inspect.StatsOptions{Bins: 48, Quantiles: []float64{.01, .25, .5, .75, .99},
			Progress: progress}) {
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			out = append(out, summaryOf(s))
		}
	}
	return out, nil
}

func summaryOf(p inspect.PayloadStats) summary {
	out := summary{Role: p.Role, Facts: [][2]string{}}
	if p.Err != nil {
		out.Error = p.Err.Error()
		return out
	}
	s := p.Summary
	out.Histogram = s.Histogram
	add := func(name string, v any) { out.Facts = append(out.Facts, [2]string{name, textOf(v)}) }
	add("elements", s.Count)
	add("min", s.Min)
	add("max", s.Max)
	if s.Mean != nil && s.Std != nil {
		add("mean", *s.Mean)
		add("std", *s.Std)
	}
	add("zeros", s.Zeros)
	add("NaN", s.NaN)
	add("Inf", s.Inf)
	for _, q := range s.Quantiles {
		add(fmt.Sprintf("quantile %v", q.Share), q.Value)
	}
	return out
}
