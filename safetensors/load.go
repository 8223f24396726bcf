package safetensors

import (
	"context"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Load reads all tensors of a file, or of an index and its shards, into memory of
// their own. They are found by their names.
func Load(name string) (map[string]*tensor.Tensor, error) {
	return format.Load(Open(name, nil))
}

// Save writes tensors under the names that are the keys of m, in the order that
// the reference uses. The file appears whole or not at all.
func Save(name string, m map[string]*tensor.Tensor) error {
	return WriteFile(context.Background(), name, tensor.Sorted(m), nil)
}
