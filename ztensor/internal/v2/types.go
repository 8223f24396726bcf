package v2

import (
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// storageTypeOf returns one of the twelve storage types; Unknown for any other word.
func storageTypeOf(word []byte) tensor.DType {
	if d := core.StorageType(string(word), true); d != tensor.Bool {
		return d
	}
	return tensor.Unknown
}

// typeWords returns the storage type of d, and its logical type if it needs one; "" where it has none.
func typeWords(d tensor.DType) (dtype, logical string) {
	l := core.LogicalOf(d, true)
	return core.StorageWord(l.Storage, true), l.Name
}
