package inspect

import (
	"iter"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// dequantized is a file whose quantised weights are dense tensors.
type dequantized struct {
	*tensorfile.File
	stale map[string]bool // attributes about how weights are stored
}

// Dequantized returns a File in which the quantised weights of f, as package quant finds
// them, are dense tensors of dtype d. Their elements are computed each time that they are
// read; reading fails if the parts of a weight do not fit together. Other tensors, blobs
// and attributes are as in f. Scales of activations, and markers, are left out. cfg may
// be nil. Closing the File closes f.
func Dequantized(f *tensorfile.File, cfg *quant.Config, d tensor.DType) (*tensorfile.File, error) {
	set := quant.Find(f, cfg)
	var ts []*tensor.Tensor
	for _, w := range set.Weights {
		t := w.Tensor
		_, isBlocks := format.BlocksOf(t)
		if w.Auxiliary {
			continue
		}
		if w.Scheme != "" && w.Err == nil || isBlocks {
			as, err := tensor.As(t, d)
			if err != nil {
				return nil, err
			}
			t = as
		}
		ts = append(ts, t)
	}
	return tensorfile.FromReader(&dequantized{f.WithTensors(ts), set.Attributes}), nil
}

func (w *dequantized) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for k, v := range w.File.Attributes() {
			if !w.stale[k] && !yield(k, v) {
				return
			}
		}
	}
}
