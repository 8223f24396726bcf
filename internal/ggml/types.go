// Package ggml knows the quantised types of ggml, in which .gguf files and zTensor files
// hold weights: how large their blocks are, and the values of their elements.
package ggml

import "strings"

// A Type is how a tensor is stored: in blocks of that many elements, each of that many
// bytes. A row of a tensor is a whole number of blocks.
type Type struct {
	Number   uint32 // in .gguf files
	Name     string // as in ggml, such as "Q4_K"
	Elements int64
	Bytes    int64
	decode   func(y []float32, b []byte) // of one block
	encode   func(b []byte, x []float32) error
}

// Number returns the quantised type of that number in .gguf files. It is false for plain
// elements, for types that ggml has withdrawn, and for Q8_1 (9), which no file has and
// whose size ggml and the gguf package disagree about.
func Number(n uint32) (Type, bool) {
	if n >= uint32(len(types)) || types[n].Name == "" {
		return Type{}, false
	}
	return types[n], true
}

// Named returns the quantised type of that name, in upper or lower case.
func Named(name string) (Type, bool) {
	for _, t := range types {
		if name != "" && strings.EqualFold(t.Name, name) {
			return t, true
		}
	}
	return Type{}, false
}

// OfScheme returns the type of a tensor by its scheme and the role of its one part:
// as in .gguf files, such as Q4_K and blocks, or of zTensor 2, such as gguf.q4_k/1
// and data.
func OfScheme(scheme, role string) (Type, bool) {
	name, want := scheme, "blocks"
	if s, ok := strings.CutPrefix(name, "gguf."); ok {
		if name, ok = strings.CutSuffix(s, "/1"); !ok {
			return Type{}, false
		}
		want = "data"
	}
	t, ok := Named(name)
	return t, ok && role == want
}

// Decode decodes the blocks of src. dst has as many elements as they hold. The values
// are bit for bit as in ggml and in the gguf package, apart from the payload of NaN.
func (t Type) Decode(dst []float32, src []byte) {
	n, size := int(t.Elements), int(t.Bytes)
	for len(src) >= size && len(dst) >= n {
		t.decode(dst[:n:n], src[:size:size])
		dst, src = dst[n:], src[size:]
	}
}

var types = [...]Type{
	2:  {2, "Q4_0", 32, 18, q4_0, encodeQ4_0},
	3:  {3, "Q4_1", 32, 20, q4_1, encodeQ4_1},
	6:  {6, "Q5_0", 32, 22, q5_0, encodeQ5_0},
	7:  {7, "Q5_1", 32, 24, q5_1, encodeQ5_1},
	8:  {8, "Q8_0", 32, 34, q8_0, encodeQ8_0},
	10: {10, "Q2_K", 256, 84, q2K, nil},
	11: {11, "Q3_K", 256, 110, q3K, nil},
	12: {12, "Q4_K", 256, 144, q4K, nil},
	13: {13, "Q5_K", 256, 176, q5K, nil},
	14: {14, "Q6_K", 256, 210, q6K, nil},
	15: {15, "Q8_K", 256, 292, q8K, nil},
	16: {16, "IQ2_XXS", 256, 66, iq2XXS, nil},
	17: {17, "IQ2_XS", 256, 74, iq2XS, nil},
	18: {18, "IQ3_XXS", 256, 98, iq3XXS, nil},
	19: {19, "IQ1_S", 256, 50, iq1S, nil},
	20: {20, "IQ4_NL", 32, 18, iq4NL, nil},
	21: {21, "IQ3_S", 256, 110, iq3S, nil},
	22: {22, "IQ2_S", 256, 82, iq2S, nil},
	23: {23, "IQ4_XS", 256, 136, iq4XS, nil},
	29: {29, "IQ1_M", 256, 56, iq1M, nil},
	34: {34, "TQ1_0", 256, 54, tq1_0, encodeTQ1_0},
	35: {35, "TQ2_0", 256, 66, tq2_0, encodeTQ2_0},
	39: {39, "MXFP4", 32, 17, mxfp4, encodeMXFP4},
	40: {40, "NVFP4", 64, 36, nvfp4, nil},
	41: {41, "Q1_0", 128, 18, q1_0, nil},
	42: {42, "Q2_0", 64, 18, q2_0, nil},
	// Of PrismML's llama.cpp, which wrote it under number 42 before ggml had Q2_0.
	142: {142, "PQ2_0", 128, 34, q2_0, nil},
}
