package quant_test

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// The helpers of tests in several files. helpers_samples_test.go has the samples of
// all layouts.

// A model is a set of tensors in memory.
type model struct {
	tensors    []*tensor.Tensor
	attributes map[string]string
}

// Tensors yields the tensors.
func (m *model) Tensors() iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		for _, t := range m.tensors {
			if !yield(t) {
				return
			}
		}
	}
}

// Attributes yields the attributes, in any order.
func (m *model) Attributes() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for k, v := range m.attributes {
			if !yield(k, v) {
				return
			}
		}
	}
}

// with adds an attribute.
func (m *model) with(key, value string) *model {
	if m.attributes == nil {
		m.attributes = map[string]string{}
	}
	m.attributes[key] = value
	return m
}

// of makes a model of tensors.
func of(ts ...*tensor.Tensor) *model { return &model{tensors: ts} }

// random makes a tensor of random bytes, which are not NaN for FP8.
func random(r *rand.Rand, name string, d tensor.DType, shape ...int64) *tensor.Tensor {
	n, _ := tensor.Shape(shape).Elements()
	size, _ := d.Bytes(n)
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
		if d == tensor.F8E4M3FN && b[i]&0x7f == 0x7f {
			b[i] = 0
		}
	}
	switch d {
	case tensor.F32:
		v := make([]float32, n)
		for i := range v {
			v[i] = r.Float32()*0.01 + 0.001
		}
		t := tensor.New(name, shape, v)
		t.Shape = shape
		return t
	case tensor.BF16, tensor.F16:
		t, _ := tensor.As(random(r, name, tensor.F32, shape...), d)
		b, _ = t.Data.ReadAll()
	}
	return &tensor.Tensor{Name: name, DType: d, Shape: shape, Data: tensor.BlobOf(b)}
}

// list makes tensors of lines "name dtype dim dim …".
func list(t testing.TB, lines ...string) []*tensor.Tensor {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	var all []*tensor.Tensor
	for _, line := range lines {
		words := strings.Fields(line)
		d, err := tensor.ParseDType(words[1])
		if err != nil {
			t.Fatal(err)
		}
		var shape tensor.Shape
		for _, w := range words[2:] {
			n := int64(0)
			for _, c := range w {
				n = n*10 + int64(c-'0')
			}
			shape = append(shape, n)
		}
		all = append(all, random(r, words[0], d, shape...))
	}
	return all
}

// text makes a tensor of the bytes of a text.
func text(name, s string) *tensor.Tensor {
	return &tensor.Tensor{Name: name, DType: tensor.U8, Shape: tensor.Shape{int64(len(s))},
		Data: tensor.BlobOf([]byte(s))}
}

// f8 makes a tensor of codes of E4M3.
func f8(name string, shape tensor.Shape, codes ...byte) *tensor.Tensor {
	return &tensor.Tensor{Name: name, DType: tensor.F8E4M3FN, Shape: shape,
		Data: tensor.BlobOf(codes)}
}

// config parses a configuration; nil if the text is empty.
func config(t testing.TB, text string) *quant.Config {
	t.Helper()
	if text == "" {
		return nil
	}
	c, err := quant.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fp8Config, ctConfig and wordConfig are configurations of FP8 in blocks, of
// compressed-tensors, and of words of GPTQ and AWQ, with verbs for their numbers.
const (
	fp8Config  = `{"quantization_config":{"quant_method":"fp8","weight_block_size":[%d,%d]}}`
	ctConfig   = `{"quantization_config":{"quant_method":"compressed-tensors","format":%q,"config_groups":{"g":{"targets":["Linear"],"weights":%s}}}}`
	wordConfig = `{"quantization_config":{"quant_method":%q,"bits":%d,"group_size":%d,"checkpoint_format":"gptq%s"}}`
)

// blockConfig describes FP8 in blocks of 128 rows and columns.
const blockConfig = `{"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`

// one returns the first weight of a set that is quantised.
func one(t testing.TB, set *quant.Set) *quant.Weight {
	t.Helper()
	for _, w := range set.Weights {
		if w.Scheme != "" {
			return w
		}
	}
	t.Fatal("no weight is quantised")
	return nil
}

// refused checks that a weight has no values, and why.
func refused(t testing.TB, set *quant.Set, code quant.Code, words ...string) {
	t.Helper()
	w := one(t, set)
	v, err := tensor.Convert[float32](w.Tensor)
	if err == nil {
		t.Errorf("%d values of %s", len(v), w.Scheme)
	}
	for _, f := range set.Findings {
		if f.Code == code {
			for _, word := range words {
				if !strings.Contains(f.Err.Error(), word) {
					t.Errorf("the finding does not say %s: %v", word, f.Err)
				}
			}
			return
		}
	}
	t.Errorf("findings %v, not %s", set.Findings, code)
}

// floats returns the values of a weight that has some.
func floats(t testing.TB, w *quant.Weight) []float32 {
	t.Helper()
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	v, err := tensor.Convert[float32](w.Tensor)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// references returns the directory of the files that reference packages made.
func references() string {
	if dir := os.Getenv("TENSORFILE_QUANT"); dir != "" {
		return dir
	}
	return filepath.Join("..", "testdata", "quant")
}

// A sample is a model with one quantised weight, and its elements computed one at a time
// from the bytes of the parts, by the formulas of docs/quantized.md.
type sample struct {
	name, scheme, config string
	attributes           map[string]string
	weight               string
	shape                tensor.Shape
	tensors              []*tensor.Tensor
	at                   func(r, c int64) float32 // of the matrix, its batches one below another
}

// find returns the quantised weight of a sample.
func (s *sample) find(t testing.TB) *quant.Weight {
	t.Helper()
	set := quant.Find(&model{s.tensors, s.attributes}, config(t, s.config))
	for _, f := range set.Findings {
		t.Fatalf("%s %v: %v", s.name, s.shape, f.Err)
	}
	if len(set.Weights) != 1 {
		t.Fatalf("%s: %d weights", s.name, len(set.Weights))
	}
	w := set.Weights[0]
	if w.Name != s.weight || w.Scheme != s.scheme || !w.Tensor.Shape.Equal(s.shape) ||
		w.Err != nil {
		t.Fatalf("%s: %s, %s of %v, %v; not %s, %s of %v", s.name, w.Name, w.Scheme,
			w.Tensor.Shape,
			w.Err, s.weight, s.scheme, s.shape)
	}
	return w
}

// values returns all elements, computed plainly.
func (s *sample) values() []float32 {
	n, _ := s.shape.Elements()
	cols := s.shape[len(s.shape)-1]
	all := make([]float32, n)
	for i := range all {
		all[i] = s.at(int64(i)/cols, int64(i)%cols)
	}
	return all
}

// bytesOf returns the bytes of a tensor in memory.
func bytesOf(t *tensor.Tensor) []byte {
	b, _ := t.Data.Memory()
	return b
}

// element returns element i of a tensor, plainly.
func element(t *tensor.Tensor, i int64) float32 {
	b := bytesOf(t)
	switch t.DType {
	case tensor.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	case tensor.BF16:
		return tensor.BFloat16(binary.LittleEndian.Uint16(b[2*i:])).Float32()
	case tensor.F16:
		return tensor.Float16(binary.LittleEndian.Uint16(b[2*i:])).Float32()
	case tensor.F8E4M3FN:
		return tensor.Float8E4M3FN(b[i]).Float32()
	case tensor.F8E5M2:
		return tensor.Float8E5M2(b[i]).Float32()
	case tensor.F8E8M0FNU, tensor.U8:
		return float32(math.Ldexp(1, int(b[i])-127))
	case tensor.I8:
		return float32(int8(b[i]))
	}
	panic(t.DType)
}

// field returns n bits from bit i on of a stream, the lowest first.
func field(b []byte, i, n int64) int64 {
	v := int64(0)
	for k := range n {
		v |= int64(b[(i+k)/8]>>((i+k)%8)&1) << k
	}
	return v
}

// fp4 is the value of a code of E2M1.
func fp4(code int64) float32 {
	e, m := code>>1&3, float64(code&1)
	v := m / 2
	if e > 0 {
		v = math.Ldexp(1+m/2, int(e-1))
	}
	if code&8 != 0 {
		v = -v
	}
	return float32(v)
}

// nf4Values are the values of the 16 codes of NF4.
var nf4Values = []float32{-1, -.6961928, -.52507305, -.3949175, -.28444138, -.18477343,
	-.091050036, 0,
	.0795803, .1609302, .24611230, .33791524, .44070983, .562617, .72295684, 1}

// times multiplies and rounds, so that no compiler joins it with an addition.
func times(x, y float32) float32 { return float32(x * y) }

// exponents makes a tensor of E8M0 without NaN, near 1.
func exponents(r *rand.Rand, name string, d tensor.DType, shape ...int64) *tensor.Tensor {
	t := random(r, name, d, shape...)
	for i := range bytesOf(t) {
		bytesOf(t)[i] = byte(107 + r.IntN(40))
	}
	return t
}

// same reports whether two elements have the same bits or are both NaN.
func same(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

// compare requires the same elements.
func compare(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, not %d", what, len(got), len(want))
	}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("%s: element %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}

// largeWeights makes a weight of n rows and n columns of each scheme.
func largeWeights(n int64) []struct {
	name, config string
	tensors      []*tensor.Tensor
} {
	r := rand.New(rand.NewPCG(1, 2))
	type w = struct {
		name, config string
		tensors      []*tensor.Tensor
	}
	ct := `{"quantization_config":{"quant_method":"compressed-tensors","format":"%s","config_groups":{"g":{` +
		`"targets":["Linear"],"weights":{"num_bits":%d,"type":"int","strategy":"group","group_size":%d,"symmetric":%v}}}}}`
	shape := tensor.New("m.weight_shape", tensor.Shape{2}, []int64{n, n})
	state := fmt.Sprintf(`{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[%d,%d]}`, n, n)
	return []w{
		{"fp8-block",
			`{"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`,
			[]*tensor.Tensor{random(r, "m.weight", tensor.F8E4M3FN, n, n),
				random(r, "m.weight_scale_inv", tensor.F32, n/128, n/128)}},
		{"nvfp4", "", []*tensor.Tensor{random(r, "m.weight", tensor.U8, n, n/2),
			random(r, "m.weight_scale", tensor.F8E4M3FN, n, n/16),
			random(r, "m.weight_scale_2", tensor.F32)}},
		{"mxfp4-experts", "", []*tensor.Tensor{random(r, "x_blocks", tensor.U8, 1, n, n/32, 16),
			random(r, "x_scales", tensor.U8, 1, n, n/32)}},
		{"int4-group", fmt.Sprintf(ct, "pack-quantized", 4, 128, true), []*tensor.Tensor{shape,
			random(r, "m.weight_packed", tensor.I32, n, n/8),
			random(r, "m.weight_scale", tensor.BF16, n, n/128)}},
		{"int3-group", fmt.Sprintf(ct, "pack-quantized", 3, 128, true), []*tensor.Tensor{shape,
			random(r, "m.weight_packed", tensor.I32, n, n*3/32),
			random(r, "m.weight_scale", tensor.BF16, n, n/128)}},
		{"int4-asymmetric", fmt.Sprintf(ct, "pack-quantized", 4, 128, false),
			[]*tensor.Tensor{shape,
				random(r, "m.weight_packed", tensor.I32, n, n/8),
				random(r, "m.weight_scale", tensor.BF16, n, n/128),
				random(r, "m.weight_zero_point", tensor.I32, n/8, n/128)}},
		{"gptq", `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`,
			[]*tensor.Tensor{random(r, "m.qweight", tensor.I32, n/8, n),
				random(r, "m.qzeros", tensor.I32, n/128, n/8),
				random(r, "m.scales", tensor.F16, n/128, n)}},
		{"awq", `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":128}}`,
			[]*tensor.Tensor{random(r, "m.qweight", tensor.I32, n, n/8),
				random(r, "m.qzeros", tensor.I32, n/128, n/8),
				random(r, "m.scales", tensor.F16, n/128, n)}},
		{"mlx-affine", `{"quantization":{"bits":4,"group_size":64}}`,
			[]*tensor.Tensor{random(r, "m.weight", tensor.U32, n, n/8),
				random(r, "m.scales", tensor.BF16, n, n/64), random(r, "m.biases", tensor.BF16,
					n, n/64)}},
		{"bnb-nf4", "", []*tensor.Tensor{random(r, "m.weight", tensor.U8, n*n/2, 1),
			random(r, "m.weight.absmax", tensor.F32, n*n/64),
			tensor.New("m.weight.quant_map", tensor.Shape{16}, nf4Values),
			tensor.New("m.weight.quant_state.bitsandbytes__nf4", tensor.Shape{int64(len(state))},
				[]byte(state))}},
		{"bnb-int8", "", []*tensor.Tensor{random(r, "m.weight", tensor.I8, n, n),
			random(r, "m.SCB", tensor.F32, n)}},
	}
}
