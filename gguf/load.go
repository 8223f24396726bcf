package gguf

import (
	"context"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Load reads all tensors of a file into memory of their own, by name.
func Load(name string) (map[string]*tensor.Tensor, error) {
	return format.Load(Open(name, nil))
}

// Save writes tensors under the names that are the keys of m, sorted. The file appears
// whole or not at all.
func Save(name string, m map[string]*tensor.Tensor) error {
	return WriteFile(context.Background(), name, tensor.Sorted(m), nil)
}
