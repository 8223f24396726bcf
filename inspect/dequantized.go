package inspect

import (
	"iter"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// dequantized is a Reader of the weights that the tensors of a file make up.
type dequantized struct {
	*tensorfile.File
	stale map[string]bool // attributes about how weights are stored
}

// Dequantized returns a File that has the weights of f as package quant finds them, and
// quantised blocks, as elements of dtype d, which are computed as they are read; a weight
// whose parts do not fit together fails to be read. Other tensors, blobs and attributes
// are as in f. Scales of activations, and markers, are left out. cfg may be nil.
// Closing the File closes f.
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
