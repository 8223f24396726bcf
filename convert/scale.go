package convert

import (
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// loseScale names the loss of a tensor whose elements become those of another dtype, or
// blocks, while they mean nothing without the scale in another tensor.
func (p *Plan) loseScale(it *item, from, to string) {
	if p.scales == nil {
		p.scales = scalesOf(p.files)
	}
	if where := p.scales.of(&it.t); where != "" {
		p.lose(LossScale, fieldOf(it.src), "%s becomes %s, and its scale, %s, is not applied",
			from, to, where)
	}
}

// scales are tensors by name, among which are those that give others a scale: the values
// of a quantised tensor are its elements multiplied by the scale.
type scales map[string]*tensor.Tensor

func scalesOf(files []*tensorfile.File) scales {
	all := scales{}
	for _, f := range files {
		for t := range f.Tensors() {
			if _, taken := all[t.Name]; !taken {
				all[t.Name] = t
			}
		}
	}
	return all
}

// of returns the end of the name of the tensor that has the scale of t, such as
// *.weight_scale; "" where t has none.
func (s scales) of(t *tensor.Tensor) string {
	switch t.DType {
	case tensor.QI8, tensor.QU8, tensor.QI32, tensor.QU4x2, tensor.QU2x4:
		return "of the quantizer"
	}
	for _, r := range scaleRules {
		base, ok := strings.CutSuffix(t.Name, r.weight)
		if !ok {
			continue
		}
		if scale := s[base+r.scale]; scale != nil && scale.Dense() && r.fits(t, scale) {
			if dot := strings.LastIndexByte(scale.Name, '.'); dot > 0 {
				return "*" + scale.Name[dot:] // so that losses of all layers have one reason
			}
			return scale.Name
		}
	}
	return ""
}

// A scaleRule is how names, dtypes and shapes show that one tensor is quantised and
// another has its scale. Names alone show nothing.
type scaleRule struct {
	weight, scale string // how the names end, after what they share
	fits          func(weight, scale *tensor.Tensor) bool
}

// scaleRules are the schemes of fine-grained FP8, compressed-tensors, ModelOpt, ComfyUI,
// Mistral, gpt-oss, DeepSeek, GPTQ, AWQ, MLX, bitsandbytes, torchao, quanto, ONNX Runtime
// and llama.cpp.
var scaleRules = []scaleRule{
	{"", "_scale_inv", ofFloats},
	{"", "_scale", ofFloats},
	{"weight", "scale_weight", ofFloats},
	{"weight", "qscale_weight", ofFloats},
	{"weight", "weight_scale", ofBytes},
	{"weight_packed", "weight_scale", ofCodes},
	{".weight", ".scale", ofBlocks},
	{"weight", "SCB", ofRows},
	{"weight", "scales", ofWords},
	{"qweight", "scales", ofWords},
	{"_blocks", "_scales", func(w, s *tensor.Tensor) bool {
		rank := len(w.Shape)
		return w.DType == tensor.U8 && isScale(s) && rank > 0 && s.Shape.Equal(w.Shape[:rank-1])
	}},
	{"", ".absmax", func(w, s *tensor.Tensor) bool { return w.DType == tensor.U8 && isScale(s) }},
	{"", ".quant_map", func(_, s *tensor.Tensor) bool { // codes in the bytes of any dtype
		return s.DType == tensor.F32 && s.Shape.Equal(tensor.Shape{16})
	}},
	{"qdata", "scale", ofCodes},
	{"_data", "_scale", ofCodes},
	{"_quantized", "_scale", ofBytes},
}

// isScale reports a tensor that may be scales: floats, or exponents as bytes.
func isScale(s *tensor.Tensor) bool { return s.DType.IsFloat() || s.DType == tensor.U8 }

// isExponents reports scales that have no other use.
func isExponents(s *tensor.Tensor) bool {
	return s.DType == tensor.F8E8M0FNU || s.DType == tensor.F8E4M3FN
}

// isNarrow reports floats of at most 8 bits that are numbers.
func isNarrow(w *tensor.Tensor) bool {
	return w.DType.IsFloat() && w.DType.Bits() <= 8 && w.DType != tensor.F8E8M0FNU
}

// ofFloats: narrow floats, and bytes of two that have 4 bits each.
func ofFloats(w, s *tensor.Tensor) bool {
	return isNarrow(w) && isScale(s) || w.DType == tensor.U8 && isExponents(s)
}

// ofBytes: integers of 8 bits, with one scale for all or scales of each row.
func ofBytes(w, s *tensor.Tensor) bool {
	return (w.DType == tensor.I8 || w.DType == tensor.U8) && isScale(s) &&
		(isExponents(s) || isOne(s) || sameRows(w, s))
}

// ofCodes: codes of any width, which names that no other tensor has show.
func ofCodes(w, s *tensor.Tensor) bool {
	isCodes := w.DType == tensor.I8 || w.DType == tensor.U8 || w.DType == tensor.I32
	return (isCodes || isNarrow(w)) && isScale(s)
}

// ofBlocks: blocks of ggml with a scale for all, or one of each expert; narrow floats and
// packed ones, with a grid of scales. A network may have layers whose weight and scale
// are both learned: those are no such dtypes.
func ofBlocks(w, s *tensor.Tensor) bool {
	if _, ok := blocksOf(w); ok {
		return s.DType == tensor.F32 && (isOne(s) || len(w.Shape) > 2 && len(s.Shape) == 1 &&
			s.Shape[0] == w.Shape[0])
	}
	isGrid := len(s.Shape) == len(w.Shape) && len(s.Shape) > 1 &&
		!slices.ContainsFunc(s.Shape, func(d int64) bool { return d < 1 })
	for i := range s.Shape {
		isGrid = isGrid && s.Shape[i] <= w.Shape[i]
	}
	return isNarrow(w) && isScale(s) && (isOne(s) || isGrid) ||
		w.DType == tensor.I8 && s.DType == tensor.F8E8M0FNU && isGrid
}

// ofRows: integers of 8 bits with one float32 for each row.
func ofRows(w, s *tensor.Tensor) bool {
	return w.DType == tensor.I8 && s.DType == tensor.F32 && len(s.Shape) == 1 && sameRows(w, s)
}

// ofWords: several codes in each integer of 32 bits, with a row of scales for each row
// or, of signed words, for each group of them.
func ofWords(w, s *tensor.Tensor) bool {
	rank := len(w.Shape)
	if rank < 2 || len(s.Shape) != rank || !isScale(s) {
		return false
	}
	return w.DType == tensor.U32 && s.Shape[:rank-1].Equal(w.Shape[:rank-1]) ||
		w.DType == tensor.I32 && rank == 2
}

func isOne(s *tensor.Tensor) bool {
	n, ok := s.Shape.Elements()
	return ok && n == 1
}

// sameRows reports whether there are scales of each row of w.
func sameRows(w, s *tensor.Tensor) bool {
	return len(s.Shape) > 0 && len(s.Shape) <= max(len(w.Shape), 1) && len(w.Shape) > 0 &&
		s.Shape[0] == w.Shape[0]
}
