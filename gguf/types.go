package gguf

import (
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// A storage is how the elements of a tensor are stored: in blocks of that many
// elements, each of that many bytes.
type storage struct {
	name     string
	elements int64
	bytes    int64
	dtype    tensor.DType // Unknown for quantised blocks
}

// storageOf returns what the number of a type stands for; a name of "" is unknown or
// withdrawn.
func storageOf(n uint32) storage {
	if t, ok := ggml.Number(n); ok {
		return storage{t.Name, t.Elements, t.Bytes, tensor.Unknown}
	}
	return plain[n]
}

// plain are the types that are dtypes, by their numbers.
var plain = map[uint32]storage{
	0:  {"F32", 1, 4, tensor.F32},
	1:  {"F16", 1, 2, tensor.F16},
	24: {"I8", 1, 1, tensor.I8},
	25: {"I16", 1, 2, tensor.I16},
	26: {"I32", 1, 4, tensor.I32},
	27: {"I64", 1, 8, tensor.I64},
	28: {"F64", 1, 8, tensor.F64},
	30: {"BF16", 1, 2, tensor.BF16},
}
