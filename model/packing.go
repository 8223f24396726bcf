package model

import (
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A packing is how a quantisation method stores parameters of few bits in elements of
// more.
type packing struct {
	packed string       // suffix of the name that has the parameters
	proof  string       // suffix of a tensor without which the name means nothing
	bits   int          // of a parameter; 0: as config.json says
	dtype  tensor.DType // of the elements; Unknown: any
	aux    []string     // suffixes of what describes the packed ones, such as scales
}

// packings lists those that are known, by the names of their tensors.
var packings = []packing{
	// GPTQ, AWQ
	{".qweight", ".scales", 0, tensor.Unknown, []string{".scales", ".qzeros", ".g_idx"}},
	// compressed-tensors
	{".weight_packed", ".weight_scale", 4, tensor.U8,
		[]string{".weight_scale", ".weight_global_scale", ".input_global_scale"}},
	{".weight_packed", ".weight_scale", 0, tensor.I32,
		[]string{".weight_scale", ".weight_zero_point", ".weight_g_idx", ".weight_shape"}},
	// MXFP4
	{"_blocks", "_scales", 4, tensor.U8, []string{"_scales"}},
	// bitsandbytes
	{".weight", ".weight.quant_state.bitsandbytes__nf4", 4, tensor.U8, bitsandbytes("nf4")},
	{".weight", ".weight.quant_state.bitsandbytes__fp4", 4, tensor.U8, bitsandbytes("fp4")},
	{".weight", ".SCB", 8, tensor.I8, []string{".SCB", ".weight_format"}},
	// MLX
	{".weight", ".scales", 0, tensor.U32, []string{".scales", ".biases"}},
	// FP8
	{".weight", ".weight_scale_inv", 8, tensor.F8E4M3FN, []string{".weight_scale_inv"}},
	{".weight", ".weight_scale", 8, tensor.F8E4M3FN, []string{".weight_scale", ".input_scale"}},
}

func bitsandbytes(kind string) []string {
	return []string{".weight.absmax", ".weight.quant_map", ".weight.nested_absmax",
		".weight.nested_quant_map", ".weight.quant_state.bitsandbytes__" + kind}
}

// logical counts the parameters of a model: packed ones as many as they are, and none for
// what only describes them. Without a packing that is known, elements are parameters.
func (c *Config) logical(f *tensorfile.File) (n int64) {
	packed := map[string]int64{} // parameters, by tensor; 0 for what describes others
	for t := range f.Tensors() {
		i := slices.IndexFunc(packings, func(p packing) bool {
			base, ok := strings.CutSuffix(t.Name, p.packed)
			return ok && p.bitsOr(c) > 0 && (p.dtype == tensor.Unknown || p.dtype == t.DType) &&
				f.Tensor(base+p.proof) != nil
		})
		if i < 0 {
			continue
		}
		elements, _ := t.Shape.Elements()
		packed[t.Name] = elements * int64(t.DType.Bits()) / packings[i].bitsOr(c)
		for _, suffix := range packings[i].aux {
			packed[strings.TrimSuffix(t.Name, packings[i].packed)+suffix] = 0
		}
	}
	for t := range f.Tensors() {
		elements, ok := packed[t.Name]
		if !ok {
			elements, _ = t.Shape.Elements()
		}
		n += elements
	}
	return n
}

// bitsOr returns the bits of a parameter, 0 where nothing says them.
func (p *packing) bitsOr(c *Config) int64 {
	if p.bits == 0 && c != nil {
		return c.quantBits
	}
	return int64(p.bits)
}
