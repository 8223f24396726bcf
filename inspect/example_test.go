package inspect_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

// Which layers did fine-tuning change?
func ExampleDiff() {
	base := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("layers.0.w", tensor.Shape{2}, []float32{1, 2}),
		tensor.New("layers.1.w", tensor.Shape{2}, []float32{3, 4}),
	}, nil)
	tuned := tensorfile.FromTensors([]*tensor.Tensor{
		tensor.New("layers.0.w", tensor.Shape{2}, []float32{1, 2}),
		tensor.New("layers.1.w", tensor.Shape{2}, []float32{3, 4.5}),
	}, nil)
	d, err := inspect.Diff(context.Background(), base, tuned,
		&inspect.DiffOptions{Tolerance: 1e-6, Figures: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range d.Largest(10) {
		fmt.Printf("%s: %d of %d, RMS %.3f, cosine %.4f\n", t.Name, t.Different, t.Of, t.RMS,
			t.Cosine)
	}
	// Output: layers.1.w: 1 of 2, RMS 0.354, cosine 0.9985
}

func ExampleWriteValues() {
	x := tensor.New("x", tensor.Shape{2, 2}, []float32{1, 0.5, -2, 1e10})
	if err := inspect.WriteValues(context.Background(), os.Stdout, x, nil); err != nil {
		fmt.Println(err)
	}
	// Output:
	// [[1, 0.5],
	//  [-2, 10000000000]]
}

func ExampleStats() {
	x := tensor.New("x", tensor.Shape{5}, []int16{-3, 0, 0, 4, 9})
	s, err := inspect.Stats(context.Background(), x,
		&inspect.StatsOptions{Bins: 3, Quantiles: []float64{0.5}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Min, s.Max, *s.Mean, s.Zeros, s.Quantiles[0].Value, s.Histogram.Counts)
	// Output: -3 9 2 2 0 [3 1 1]
}

// Histograms of one range are comparable.
func ExampleHistogram() {
	for _, x := range []*tensor.Tensor{
		tensor.New("before", tensor.Shape{5}, []float32{-0.4, -0.1, 0, 0.1, 0.3}),
		tensor.New("after", tensor.Shape{5}, []float32{-0.9, -0.6, 0, 0.2, 1.5}),
	} {
		h, err := inspect.Histogram(context.Background(), x,
			&inspect.HistogramOptions{Bins: 4, Min: -1, Max: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(x.Name, h.Counts, h.Above)
	}
	// Output:
	// before [0 2 3 0] 0
	// after [2 0 2 0] 1
}

func ExampleNewUsage() {
	f, err := tensorfile.Open("../testdata/gguf/many.gguf", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	u := inspect.NewUsage(f, nil)
	fmt.Println(u.Tensors+u.Metadata+u.Padding+u.Blobs+u.Unused == f.Size(), u.Groups[0].Name)
	// Output: true blk.2.*
}

func ExampleNewGraph() {
	f, err := tensorfile.Open("../testdata/pte/export-1.5.1-linear.pte", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	g, err := inspect.NewGraph(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range g.Groups[0].Nodes {
		fmt.Println(n.Kind, n.Label)
	}
	// Output:
	// input input 0
	// operator aten::permute_copy.out
	// constant 0
	// operator aten::addmm.out
	// constant 1
	// output output 0
}

// Two tensors of one shape, whatever the order and dtype that each is stored in.
func ExampleCompare() {
	a := tensor.New("a", tensor.Shape{2, 2}, []float32{1, 2, 3, 4})
	b := tensor.New("b", tensor.Shape{2, 2}, []float64{1, 2, 3.5, 4})
	c, err := inspect.Compare(context.Background(), a, b, &inspect.CompareOptions{Relative: 0.01})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Different, "of", c.Of, "by up to", c.Largest, "first at", c.First, c.A, c.B)
	// Output: 1 of 4 by up to 0.5 first at [1 0] 3 3.5
}

// The SHA-256 of what is in a file, tensor by tensor.
func ExampleHashEach() {
	f, err := tensorfile.Open("../testdata/npy/one-be-deflated.npz", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	for hashes, err := range inspect.HashEach(context.Background(), f.Tensors(), nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, h := range hashes {
			fmt.Println(h.Sum, h.Err)
		}
	}
	// Output: 7a887c936696d5cec2cc8a18e75572bed84504aaba168fe9c6289712f7a00841 <nil>
}

// The same for every sharding, order and format.
func ExampleContent() {
	a := tensor.New("a", tensor.Shape{2}, []float32{1, 2})
	b := tensor.New("b", tensor.Shape{1}, []int8{3})
	one, err := inspect.Content(context.Background(), []*tensor.Tensor{a, b}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	other, err := inspect.Content(context.Background(), []*tensor.Tensor{b, a}, nil)
	fmt.Println(one == other, err)
	// Output: true <nil>
}
