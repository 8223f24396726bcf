package safetensors

import (
	"context"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Load returns all tensors of a file, or of an index and its shards, by name, in memory
// that the caller owns. It fails as [Open] does, or if reading fails.
func Load(name string) (map[string]*tensor.Tensor, error) {
	return format.Load(Open(name, nil))
}

// Save writes tensors under the names that are the keys of m, in the default order of
// [WriterOptions]. The file appears whole or not at all, and replaces a file of that
// name. It fails as Add of a [Writer] does.
func Save(name string, m map[string]*tensor.Tensor) error {
	return WriteFile(context.Background(), name, tensor.Sorted(m), nil)
}
