package gguf

import "github.com/tensorfile/tensorfile/tensor"

// A ggmlType is how the elements of a tensor are stored: in blocks of that many
// elements, each of that many bytes.
type ggmlType struct {
	name     string
	elements int64
	bytes    int64
	d        tensor.DType // Unknown for quantised blocks
}

// typeOf returns the type of that number; a name of "" is unknown or withdrawn.
func typeOf(n uint32) ggmlType {
	if n >= uint32(len(ggmlTypes)) {
		return ggmlType{}
	}
	return ggmlTypes[n]
}

// Block returns how many elements a block of that type has, such as "Q4_K", and in
// how many bytes; false for a type that is not known, or not of blocks.
func Block(name string) (elements, bytes int64, ok bool) {
	for _, t := range ggmlTypes {
		if t.name == name && name != "" && t.d == tensor.Unknown {
			return t.elements, t.bytes, true
		}
	}
	return 0, 0, false
}

// ggmlTypes is indexed by the number in the file. The holes are types that ggml
// has withdrawn, and Q8_1 (9), which no file holds and whose size ggml and the
// gguf package disagree about.
var ggmlTypes = [...]ggmlType{
	0:  {"F32", 1, 4, tensor.F32},
	1:  {"F16", 1, 2, tensor.F16},
	2:  {"Q4_0", 32, 18, 0},
	3:  {"Q4_1", 32, 20, 0},
	6:  {"Q5_0", 32, 22, 0},
	7:  {"Q5_1", 32, 24, 0},
	8:  {"Q8_0", 32, 34, 0},
	10: {"Q2_K", 256, 84, 0},
	11: {"Q3_K", 256, 110, 0},
	12: {"Q4_K", 256, 144, 0},
	13: {"Q5_K", 256, 176, 0},
	14: {"Q6_K", 256, 210, 0},
	15: {"Q8_K", 256, 292, 0},
	16: {"IQ2_XXS", 256, 66, 0},
	17: {"IQ2_XS", 256, 74, 0},
	18: {"IQ3_XXS", 256, 98, 0},
	19: {"IQ1_S", 256, 50, 0},
	20: {"IQ4_NL", 32, 18, 0},
	21: {"IQ3_S", 256, 110, 0},
	22: {"IQ2_S", 256, 82, 0},
	23: {"IQ4_XS", 256, 136, 0},
	24: {"I8", 1, 1, tensor.I8},
	25: {"I16", 1, 2, tensor.I16},
	26: {"I32", 1, 4, tensor.I32},
	27: {"I64", 1, 8, tensor.I64},
	28: {"F64", 1, 8, tensor.F64},
	29: {"IQ1_M", 256, 56, 0},
	30: {"BF16", 1, 2, tensor.BF16},
	34: {"TQ1_0", 256, 54, 0},
	35: {"TQ2_0", 256, 66, 0},
	39: {"MXFP4", 32, 17, 0},
	40: {"NVFP4", 64, 36, 0},
	41: {"Q1_0", 128, 18, 0},
}
