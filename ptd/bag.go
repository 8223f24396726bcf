package ptd

import (
	"context"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// Save writes a file of the tensors of a map, each under its key, sorted; the Name of a
// tensor does not matter. The file appears whole, or not at all.
func Save(name string, tensors map[string]*tensor.Tensor, opts *WriterOptions) error {
	return WriteFile(context.Background(), name, tensor.Sorted(tensors), opts)
}

// Load reads all tensors of a file into memory that is the caller's, by name. Blobs are
// left out.
func Load(name string, opts *ReaderOptions) (map[string]*tensor.Tensor, error) {
	r, err := Open(name, opts)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := make(map[string]*tensor.Tensor, r.Len())
	for t := range r.Tensors() {
		data, err := t.Data.ReadAll()
		if err != nil {
			return nil, err
		}
		out[strings.Clone(t.Name)] = &tensor.Tensor{Name: strings.Clone(t.Name), DType: t.DType,
			Shape: slices.Clone(t.Shape), Order: slices.Clone(t.Order), Data: tensor.BlobOf(data)}
	}
	return out, nil
}
