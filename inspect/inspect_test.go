package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// streamed hides that the data is in memory, and its size.
func streamed(t *tensor.Tensor) *tensor.Tensor {
	b, _ := t.Data.Bytes()
	out := *t
	out.Data = tensor.BlobFunc(int64(len(b)),
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	return &out
}

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) || a != a && b != b
}

// Every figure against a direct computation over all values.
func TestStatsAgreeWithTheDefinition(t *testing.T) {
	for _, d := range tensor.DTypes() {
		if d.IsComplex() || d == tensor.F64 || d == tensor.I64 || d == tensor.U64 {
			continue
		}
		n := 20_001
		if d == tensor.BF16 || d == tensor.F32 {
			n = 500_001 // some pieces
		}
		x := random(d, n, 1)
		values, err := tensor.Convert[float64](x)
		if err != nil {
			t.Fatal(err)
		}
		var finite []float64
		var want Summary
		for _, v := range values {
			switch {
			case math.IsNaN(v):
				want.NaN++
				continue
			case math.IsInf(v, 0):
				want.Inf++
				continue
			case v == 0:
				want.Zeros++
			}
			finite = append(finite, v)
		}
		sort.Float64s(finite)
		sum, m2 := 0.0, 0.0
		for _, v := range finite {
			sum += v / float64(len(finite))
		}
		for _, v := range finite {
			m2 += (v - sum) * (v - sum) / float64(len(finite))
		}
		shares := []float64{0, 0.01, 0.5, 1}
		for _, x := range []*tensor.Tensor{x, streamed(x)} {
			s, err := Stats(t.Context(), x, &StatsOptions{Quantiles: shares})
			if err != nil {
				t.Fatal(d, err)
			}
			if s.Count != int64(n) || s.NaN != want.NaN || s.Inf != want.Inf ||
				s.Zeros != want.Zeros {
				t.Errorf("%v: counts %+v, want %+v", d, s, want)
			}
			if math.Abs(float64(*s.Mean)-sum) > 1e-6*math.Sqrt(m2) ||
				math.Abs(float64(*s.Std)-math.Sqrt(m2)) > 1e-9*math.Sqrt(m2) {
				t.Errorf("%v: mean %v and std %v, want %v and %v", d, *s.Mean, *s.Std, sum,
					math.Sqrt(m2))
			}
			total := int64(0)
			for _, c := range s.Histogram.Counts {
				total += c
			}
			if total != int64(len(finite)) || float64(s.Histogram.Min) != finite[0] ||
				float64(s.Histogram.Max) != finite[len(finite)-1] {
				t.Errorf("%v: histogram %+v of %d values", d, s.Histogram, len(finite))
			}
			for i, q := range s.Quantiles {
				v := finite[max(0, int(math.Ceil(shares[i]*float64(len(finite))))-1)]
				off := 0.0
				if d.Bits() != 8 && d.Bits() != 16 {
					off = 1.0 / 128
				}
				if math.Abs(float64(q.Value)-v) > off*math.Abs(v)+1e-38 && d.Bits() >= 8 {
					t.Errorf("%v: quantile %v is %v, want %v", d, shares[i], q.Value, v)
				}
			}
		}
	}
}

func TestQuantilesOfSmallIntegersAndZerosAreExact(t *testing.T) {
	for _, x := range []*tensor.Tensor{tensor.New("x", tensor.Shape{3}, []int64{-3, 0, 255}),
		tensor.New("x", tensor.Shape{4}, []float32{-3, 0, 0, 255})} {
		s, err := Stats(t.Context(), x, &StatsOptions{Quantiles: []float64{0.5}})
		if err != nil || s.Quantiles[0].Value != 0 {
			t.Errorf("%v: %v, %v", x.DType, s, err)
		}
	}
	x := tensor.New("x", tensor.Shape{5}, []int32{-1005, -1001, -255, 1001, 1005})
	s, err := Stats(t.Context(), x, &StatsOptions{Quantiles: []float64{0, 0.5, 1}})
	if err != nil || s.Quantiles[0].Value != -1005 || s.Quantiles[1].Value != -255 ||
		s.Quantiles[2].Value != 1005 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestStatsKeepAllDigitsOfIntegers(t *testing.T) {
	for _, c := range []struct {
		x        *tensor.Tensor
		min, max any
	}{
		{tensor.New("x", tensor.Shape{3}, []int64{math.MinInt64 + 1, 0, math.MaxInt64}),
			int64(math.MinInt64 + 1), int64(math.MaxInt64)},
		{tensor.New("x", tensor.Shape{2}, []uint64{1<<53 + 1, math.MaxUint64}), uint64(1<<53 + 1),
			uint64(math.MaxUint64)},
		{tensor.New("x", tensor.Shape{2}, []bool{false, true}), false, true},
		{tensor.New("x", tensor.Shape{2}, []uint8{3, 200}), uint64(3), uint64(200)},
		{tensor.New("x", tensor.Shape{2}, []int8{-3, 2}), int64(-3), int64(2)},
		{tensor.New("x", tensor.Shape{2}, []float32{0.1, 0.2}), float32(0.1), float32(0.2)},
		{tensor.New("x", tensor.Shape{2}, []float64{0.1, math.Inf(1)}), 0.1, 0.1},
		{tensor.New("x", tensor.Shape{1}, []float32{float32(math.NaN())}), nil, nil},
	} {
		s, err := Stats(t.Context(), c.x, nil)
		if err != nil || s.Min != c.min || s.Max != c.max {
			t.Errorf("%v: %v to %v, want %v to %v (%v)", c.x.DType, s.Min, s.Max, c.min, c.max,
				err)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
	}
}

func TestStatsDoNotOverflowNearTheEndOfTheRange(t *testing.T) {
	s, err := Stats(t.Context(),
		tensor.New("x", tensor.Shape{2}, []float64{math.MaxFloat64, math.MaxFloat64 / 2}), nil)
	if err != nil || !near(float64(*s.Mean), 0.75*math.MaxFloat64) ||
		!near(float64(*s.Std), 0.25*math.MaxFloat64) {
		t.Error(s, err)
	}
	s, err = Stats(t.Context(), tensor.New("x", tensor.Shape{2}, []float64{1e-200, 3e-200}), nil)
	if err != nil || !near(float64(*s.Mean), 2e-200) || !near(float64(*s.Std), 1e-200) {
		t.Error(s, err)
	}
}

func TestStatsRefuseOptionsOutsideOfTheirRange(t *testing.T) {
	x := tensor.New("x", tensor.Shape{1}, []float32{1})
	if _, err := Stats(t.Context(), nil, nil); !errors.Is(err, tensor.ErrNoTensor) {
		t.Error(err)
	}
	if _, err := Stats(t.Context(), x, &StatsOptions{Bins: -1}); err == nil {
		t.Error("bins below 0")
	}
	if _, err := Stats(t.Context(), x, &StatsOptions{Quantiles: []float64{1.5}}); err == nil {
		t.Error("a quantile of 1.5")
	}
	if _, err := Stats(t.Context(),
		&tensor.Tensor{DType: tensor.Bool, Shape: tensor.Shape{1},
			Data: tensor.BlobOf([]byte{77})}, nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Error(err)
	}
	if _, err := Stats(t.Context(),
		&tensor.Tensor{Name: "x", Shape: tensor.Shape{1}, Data: tensor.BlobOf([]byte{1})},
		nil); !errors.Is(err, tensor.ErrDType) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Stats(ctx, random(tensor.F32, 1<<20, 1), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestCompareCountsElementsThatDiffer(t *testing.T) {
	nan := float32(math.NaN())
	f := func(v ...float32) *tensor.Tensor {
		return tensor.New("x", tensor.Shape{int64(len(v))}, v)
	}
	for name, c := range map[string]struct {
		a, b      *tensor.Tensor
		o         CompareOptions
		different int64
		largest   float64
	}{
		"equal":       {f(1, 2), f(1, 2), CompareOptions{}, 0, math.NaN()},
		"bits of NaN": {f(nan), f(nan), CompareOptions{}, 0, math.NaN()},
		"zeros by bits": {f(0), f(float32(math.Copysign(0, -1))), CompareOptions{}, 1,
			math.NaN()},
		"zeros by value": {f(0), f(float32(math.Copysign(0, -1))),
			CompareOptions{Numeric: true}, 0, math.NaN()},
		"beyond":           {f(1, 2), f(1, 2.5), CompareOptions{Tolerance: 0.25}, 1, 0.5},
		"within":           {f(1, 2), f(1, 2.5), CompareOptions{Tolerance: 0.5}, 0, 0.5},
		"relative":         {f(100), f(101), CompareOptions{Relative: 0.01}, 0, 1},
		"NaN and a number": {f(nan), f(1), CompareOptions{Tolerance: 10}, 1, math.NaN()},
		"infinity": {f(float32(math.Inf(1))), f(1), CompareOptions{Relative: 10}, 1,
			math.Inf(1)},
		"infinities": {f(float32(math.Inf(1))), f(float32(math.Inf(1))),
			CompareOptions{Numeric: true}, 0, math.NaN()},
		"large integers": {tensor.New("x", tensor.Shape{1}, []int64{1 << 62}),
			tensor.New("x", tensor.Shape{1}, []int64{1<<62 + 1}), CompareOptions{Numeric: true}, 1,
			1},
		"far integers": {tensor.New("x", tensor.Shape{1}, []int64{math.MinInt64}),
			tensor.New("x", tensor.Shape{1}, []int64{math.MaxInt64}), CompareOptions{}, 1,
			1 << 64},
		"unsigned": {tensor.New("x", tensor.Shape{1}, []uint64{math.MaxUint64}),
			tensor.New("x", tensor.Shape{1}, []uint64{math.MaxUint64 - 2}),
			CompareOptions{Tolerance: 2}, 0, 2},
		"integers of widths": {tensor.New("x", tensor.Shape{2}, []uint32{7, 8}),
			tensor.New("x", tensor.Shape{2}, []uint64{7, 9}), CompareOptions{Numeric: true}, 1, 1},
		"float widths": {f(0.5), tensor.New("x", tensor.Shape{1}, []float64{0.5}),
			CompareOptions{Numeric: true}, 0, math.NaN()},
		"complex": {tensor.New("x", tensor.Shape{1}, []complex64{1 + 2i}),
			tensor.New("x", tensor.Shape{1}, []complex64{1 + 3i}), CompareOptions{Tolerance: 0.5},
			1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Compare(t.Context(), c.a, c.b, &c.o)
			if err != nil {
				t.Fatal(err)
			}
			n, _ := c.a.Shape.Elements()
			if got.Different != c.different || got.Of != n ||
				!near(float64(got.Largest), c.largest) || got.Equal() != (c.different == 0) {
				t.Errorf("%+v, want %d different, largest %v", got, c.different, c.largest)
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := Compare(t.Context(), f(1), f(1, 2), nil); err == nil {
		t.Error("shapes that differ were compared")
	}
	if _, err := Compare(t.Context(), f(1), tensor.New("x", tensor.Shape{1}, []complex64{1}),
		nil); !errors.Is(err, tensor.ErrDType) {
		t.Error(err)
	}
}

func TestCompareFindsTheFirstAcrossOrdersAndPieces(t *testing.T) {
	const rows, columns = 700, 1900
	a := random(tensor.U16, rows*columns, 3)
	a.Shape = tensor.Shape{rows, columns}
	values, err := tensor.Load[uint16](a)
	if err != nil {
		t.Fatal(err)
	}
	values[650*columns+1234] ^= 1
	b := tensor.New("x", a.Shape, values)
	column, err := tensor.Reordered(b, tensor.ColumnMajor(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*tensor.Tensor{b, column, streamed(b)} {
		got, err := Compare(t.Context(), a, b, nil)
		if err != nil || got.Different != 1 || !slices.Equal(got.First, []int64{650, 1234}) ||
			got.A == got.B {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestFiguresSummarizeDifferences(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	a := tensor.New("x", tensor.Shape{5}, []float32{1, 2, nan, inf, 2})
	b := tensor.New("x", tensor.Shape{5}, []float32{2, 4, nan, inf, 4})
	got, err := Compare(t.Context(), a, b, &CompareOptions{Numeric: true, Figures: true})
	if err != nil {
		t.Fatal(err)
	}
	if f := got.Figures; !near(float64(f.Cosine), 1) || !near(float64(f.Mean), 5.0/3) ||
		!near(float64(f.RMS), math.Sqrt(3)) || !near(float64(f.RelativeRMS), 1) {
		t.Errorf("%+v", f)
	}
	// An element that is no number on one side only is counted, and has no difference.
	for _, c := range []struct {
		b         []float32
		notFinite int64
		mean      float64
	}{{[]float32{1, 2, nan, 3, 5}, 1, 1}, {[]float32{1, nan, 3, inf, 5}, 2, 1.5},
		{[]float32{nan, nan, nan, -inf, nan}, 4, math.NaN()}} {
		b := tensor.New("x", tensor.Shape{5}, c.b)
		for _, o := range []CompareOptions{{Figures: true}, {}, {Figures: true, Tolerance: 9}} {
			got, err := Compare(t.Context(), a, b, &o)
			if err != nil || got.NotFinite != c.notFinite {
				t.Fatalf("%v: %+v, %v", c.b, got, err)
			}
			hasFigures := o.Figures && c.mean == c.mean
			if f := got.Figures; (f != nil) != hasFigures ||
				hasFigures && !near(float64(f.Mean), c.mean) {
				t.Errorf("%v: %+v", c.b, f)
			}
		}
	}
}

func TestContentIsTheSameForEveryOrder(t *testing.T) {
	a := tensor.New("a", tensor.Shape{2, 3}, []int16{1, 2, 3, 4, 5, 6})
	b := tensor.New("b", tensor.Shape{1}, []float32{1})
	column, err := tensor.Reordered(a, tensor.ColumnMajor(2))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Content(t.Context(), []*tensor.Tensor{a, b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Content(t.Context(), []*tensor.Tensor{streamed(b), column}, nil); err != nil ||
		got != want {
		t.Errorf("%v, want %v (%v)", got, want, err)
	}
	renamed := *b
	renamed.Name = "c"
	for _, other := range [][]*tensor.Tensor{{a}, {a, &renamed},
		{a, tensor.New("b", tensor.Shape{1, 1}, []float32{1})}} {
		if got, err := Content(t.Context(), other, nil); err != nil || got == want {
			t.Errorf("the same id for something else (%v)", err)
		}
	}
	if _, err := Content(t.Context(), []*tensor.Tensor{a, a}, nil); !errors.Is(err,
		tensor.ErrDuplicate) {
		t.Error(err)
	}
}

// Neither the format nor shards count for the content id, nor for differences.
func TestContentIsTheSameInEveryFormat(t *testing.T) {
	tensors := []*tensor.Tensor{
		tensor.New("b.weight", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}),
		tensor.New("a", tensor.Shape{4}, []float32{7, 8, 9, 10}),
	}
	want, err := Content(t.Context(), tensors, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := fileOf(tensors...)
	check := func(name string) {
		t.Helper()
		f, err := tensorfile.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := Content(t.Context(), slices.Collect(f.Tensors()), nil); err != nil ||
			got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if got := changes(t, base, f,
			&DiffOptions{IgnoreAttributes: true, Figures: true}); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	dir, formats := t.TempDir(), 0
	for _, f := range tensorfile.Formats() {
		if f == tensorfile.NPY || f.Caps().DTypes == nil { // one tensor, or none
			continue
		}
		in := tensors
		if f == tensorfile.Primitiv {
			column, err := tensor.Reordered(tensors[0], tensor.ColumnMajor(2))
			if err != nil {
				t.Fatal(err)
			}
			in = []*tensor.Tensor{column, tensors[1]}
		}
		for _, version := range append([]string{""}, f.Writes()...) {
			name := filepath.Join(dir, fmt.Sprint(f, version, f.Ext()))
			w, err := tensorfile.Create(name, f, &tensorfile.WriterOptions{Version: version})
			if err != nil {
				t.Fatal(f, err)
			}
			if err := errors.Join(w.AddAll(t.Context(), tensor.Of(in...)), w.Close()); err != nil {
				t.Fatal(f, err)
			}
			check(name)
		}
		formats++
	}
	if formats < 6 {
		t.Errorf("%d formats", formats)
	}
	shards, err := safetensors.WriteShards(t.Context(), filepath.Join(dir, "s.safetensors"),
		tensor.Of(tensors...),
		&safetensors.ShardOptions{MaxSize: 24})
	if err != nil || len(shards) != 3 {
		t.Fatal(shards, err)
	}
	check(shards[2])
	shards, err = ztensor.WriteShards(t.Context(), filepath.Join(dir, "z.zt"),
		tensor.Of(tensors...), &ztensor.ShardOptions{MaxSize: 24})
	if err != nil || len(shards) < 3 {
		t.Fatal(shards, err)
	}
	check(filepath.Join(dir, "z.zt"))
}

func TestHashOfNoBytesIsTheEmptyDigest(t *testing.T) {
	const want = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	got, err := Hash(t.Context(), tensor.Blob{}, nil)
	if err != nil || got.String() != want {
		t.Error(got, err)
	}
}

func TestProgressCountsEveryByte(t *testing.T) {
	x := random(tensor.BF16, 1<<20, 7)
	wide := random(tensor.F32, 1<<18, 7)
	var done, total int64
	progress := func(d, of int64) {
		if d < done || d > of {
			t.Errorf("%d of %d bytes after %d", d, of, done)
		}
		done, total = d, of
	}
	f := func(ts ...*tensor.Tensor) *tensorfile.File { return tensorfile.FromTensors(ts, nil) }
	each := []*tensor.Tensor{x, wide}
	for _, c := range []struct {
		name string
		call func() error
		want int64
	}{
		{"statistics", func() error {
			_, err := Stats(t.Context(), x, &StatsOptions{Progress: progress})
			return err
		}, 2 << 20},
		{"statistics in two passes", func() error {
			_, err := Stats(t.Context(), wide, &StatsOptions{Progress: progress})
			return err
		}, 2 << 20},
		{"statistics of several", func() (err error) {
			for _, e := range StatsEach(t.Context(), slices.Values(each),
				&StatsOptions{Progress: progress}) {
				err = errors.Join(err, e)
			}
			return err
		}, 4 << 20},
		{"a histogram", func() error {
			_, err := Histogram(t.Context(), wide, &HistogramOptions{Max: 1, Progress: progress})
			return err
		}, 2 << 20},
		{"a hash", func() error {
			_, err := Hash(t.Context(), x.Data, progress)
			return err
		}, 2 << 20},
		{"hashes", func() (err error) {
			for _, e := range HashEach(t.Context(), slices.Values(each), progress) {
				err = errors.Join(err, e)
			}
			return err
		}, 3 << 20},
		{"an id", func() error {
			y := *wide
			y.Name += "y"
			_, err := Content(t.Context(), []*tensor.Tensor{x, &y}, progress)
			return err
		}, 3 << 20},
		{"a comparison", func() error {
			_, err := Compare(t.Context(), x, x, &CompareOptions{Progress: progress})
			return err
		}, 4 << 20},
		{"a difference", func() error {
			_, err := Diff(t.Context(), f(x), f(x), &DiffOptions{Progress: progress})
			return err
		}, 4 << 20},
		{"a difference of nothing", func() error {
			_, err := Diff(t.Context(), f(x), f(), &DiffOptions{Progress: progress})
			return err
		}, 0},
	} {
		done, total = 0, -1
		if err := c.call(); err != nil || done != c.want || total != done {
			t.Errorf("%s: %d of %d bytes, want %d, %v", c.name, done, total, c.want, err)
		}
	}
}
