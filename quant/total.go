package quant

import (
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Total sums up weights of one scheme that share scales alike.
type Total struct {
	Scheme     string `json:"scheme"`
	Weights    int64  `json:"weights"`
	Parameters int64  `json:"parameters"`
	// Block is the rows and columns that share a scale; nil for weights without numbers,
	// and where a scale is for a whole row or weight.
	Block []int64 `json:"block,omitempty"`
	// Scales is how many tensors of scales each weight has.
	Scales int64 `json:"scales"`
}

// Totals sums up the quantised weights, in the order of the first of each kind.
func (s *Set) Totals() []Total {
	type key struct {
		scheme             string
		rows, cols, scales int64
	}
	all, at := []Total{}, map[key]int{}
	for _, w := range s.Weights {
		if w.Scheme == "" {
			continue
		}
		k := key{scheme: w.Scheme}
		k.rows, k.cols = w.block()
		for _, p := range w.Parts {
			if p.Role == "scale" || p.Role == "global-scale" || p.Role == "nested-scale" {
				k.scales++
			}
		}
		i, ok := at[k]
		if !ok {
			i, at[k] = len(all), len(all)
			all = append(all, Total{Scheme: k.scheme, Scales: k.scales})
			if k.cols > 0 {
				all[i].Block = []int64{k.rows, k.cols}
			}
		}
		all[i].Weights++
		all[i].Parameters = plus(all[i].Parameters, w.Parameters())
	}
	return all
}

// Parameters returns the number of elements of all weights, and of all stored tensors;
// math.MaxInt64 for more.
func (s *Set) Parameters() (logical, stored int64) {
	count := func(t *tensor.Tensor) {
		n, _ := t.Shape.Elements()
		stored = plus(stored, n)
	}
	for _, w := range s.Weights {
		logical = plus(logical, w.Parameters())
		if w.Scheme == "" {
			count(w.Tensor)
		}
		for _, p := range w.Parts {
			count(p.Tensor)
		}
	}
	return logical, stored
}

func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// block returns how many rows and columns of the weight share a scale; 0 where that is
// not known, or is a whole row or weight.
func (w *Weight) block() (rows, cols int64) {
	v, ok := w.Tensor.Data.Source().(*values)
	if !ok || w.Scheme == "" || len(v.matrix.ops) == 0 {
		return 0, 0
	}
	o := v.matrix.ops[len(v.matrix.ops)-1]
	rows, cols = o.rowSize, o.colSize
	if v.transposed {
		rows, cols = cols, rows
	}
	if _, all := v.dims(); cols >= all {
		return 0, 0
	}
	return rows, cols
}
