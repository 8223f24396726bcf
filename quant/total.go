package quant

import (
	"math"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Total sums up the weights of one scheme with the same blocks and number of scales.
type Total struct {
	Scheme     string `json:"scheme"`
	Weights    int64  `json:"weights"`
	Parameters int64  `json:"parameters"`
	// Block has the number of rows and of columns that share a scale; nil if a scale is
	// for a whole row or weight, or if the weights have an Err.
	Block []int64 `json:"block,omitempty"`
	// Scales is the number of tensors of scales of each weight.
	Scales int64 `json:"scales"`
}

// Totals sums up the quantised weights. Totals are in the order of their first weights.
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

// Parameters returns the number of elements of all weights, and of all stored tensors, at
// most math.MaxInt64.
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

// plus returns a+b, at most math.MaxInt64.
func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// block returns the block of a Total; 0 and 0 for nil.
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
