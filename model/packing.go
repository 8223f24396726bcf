package model

import (
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A packing is how a quantisation method stores parameters of few bits in elements of more.
type packing struct {
	packed string       // suffix of the name that has the parameters
	proof  string       // suffix of a tensor without which the name means nothing
	bits   int          // of a parameter; 0: as config.json says
	dtype  tensor.DType // of the elements; Unknown: any
	aux    []string     // suffixes of what describes the packed ones, such as scales
}

// packings lists those that are known, by the names of their tensors.
func packings() []packing {
	return []packing{
		{".qweight", ".scales", 0, tensor.Unknown, []string{".scales", ".qzeros", ".g_idx"}}, // GPTQ, AWQ
		{".weight_packed", ".weight_scale", 4, tensor.U8, []string{".weight_scale", ".weight_global_scale", ".input_global_scale"}},
		{".weight_packed", ".weight_scale", 0, tensor.I32, []string{".weight_scale", ".weight_zero_point", ".weight_g_idx", ".weight_shape"}},
		{"_blocks", "_scales", 4, tensor.U8, []string{"_scales"}}, // MXFP4
		{".weight", ".weight.quant_state.bitsandbytes__nf4", 4, tensor.U8, bitsandbytes("nf4")},
		{".weight", ".weight.quant_state.bitsandbytes__fp4", 4, tensor.U8, bitsandbytes("fp4")},
		{".weight", ".scales", 0, tensor.U32, []string{".scales", ".biases"}}, // MLX
		{".weight", ".weight_scale_inv", 8, tensor.F8E4M3FN, []string{".weight_scale_inv"}},
		{".weight", ".weight_scale", 8, tensor.F8E4M3FN, []string{".weight_scale", ".input_scale"}},
		{".weight", ".SCB", 8, tensor.I8, []string{".SCB", ".weight_format"}},
	}
}

func bitsandbytes(kind string) []string {
	return []string{".weight.absmax", ".weight.quant_map", ".weight.nested_absmax",
		".weight.nested_quant_map", ".weight.quant_state.bitsandbytes__" + kind}
}

// logical counts the parameters of a model: packed ones as many as they are, and none for
// what only describes them. Without a packing that is known, elements are parameters.
func (c *Config) logical(f *tensorfile.File) (n int64) {
	aux := map[string]bool{}
	packed := map[string]int64{} // parameters
	for t := range f.Tensors() {
		for _, p := range packings() {
			base, ok := strings.CutSuffix(t.Name, p.packed)
			bits := int64(p.bits)
			if bits == 0 {
				bits = c.bits()
			}
			if !ok || bits <= 0 || p.dtype != tensor.Unknown && t.DType != p.dtype || f.Tensor(base+p.proof) == nil {
				continue
			}
			elements, _ := t.Shape.Elements()
			packed[t.Name] = elements * int64(t.DType.Bits()) / bits
			for _, suffix := range p.aux {
				aux[base+suffix] = true
			}
			break
		}
	}
	for t := range f.Tensors() {
		elements, _ := t.Shape.Elements()
		if p, ok := packed[t.Name]; ok {
			elements = p
		}
		if !aux[t.Name] {
			n += elements
		}
	}
	return n
}

func (c *Config) bits() int64 {
	if c == nil {
		return 0
	}
	return c.quantBits
}
