package convert

import (
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// scales are tensors by name, among which are those that give others a scale: the values
// of a quantised tensor are its elements multiplied by the scale. They are what package
// quant does not read.
type scales map[string]*tensor.Tensor

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
			return endOf(scale.Name)
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

// scaleRules are schemes of MLX without its configuration, integers of 8 bits, float4,
// quanto, ONNX Runtime, and torchao in pickles.
var scaleRules = []scaleRule{
	{"", "_scale", ofFloats},
	{"weight", "weight_scale", ofBytes},
	{"weight", "scales", ofWords},
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

// ofWords: several codes in each integer of 32 bits, with a row of scales for each row.
func ofWords(w, s *tensor.Tensor) bool {
	rank := len(w.Shape)
	return w.DType == tensor.U32 && rank > 1 && len(s.Shape) == rank && isScale(s) &&
		s.Shape[:rank-1].Equal(w.Shape[:rank-1])
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
