package format

import (
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// BlocksOf returns the type of a tensor of quantised blocks of ggml, as a .gguf or a .zt
// file has them; false for other tensors.
func BlocksOf(t *tensor.Tensor) (ggml.Type, bool) {
	if t.External || t.Dense() || len(t.Parts) != 1 {
		return ggml.Type{}, false
	}
	return ggml.OfScheme(t.Scheme, t.Parts[0].Role)
}
