package quant_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// Each test of this file is named after what loaders have done wrong.

// transformers hands on the codes of a weight whose scale is missing.
func TestMissingScaleIsNeverAPlainCast(t *testing.T) {
	refused(t, quant.Find(of(list(t, "a.weight F8E4M3FN 4 4")...), config(t, blockConfig)),
		quant.MissingScale, `"a.weight"`, "a.weight_scale")
	refused(t, quant.Find(of(list(t, "a.weight F8E4M3FN 4 4")...),
		config(t, `{"quantization_config":{"quant_method":"modelopt","quant_algo":"FP8"}}`)),
		quant.MissingScale)
	refused(t, quant.Find(of(list(t, "a.weight U8 4 8")...),
		config(t, `{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}}`)),
		quant.MissingScale)
	refused(t, quant.Find(of(list(t, "scaled_fp8 F8E4M3FN 0", "a.weight F8E4M3FN 4 4")...), nil),
		quant.MissingScale)
}

// A shard lacks the scale that another weight of its kind has: vllm #57108.
func TestMissingScaleNextToOtherScalesIsAnError(t *testing.T) {
	set := quant.Find(of(list(t, "a.weight F8E4M3FN 4 4", "b.weight F8E4M3FN 4 4",
		"b.weight_scale F32 1")...), nil)
	if w := set.Weights[0]; w.Err == nil || w.Scheme != "fp8" {
		t.Errorf("%s: %v", w.Scheme, w.Err)
	}
	if len(set.Findings) != 1 || set.Findings[0].Code != quant.MissingScale {
		t.Error(set.Findings)
	}
}

// A weight of the same kind whose configuration is wrong shows the kind all the same.
func TestMissingScaleIsFoundNextToARefusedWeight(t *testing.T) {
	set := quant.Find(of(list(t, "a.weight_packed I32 2 4", "a.weight_shape I64 2",
		"b.weight_packed I32 2 4", "b.weight_scale F32 2 1", "b.weight_shape I64 2")...), nil)
	if len(set.Findings) != 2 || set.Findings[1].Code != quant.MissingScale ||
		set.Findings[1].Tensor != "a.weight" {
		t.Error(set.Findings)
	}
}

// The name of the scale that is missing is the one that the method has.
func TestMissingScaleHasTheNameOfItsMethod(t *testing.T) {
	for text, want := range map[string]string{blockConfig: `"a.weight_scale_inv"`,
		`{"expert_dtype":"fp4","quantization_config":{"quant_method":"fp8"}}`: `"a.scale"`,
		`{"quantization_config":{"quant_algo":"FP8"}}`:                        `"a.weight_scale"`,
	} {
		refused(t, quant.Find(of(list(t, "a.weight F8E4M3FN 4 4")...), config(t, text)),
			quant.MissingScale, want)
	}
	refused(t, quant.Find(of(list(t, "scaled_fp8 F32 2", "a.weight F8E4M3FN 4 4")...), nil),
		quant.MissingScale, `"a.scale_weight"`)
}

// In every storage dtype, a weight without its scale next to one that has it is an error.
func TestMissingScaleOfEveryStorageDTypeIsAnError(t *testing.T) {
	for name, lines := range map[string][]string{
		"nvfp4": {"a.weight U8 4 8", "b.weight U8 4 8", "b.weight_scale F8E4M3FN 4 1",
			"b.weight_scale_2 F32"},
		"packed": {"a.weight_packed U8 4 16", "b.weight_packed U8 4 16",
			"b.weight_scale U8 4 1"},
		"words": {"a.qweight I32 32 2", "a.scales F16 1 16", "b.qweight I32 32 2",
			"b.scales F16 1 16", "b.qzeros I32 1 2"},
		"experts": {"a_blocks U8 1 4 1 16", "b_blocks U8 1 4 1 16", "b_scales U8 1 4 1"},
		"int8":    {"a.weight I8 4 4", "b.weight I8 4 4", "b.SCB F32 4"},
		"v4":      {"a.weight I8 4 16", "b.weight I8 4 16", "b.scale F8E8M0FNU 4 1"},
	} {
		set := quant.Find(of(list(t, lines...)...), nil)
		if w := set.Weights[0]; w.Err == nil || len(set.Findings) != 1 ||
			set.Findings[0].Code != quant.MissingScale {
			t.Errorf("%s: %s has values: %v", name, w.Name, set.Findings)
		}
	}
}

// transformers takes blocks of shape divided by grid: 100 by 65 of 300 by 130.
func TestBlockSizeIsNotShapeOverGrid(t *testing.T) {
	q := list(t, "a.weight F8E4M3FN 300 130")[0]
	s := tensor.New("a.weight_scale_inv", tensor.Shape{3, 2}, []float32{1, 2, 3, 4, 5, 6})
	v := floats(t, one(t, quant.Find(of(q, s), config(t, blockConfig))))
	for _, at := range [][3]int64{{0, 127, 1}, {0, 128, 2}, {127, 0, 1}, {128, 0, 3}, {256, 129,
		6}} {
		if got, want := v[at[0]*130+at[1]], element(q,
			at[0]*130+at[1])*float32(at[2]); got != want {
			t.Errorf("element %v is %v, not %v", at[:2], got, want)
		}
	}
	refused(t, quant.Find(of(list(t, "a.weight F8E4M3FN 200 300",
		"a.weight_scale_inv F32 2 2")...),
		config(t, blockConfig)), quant.ScaleShape, "[2, 3]")
}

// A grid of one by one, or a column, is broadcast in silence.
func TestGridIsNotBroadcast(t *testing.T) {
	for _, shape := range []string{"1 1", "300 1", "1", "3", "3 1", "1 2", "2 3"} {
		refused(t, quant.Find(of(list(t, "a.weight F8E4M3FN 300 130",
			"a.weight_scale_inv F32 "+shape)...),
			config(t, blockConfig)), quant.ScaleShape)
	}
}

// weight_scale_inv is a multiplier in spite of its name, weight_global_scale a divisor.
func TestScalesAreNotReciprocal(t *testing.T) {
	inv := tensor.New("a.weight_scale_inv", tensor.Shape{1}, []float32{4})
	if v := floats(t, one(t, quant.Find(of(f8("a.weight", tensor.Shape{1, 1}, 0x38), inv),
		nil))); v[0] != 4 {
		t.Errorf("weight_scale_inv: %v", v)
	}
	packed := &tensor.Tensor{Name: "a.weight_packed", DType: tensor.U8, Shape: tensor.Shape{1,
		8},
		Data: tensor.BlobOf([]byte{2, 0, 0, 0, 0, 0, 0, 0})}
	global := tensor.New("a.weight_global_scale", tensor.Shape{1}, []float32{4})
	if v := floats(t, one(t, quant.Find(of(packed, f8("a.weight_scale", tensor.Shape{1, 1},
		0x38), global), nil))); v[0] != .25 {
		t.Errorf("weight_global_scale: %v", v)
	}
}

// (s / G) is a division: the product with 1/G has other bits.
func TestDivisorIsNotAReciprocal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for _, s := range samples(r, 40, 64, 16) {
		if s.name != "compressed-tensors" {
			continue
		}
		other := 0
		for i, v := range floats(t, s.find(t)) {
			scale := element(s.tensors[1], int64(i)/16)
			wrong := times(fp4(field(bytesOf(s.tensors[0]), int64(4*i), 4)), times(scale,
				1/element(s.tensors[2], 0)))
			if v != wrong {
				other++
			}
		}
		if other == 0 {
			t.Error("the sample does not tell")
		}
	}
}

// Nibbles are swapped: ModelOpt has the low one first, ComfyUI the high one.
func TestNibblesAreNotSwapped(t *testing.T) {
	w := &tensor.Tensor{Name: "a.weight", DType: tensor.U8, Shape: tensor.Shape{1, 8},
		Data: tensor.BlobOf([]byte{0x21, 0, 0, 0, 0, 0, 0, 0})}
	s2 := tensor.New("a.weight_scale_2", tensor.Shape{}, []float32{1})
	if v := floats(t, one(t, quant.Find(of(w, f8("a.weight_scale", tensor.Shape{1, 1}, 0x38),
		s2), nil))); v[0] != .5 || v[1] != 1 {
		t.Errorf("ModelOpt: %v", v[:2])
	}
	scale := make([]byte, 128*4)
	scale[0] = 0x38
	m := of(w, f8("a.weight_scale", tensor.Shape{128, 4}, scale...), s2).
		with("_quantization_metadata", `{"layers":{"a":{"format":"nvfp4"}}}`)
	if v := floats(t, one(t, quant.Find(m, nil))); v[0] != 1 || v[1] != .5 {
		t.Errorf("ComfyUI: %v", v[:2])
	}
}

// The first of two columns in a byte is in the low bits, except for ComfyUI and
// bitsandbytes.
func TestFirstNibbleIsTheOneOfItsProducer(t *testing.T) {
	codes := make([]byte, 16)
	codes[0] = 0x21 // .5 and 1 from the low bits on
	bytesAs := func(name string, d tensor.DType, shape ...int64) *tensor.Tensor {
		return &tensor.Tensor{Name: name, DType: d, Shape: shape, Data: tensor.BlobOf(codes)}
	}
	one8 := func(name string, shape ...int64) *tensor.Tensor { // 2^0
		n, _ := tensor.Shape(shape).Elements()
		return &tensor.Tensor{Name: name, DType: tensor.U8, Shape: shape,
			Data: tensor.BlobOf(slices.Repeat([]byte{127}, int(n)))}
	}
	exponent := one8("m.scale", 1, 1)
	exponent.DType = tensor.F8E8M0FNU
	f32 := func(name string, shape ...int64) *tensor.Tensor {
		n, _ := tensor.Shape(shape).Elements()
		return tensor.New(name, shape, slices.Repeat([]float32{1}, int(n)))
	}
	e4m3 := f8("m.weight_scale", tensor.Shape{1, 2}, 0x38, 0x38)
	ao := of(bytesAs("m._weight_qdata", tensor.U8, 1, 16), one8("m._weight_scale", 1, 1)).
		with("tensor_names", `["m.weight"]`).with("m.weight", `{"_type":"MXTensor","_data":
		{"block_size":32,"elem_dtype":{"_data":"float4_e2m1fn_x2"}},
		"_tensor_data_names":["qdata","scale"]}`)
	state := text("m.weight.quant_state.bitsandbytes__nf4",
		`{"quant_type":"nf4","blocksize":64,"shape":[1,32]}`)
	for name, c := range map[string]struct {
		m             *model
		config        string
		first, second float32
	}{
		"ModelOpt": {of(bytesAs("m.weight", tensor.U8, 1, 16), e4m3,
			f32("m.weight_scale_2", 1)), "", .5, 1},
		"compressed-tensors, NVFP4": {of(bytesAs("m.weight_packed", tensor.U8, 1, 16), e4m3,
			f32("m.weight_global_scale", 1)), "", .5, 1},
		"compressed-tensors, MXFP4": {of(bytesAs("m.weight_packed", tensor.U8, 1, 16),
			one8("m.weight_scale", 1, 1)), "", .5, 1},
		"DeepSeek": {of(bytesAs("m.weight", tensor.I8, 1, 16), exponent), "", .5, 1},
		"gpt-oss": {of(bytesAs("m_blocks", tensor.U8, 1, 1, 1, 16), one8("m_scales", 1, 1, 1)),
			"", .5, 1},
		"MLX": {of(bytesAs("m.weight", tensor.U32, 1, 4), one8("m.scales", 1, 1)),
			`{"quantization":{"bits":4,"group_size":32,"mode":"mxfp4"}}`, .5, 1},
		"torchao": {ao, "", .5, 1},
		"bitsandbytes": {of(bytesAs("m.weight", tensor.U8, 16, 1), f32("m.weight.absmax", 1),
			tensor.New("m.weight.quant_map", tensor.Shape{16}, nf4Values), state), "",
			nf4Values[2], nf4Values[1]},
	} {
		v := floats(t, one(t, quant.Find(c.m, config(t, c.config))))
		if len(v) != 32 || v[0] != c.first || v[1] != c.second {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// Eight columns of AWQ are interleaved in a word: 0, 2, 4, 6, 1, 3, 5, 7.
func TestColumnsOfAWQAreInterleaved(t *testing.T) {
	word := tensor.New("m.qweight", tensor.Shape{1, 1}, []int32{0x76543210})
	scales := list(t, "m.scales F32 1 8")[0]
	scales = tensor.New("m.scales", scales.Shape, slices.Repeat([]float32{1}, 8))
	v := floats(t, one(t, quant.Find(of(word, tensor.New("m.qzeros", tensor.Shape{1, 1},
		[]int32{0}), scales), config(t, fmt.Sprintf(wordConfig, "awq", 4, 1, "")))))
	if want := []float32{0, 4, 1, 5, 2, 6, 3, 7}; !slices.Equal(v, want) {
		t.Errorf("%v, not %v", v, want)
	}
}

// A decoder that takes its own map for the stored one reads a file of another map wrong.
func TestStoredMapOfBitsandbytesIsNotIgnored(t *testing.T) {
	mapping := slices.Clone(nf4Values)
	slices.Reverse(mapping)
	w := one(t, quant.Find(of(append(list(t, "m.weight U8 8 1", "m.weight.absmax F32 1"),
		tensor.New("m.weight.quant_map", tensor.Shape{16}, mapping),
		text("m.weight.quant_state.bitsandbytes__nf4",
			`{"quant_type":"nf4","blocksize":64,"shape":[4,4]}`))...), nil))
	if v, err := tensor.Convert[float32](w.Tensor); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("%v, %v", v, err)
	}
}

// The offset of scales that are quantised themselves is added after their product.
func TestOffsetOfNestedScalesIsAdded(t *testing.T) {
	nested := make([]float32, 256)
	nested[9] = 3
	v := floats(t, one(t, quant.Find(of(
		tensor.New("m.weight", tensor.Shape{1, 1}, []uint8{0xf0}),
		tensor.New("m.weight.absmax", tensor.Shape{1}, []uint8{9}),
		tensor.New("m.weight.quant_map", tensor.Shape{16}, nf4Values),
		tensor.New("m.weight.nested_absmax", tensor.Shape{1}, []float32{2}),
		tensor.New("m.weight.nested_quant_map", tensor.Shape{256}, nested),
		text("m.weight.quant_state.bitsandbytes__nf4", `{"quant_type":"nf4","blocksize":64,
			"shape":[1,2],"nested_blocksize":256,"nested_offset":0.5}`)), nil)))
	if v[0] != 6.5 || v[1] != -6.5 {
		t.Error(v)
	}
}

// A scale of integers that would fit by being repeated is refused.
func TestScalesOfIntegersAreNotBroadcast(t *testing.T) {
	for _, c := range []struct{ form, scale string }{
		{`"strategy":"channel"`, "1 1"}, {`"strategy":"channel"`, "1 4"},
		{`"strategy":"channel"`, "4"}, {`"strategy":"group","group_size":8`, "4 1"},
		{`"strategy":"group","group_size":8`, "1 4"}, {`"strategy":"group","group_size":8`, "1"},
		{`"strategy":"tensor"`, "4 4"},
	} {
		cfg := config(t, fmt.Sprintf(ctConfig, "pack-quantized",
			`{"num_bits":4,"type":"int","symmetric":true,`+c.form+`}`))
		refused(t, quant.Find(of(append(list(t, "m.weight_packed I32 4 4",
			"m.weight_scale F32 "+c.scale), tensor.New("m.weight_shape", tensor.Shape{2},
			[]int64{4, 32}))...), cfg), quant.ScaleShape)
		cfg = config(t, fmt.Sprintf(ctConfig, "int-quantized",
			`{"num_bits":8,"type":"int","symmetric":true,`+c.form+`}`))
		refused(t, quant.Find(of(list(t, "m.weight I8 4 32", "m.weight_scale F32 "+c.scale)...),
			cfg), quant.ScaleShape)
	}
}

// Swizzled scales of 128 rows and 64 columns have the shape of plain ones: only a marker
// tells.
func TestSwizzledScalesAreNotReadPlain(t *testing.T) {
	parts := list(t, "a.weight U8 128 32", "a.weight_scale F8E4M3FN 128 4",
		"a.weight_scale_2 F32")
	plain := floats(t, one(t, quant.Find(of(parts...), nil)))
	marker := []byte(`{"format":"nvfp4"}`)
	swizzled := floats(t, one(t, quant.Find(of(append(parts,
		tensor.New("a.comfy_quant", tensor.Shape{int64(len(marker))}, marker))...), nil)))
	s, s2 := parts[1], element(parts[2], 0)
	// row 33 of the second block: tile 0, 33%32*16 + 33/32*4 + 1
	for c := 16; c < 32; c++ {
		code := bytesOf(parts[0])[33*32+c/2]
		low, high := fp4(int64(code&15)), fp4(int64(code>>4))
		if c%2 == 1 {
			low, high = high, low
		}
		if got, want := plain[33*64+c], times(low, times(element(s, 33*4+1), s2)); got != want {
			t.Errorf("plain: %v, not %v", got, want)
		}
		if got, want := swizzled[33*64+c], times(high, times(s2, element(s,
			1*16+1*4+1))); got != want {
			t.Errorf("swizzled: %v, not %v", got, want)
		}
	}
}

// decompress of compressed-tensors takes 1 for a scale of the tensor that is missing.
func TestMissingGlobalScaleIsNotOne(t *testing.T) {
	refused(t, quant.Find(of(list(t, "a.weight_packed U8 4 8",
		"a.weight_scale F8E4M3FN 4 1")...), nil),
		quant.MissingScale, "weight_global_scale")
	refused(t, quant.Find(of(list(t, "a.weight U8 4 8", "a.weight_scale F8E4M3FN 4 1")...),
		config(t, `{"quantization_config":{"quant_algo":"NVFP4"}}`)), quant.MissingScale,
		"weight_scale_2")
}

// A divisor of 0 makes infinite weights.
func TestDivisorOfZeroIsAnError(t *testing.T) {
	m := of(append(list(t, "a.weight_packed U8 4 8", "a.weight_scale F8E4M3FN 4 1"),
		tensor.New("a.weight_global_scale", tensor.Shape{1}, []float32{0}))...)
	w := one(t, quant.Find(m, nil))
	if _, err := tensor.Convert[float32](w.Tensor); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("the error is %v", err)
	}
	if found, err := w.Check(t.Context()); err != nil || len(found) != 1 ||
		found[0].Code != quant.ScaleValue {
		t.Error(found, err)
	}
}

// A model of FP8 is labelled NVFP4: Model-Optimizer #868. The tensors decide, and the
// contradiction is an error.
func TestLabelDoesNotDecide(t *testing.T) {
	cfg := config(t, `{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}}`)
	set := quant.Find(of(list(t, "a.weight F8E4M3FN 4 4", "a.weight_scale F32")...), cfg)
	floats(t, one(t, set))
	if len(set.Findings) != 1 || set.Findings[0].Code != quant.QuantizationConfig ||
		!strings.Contains(set.Findings[0].Err.Error(), "NVFP4") {
		t.Error(set.Findings)
	}
	mixed := config(t,
		`{"quantization_config":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"a":{"quant_algo":"FP8"}}}}`)
	if set := quant.Find(of(list(t, "a.weight F8E4M3FN 4 4", "a.weight_scale F32")...),
		mixed); len(set.Findings) > 0 {
		t.Error(set.Findings)
	}
}

// Bytes next to FP8 codes are exponents, not integers.
func TestByteScalesAreExponents(t *testing.T) {
	s := &tensor.Tensor{Name: "a.weight_scale", DType: tensor.U8, Shape: tensor.Shape{1, 1},
		Data: tensor.BlobOf([]byte{128})}
	codes := make([]byte, 32)
	codes[0] = 0x38
	w := one(t, quant.Find(of(f8("a.weight", tensor.Shape{1, 32}, codes...), s), nil))
	if v := floats(t, w); w.Scheme != "mxfp8" || v[0] != 2 {
		t.Errorf("%s: %v", w.Scheme, v[0])
	}
}

// The exponent 255 is NaN; references make an infinity of it. 0 is 2^-127.
func TestExponentsAtTheEndsAreNaNAndSubnormal(t *testing.T) {
	for _, c := range []struct {
		exponent byte
		want     float32
	}{{0, 0x1p-127}, {1, 0x1p-126}, {254, 0x1p127}, {255, float32(math.NaN())}} {
		s := &tensor.Tensor{Name: "a.weight_scale", DType: tensor.F8E8M0FNU,
			Shape: tensor.Shape{1, 1}, Data: tensor.BlobOf([]byte{c.exponent})}
		codes := make([]byte, 32)
		codes[0], codes[1], codes[2] = 0x38, 0x7e, 0x01
		w := one(t, quant.Find(of(f8("a.weight", tensor.Shape{1, 32}, codes...), s), nil))
		v := floats(t, w)
		if !same(v[0], c.want) || c.exponent == 254 && !math.IsInf(float64(v[1]), 1) ||
			c.exponent == 0 && v[2] != 0x1p-136 {
			t.Errorf("exponent %d: %v", c.exponent, v[:3])
		}
		found, err := w.Check(t.Context())
		if err != nil || (c.exponent == 255) != (len(found) == 1 &&
			found[0].Code == quant.ScaleValue) {
			t.Errorf("exponent %d: %v, %v", c.exponent, found, err)
		}
	}
}

// down_proj of gpt-oss is square, so that a forgotten transposition has the right shape.
func TestSquareExpertsAreTransposed(t *testing.T) {
	blocks := list(t, "x_blocks U8 1 64 2 16")[0]
	scales := exponents(rand.New(rand.NewPCG(1, 1)), "x_scales", tensor.U8, 1, 64, 2)
	v := floats(t, one(t, quant.Find(of(blocks, scales), nil)))
	if want := times(fp4(field(bytesOf(blocks), 4*(5*64+40), 4)), element(scales,
		5*2+1)); v[40*64+5] != want {
		t.Errorf("element 40, 5 is %v, not %v", v[40*64+5], want)
	}
}

// Each word of compressed-tensors before 0.20 has ⌊32/b⌋ elements.
func TestOldPackingIsNotReadAsNew(t *testing.T) {
	cfg := config(t,
		`{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],`+
			`"weights":{"num_bits":3,"type":"int","strategy":"channel","symmetric":true}}}}}`)
	scale := tensor.New("a.weight_scale", tensor.Shape{1, 1}, []float32{1})
	shape := tensor.New("a.weight_shape", tensor.Shape{2}, []int64{1, 32})
	old := tensor.New("a.weight_packed", tensor.Shape{1, 4}, []int32{0, 5 << 27, 0,
		0}) // element 19
	if v := floats(t, one(t, quant.Find(of(old, scale, shape), cfg))); v[19] != 1 ||
		v[18] != -4 {
		t.Errorf("before 0.20: %v", v)
	}
	dense := tensor.New("a.weight_packed", tensor.Shape{1, 3}, []int32{1 << 30, 1,
		0}) // element 10
	if v := floats(t, one(t, quant.Find(of(dense, scale, shape), cfg))); v[10] != 1 {
		t.Errorf("since 0.20: %v", v)
	}
	refused(t, quant.Find(of(list(t, "a.weight_packed I32 1 5")[0], scale, shape), cfg),
		quant.QuantizationConfig)
}

// A weight_shape larger than the words is accepted, and gives wrong values.
func TestShapeLargerThanTheWordsIsRefused(t *testing.T) {
	for _, shape := range [][]int64{{1, 64}, {2, 32}, {-1, 32}, {1, -32}, {1 << 62, 1 << 62}, {1,
		1 << 62}} {
		m := of(append(list(t, "a.weight_packed I32 1 4", "a.weight_scale F32 1 1"),
			tensor.New("a.weight_shape", tensor.Shape{2}, shape))...)
		set := quant.Find(m, config(t,
			`{"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],`+
				`"weights":{"num_bits":4,"strategy":"channel"}}}}}`))
		if w := one(t, set); w.Err == nil || len(set.Findings) != 1 {
			t.Errorf("%v has values: %v", shape, set.Findings)
		}
	}
}

// The first version of GPTQ stores zero points less 1, the second as they are.
func TestZeroPointsFollowTheVersionOfGPTQ(t *testing.T) {
	for version, want := range map[string]float32{"": 2, `,"checkpoint_format":"gptq"`: 2,
		`,"checkpoint_format":"gptq_v2"`: 3} {
		m := of(tensor.New("a.qweight", tensor.Shape{1, 8}, []int32{7, 0, 0, 0, 0, 0, 0, 0}),
			tensor.New("a.qzeros", tensor.Shape{1, 1}, []int32{4}), list(t,
				"a.scales F32 1 8")[0])
		bytesOf(m.tensors[2])[3], bytesOf(m.tensors[2])[2], bytesOf(m.tensors[2])[1],
			bytesOf(m.tensors[2])[0] = 0x3f, 0x80, 0, 0
		set := quant.Find(m, config(t,
			`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":-1`+version+`}}`))
		if v := floats(t, one(t, set)); v[0] != want {
			t.Errorf("%s: %v, not %v", version, v[0], want)
		}
	}
	refused(t, quant.Find(of(list(t, "a.qweight I32 1 8", "a.qzeros I32 1 1",
		"a.scales F16 1 8")...), nil), quant.QuantizationConfig)
}

// Stored zero points of version 1 whose bits are all set are read differently by kernels.
func TestWrappedZeroPointIsAWarning(t *testing.T) {
	m := of(append(list(t, "a.qweight I32 1 8", "a.scales F16 1 8"), tensor.New("a.qzeros",
		tensor.Shape{1, 1}, []int32{15}))...)
	w := one(t, quant.Find(m, config(t,
		`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8}}`)))
	found, err := w.Check(t.Context())
	if err != nil || len(found) != 1 || found[0].Severity != tensor.SeverityWarning {
		t.Error(found, err)
	}
}

// A module with scales and groups and no words loads as zeros: GPTQModel #3077.
func TestScalesWithoutWordsAreOrphans(t *testing.T) {
	set := quant.Find(of(list(t, "a.scales F16 1 8", "a.g_idx I32 8", "a.qzeros I32 1 1")...),
		config(t, `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8}}`))
	orphans := 0
	for _, f := range set.Findings {
		if f.Code == quant.OrphanScale {
			orphans++
		}
	}
	if orphans != 3 {
		t.Error(set.Findings)
	}
}

// Scales of a method that is not known are not called orphans of another.
func TestScalesOfAnUnknownMethodAreNoOrphans(t *testing.T) {
	set := quant.Find(of(list(t, "a.weight U8 4 16", "a.weight_scale BF16 1")...),
		config(t, `{"quantization_config":{"quant_method":"bitnet"}}`))
	refused(t, set, quant.UnknownQuantization)
	if len(set.Findings) != 1 {
		t.Error(set.Findings)
	}
}

// A marker of ComfyUI whose weight is gone is reported, and so is a scale next to one.
func TestMarkersWithoutWeightsAreOrphans(t *testing.T) {
	for _, set := range []*quant.Set{
		quant.Find(of(append(list(t, "b.weight BF16 4 4"), text("a.comfy_quant",
			`{"format":"nvfp4"}`))...), nil),
		quant.Find(of(list(t, "scaled_fp8 F8E4M3FN 2", "a.weight BF16 4 4",
			"a.scale_weight F32 1")...), nil),
	} {
		if len(set.Findings) != 1 || set.Findings[0].Code != quant.OrphanScale {
			t.Error(set.Findings)
		}
	}
}

// A layer belongs to the group that names it, else to one whose expression matches it,
// else to one of its class, whatever the order of the groups.
func TestGroupsAreChosenByTheMostSpecificTarget(t *testing.T) {
	group := func(target string, bits int) string {
		return fmt.Sprintf(`{"targets":[%q],"weights":{"num_bits":%d,"type":"int",`+
			`"symmetric":true,"strategy":"channel"}}`, target, bits)
	}
	cfg := config(t, `{"quantization_config":{"quant_method":"compressed-tensors",
		"format":"pack-quantized","config_groups":{"a":`+group("Linear", 8)+`,"b":`+
		group("re:.*down$", 4)+`,"c":`+group("x.down", 2)+`}}}`)
	var all []*tensor.Tensor
	for name, cols := range map[string]int64{"y.up": 8, "y.down": 16, "x.down": 32} {
		all = append(all, list(t, name+".weight_packed I32 2 2", name+".weight_scale F32 2 1")...)
		all = append(all, tensor.New(name+".weight_shape", tensor.Shape{2}, []int64{2, cols}))
	}
	set := quant.Find(of(all...), cfg)
	if len(set.Findings) > 0 {
		t.Error(set.Findings)
	}
	for _, w := range set.Weights {
		want := map[string]string{"y.up.weight": "int8-channel", "y.down.weight": "int4-channel",
			"x.down.weight": "int2-channel"}[w.Name]
		if w.Scheme != want {
			t.Errorf("%s is %s, not %s", w.Name, w.Scheme, want)
		}
	}
}

// Without a size, blocks of FP8 are 128 by 128, also of one row.
func TestBlocksWithoutASizeAre128(t *testing.T) {
	cfg := config(t, `{"quantization_config":{"quant_method":"fp8"}}`)
	for _, lines := range [][]string{
		{"a.weight F8E4M3FN 1 1", "a.weight_scale_inv F32 1 1"},
		{"a.weight F8E4M3FN 1 300", "a.weight_scale_inv F32 1 3"},
		{"a.weight F8E4M3FN 300 1", "a.weight_scale_inv F32 3 1"},
	} {
		set := quant.Find(of(list(t, lines...)...), cfg)
		if w := one(t, set); w.Scheme != "fp8-block" || len(set.Findings) > 0 {
			t.Errorf("%v: %s, %v", lines, w.Scheme, set.Findings)
		}
	}
}

// GPTQ and AWQ have the same names.
func TestShapesTellGPTQFromAWQ(t *testing.T) {
	awq := list(t, "a.qweight I32 32 2", "a.qzeros I32 1 2", "a.scales F16 1 16")
	refused(t, quant.Find(of(awq...), config(t,
		`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32}}`)),
		quant.QuantizationConfig, "AWQ")
	gptq := list(t, "a.qweight I32 4 16", "a.qzeros I32 1 2", "a.scales F16 1 16")
	refused(t, quant.Find(of(gptq...), config(t,
		`{"quantization_config":{"quant_method":"awq","bits":4,"group_size":32}}`)),
		quant.QuantizationConfig)
	for _, version := range []string{"gemv", "gemv_fast", "marlin"} {
		refused(t, quant.Find(of(awq...), config(t,
			`{"quantization_config":{"quant_method":"awq","bits":4,"group_size":32,"version":"`+version+`"}}`)),
			quant.UnknownQuantization, version)
	}
}

// A weight of LLM.int8 is multiplied by 1/127, not divided by 127.
func TestInt8IsMultipliedByAConstant(t *testing.T) {
	m := of(list(t, "a.weight I8 8 128", "a.SCB F32 8")...)
	other := false
	for i, v := range floats(t, one(t, quant.Find(m, nil))) {
		x := times(element(m.tensors[0], int64(i)), element(m.tensors[1], int64(i)/128))
		if v != times(x, 7.874015718698502e-3) {
			t.Fatalf("element %d is %v", i, v)
		}
		other = other || v != x/127
	}
	if !other {
		t.Error("the sample does not tell")
	}
}

// q·s + b of MLX has two roundings: a fused product differs.
func TestAffineIsNotFused(t *testing.T) {
	for _, s := range samples(rand.New(rand.NewPCG(9, 9)), 40, 64, 32) {
		if s.scheme != "mlx-affine" {
			continue
		}
		compare(t, s.name, floats(t, s.find(t)), s.values())
	}
}

// Scales of activations and caches never touch a weight.
func TestActivationScalesAreNotApplied(t *testing.T) {
	parts := list(t, "a.weight F8E4M3FN 4 4", "a.weight_scale F32 1")
	want := floats(t, one(t, quant.Find(of(parts...), nil)))
	for _, name := range []string{"input_scale", "k_scale", "v_scale", "q_scale", "scale_input",
		"input_global_scale", "activation_scale", "input_zero_point", "qscale_act"} {
		set := quant.Find(of(append(parts, list(t, "a."+name+" F32 1")...)...), nil)
		compare(t, name, floats(t, one(t, set)), want)
		if last := set.Weights[len(set.Weights)-1]; !last.Auxiliary || last.Parameters() != 0 ||
			len(set.Findings) > 0 {
			t.Errorf("%s: %v", name, set.Findings)
		}
	}
}

// A factor of a layer's input is not folded into a weight in silence.
func TestInputFactorsAreRefused(t *testing.T) {
	for _, name := range []string{"pre_quant_scale", "svdquant_lora_a"} {
		refused(t, quant.Find(of(list(t, "a.weight U8 4 8", "a.weight_scale F8E4M3FN 4 1",
			"a.weight_scale_2 F32", "a."+name+" F32 16")...), nil),
			quant.UnknownQuantization, name)
	}
	marker := []byte(`{"format":"int8_tensorwise","convrot":true}`)
	refused(t, quant.Find(of(append(list(t, "a.weight I8 4 4", "a.weight_scale F32"),
		tensor.New("a.comfy_quant", tensor.Shape{int64(len(marker))}, marker))...), nil),
		quant.UnknownQuantization, "convrot")
}

// torchao leaves out a weight without one of its parts in silence.
func TestMissingPartOfTorchAOIsAnError(t *testing.T) {
	header := `{"_type":"Int8Tensor","_data":{"block_size":[1,4]},"_tensor_data_names":["qdata","scale"]}`
	m := of(list(t, "a._weight_qdata I8 4 4")...).with("tensor_names",
		`["a.weight"]`).with("a.weight", header)
	refused(t, quant.Find(m, nil), quant.MissingScale, "a._weight_scale")
	none := of().with("tensor_names", `["a.weight"]`).with("a.weight", header)
	if set := quant.Find(none, nil); len(set.Findings) != 1 ||
		set.Findings[0].Code != quant.MissingScale {
		t.Error(set.Findings)
	}
	// The header's description of a weight, or of all weights, cannot be read.
	cut := of(list(t, "a._weight_qdata I8 4 4", "a._weight_scale F32 4 1")...).
		with("tensor_names", `["a.weight"]`).with("a.weight", "{")
	refused(t, quant.Find(cut, nil), quant.QuantizationState, "a.weight")
	names := of(list(t, "a._weight_qdata I8 4 4", "a._weight_scale F32 4 1")...).
		with("tensor_names", `["a.w`).with("a.weight", header)
	if set := quant.Find(names, nil); len(set.Findings) != 1 ||
		set.Findings[0].Code != quant.QuantizationState {
		t.Error(set.Findings)
	}
	unknown := of(list(t, "a._weight_qdata I8 4 4",
		"a._weight_scale F32 4 1")...).with("tensor_names", `["a.weight"]`).
		with("a.weight", strings.Replace(header, "Int8Tensor", "Int4Tensor", 1))
	refused(t, quant.Find(unknown, nil), quant.UnknownQuantization, "Int4Tensor")
}

// A checkpoint has the tensors of torchao's classes under names that say nothing: their
// class tells, and a part that is missing is not left out.
func TestClassesOfTorchAOTellWhatTheirPartsAre(t *testing.T) {
	parts := []string{"w.qdata I8 4 8", "w.scale F32 4 2", "w.zero_point I8 4 2", "b F32 4"}
	attributes := map[string]string{"w.class": "torchao.quantization.Int8Tensor",
		"w.dtype": "torch.float16", "w.shape": "[4,8]", "w.block_size": "[1,4]"}
	set := func(edit string, lines ...string) *quant.Set {
		m := &model{list(t, lines...), maps.Clone(attributes)}
		if key, text, ok := strings.Cut(edit, "="); ok {
			m.attributes[key] = text
		} else {
			delete(m.attributes, edit)
		}
		return quant.Find(m, nil)
	}
	sound := set("", parts...)
	if w := one(t, sound); w.Name != "w" || w.Scheme != "int8-group" || w.DType != tensor.F16 ||
		w.Parameters() != 32 || len(w.Parts) != 3 || len(sound.Weights) != 2 ||
		len(sound.Findings) > 0 || !sound.Attributes["w.class"] ||
		!sound.Attributes["w.block_size"] {
		t.Errorf("%+v, %v, %v", w, sound.Findings, sound.Attributes)
	}
	nvfp4 := []string{"w.qdata U8 4 8", "w.scale F8E4M3FN 4 1"}
	const isNVFP4 = "w.class=torchao.prototype.mx_formats.nvfp4_tensor.NVFP4Tensor"
	for name, c := range map[string]struct {
		set  *quant.Set
		code quant.Code
	}{
		"no scale":               {set("", parts[0], parts[2]), quant.MissingScale},
		"no codes":               {set("", parts[1:]...), quant.MissingScale},
		"no scale of a tensor":   {set(isNVFP4, nvfp4...), quant.MissingScale},
		"a shape":                {set("w.shape=[8,4]", parts...), quant.QuantizationState},
		"no size":                {set("w.block_size", parts...), quant.QuantizationState},
		"a size of 0":            {set("w.block_size=[0,4]", parts...), quant.QuantizationState},
		"a size of another rank": {set("w.block_size=[4]", parts...), quant.QuantizationState},
		"a size of text":         {set("w.block_size=x", parts...), quant.QuantizationState},
		"a grid":                 {set("w.block_size=[1,2]", parts...), quant.ScaleShape},
		"zero points": {set("", append(parts[:2:2], "w.zero_point I8 4 1")...),
			quant.ScaleShape},
		"floats": {set("w.class=torchao.quantization.Float8Tensor", parts...),
			quant.QuantizationState},
		"a factor of the input": {set("", append(parts[:3:3], "w.act_pre_scale F32 8")...),
			quant.UnknownQuantization},
		"a layout of a device": {set("w.class=torchao.quantization.Int4TilePackedTo4dTensor",
			"w.qdata I32 1 1 32 4", "w.scale_and_zero BF16 2 4 2"), quant.UnknownQuantization},
		"a class of quanto": {set("w.class=optimum.quanto.tensor.weights.qbytes."+
			"WeightQBytesTensor", "w._data I8 4 8", "w._scale F32 4 1"),
			quant.UnknownQuantization},
		"a class of an old version": {set("w.class=torchao.dtypes.AffineQuantizedTensor",
			"w.tensor_impl.int_data I8 4 8", "w.tensor_impl.scale F32 4"),
			quant.UnknownQuantization},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, c.set, c.code)
			if w := one(t, c.set); w.Name != "w" || len(c.set.Findings) != 1 {
				t.Error(w.Name, c.set.Findings)
			}
		})
	}
	// Parts of a class in a class are parts of the outer one, which has a logical shape.
	inner := set("w.original.class=torchao.dtypes.AffineQuantizedTensor",
		"w.original.int_data I8 4 8", "b F32 4")
	if w := one(t, inner); w.Name != "w" || w.Err == nil || len(inner.Weights) != 2 {
		t.Error(w.Name, inner.Findings)
	}
	// A class that wraps floats is not quantised, nor is a tensor of the class's name.
	for name, plain := range map[string]*quant.Set{
		"a wrapper": set("w.class=torchao.float8.WeightWithDynamicFloat8CastTensor",
			"w._tensor BF16 4 8"),
		"another package": set("w.class=other.Int8Tensor", parts...),
	} {
		for _, w := range plain.Weights {
			if w.Scheme != "" || len(plain.Findings) > 0 || len(plain.Attributes) > 0 {
				t.Errorf("%s: %s is %s: %v", name, w.Name, w.Scheme, plain.Findings)
			}
		}
	}
}

// A scale that is left over when codes were cast is not lost in silence.
func TestScaleNextToACastWeightIsAnOrphan(t *testing.T) {
	set := quant.Find(of(list(t, "a.weight BF16 4 4", "a.weight_scale_inv F32 1 1")...),
		config(t, blockConfig))
	for _, f := range set.Findings {
		if f.Code == quant.OrphanScale && strings.Contains(f.Err.Error(), "plain bfloat16") {
			return
		}
	}
	t.Error(set.Findings)
}

// The scale of a GGUF weight is applied, of experts one number each.
func TestScaleOfGGUFIsApplied(t *testing.T) {
	if _, err := os.Stat(references() + "/gguf-scale.gguf"); err != nil {
		t.Fatal(err)
	}
	m := of(list(t, "blk.0.x_exps.weight F32 2 3 4",
		"blk.0.x_exps.scale F32 2")...).with("general.architecture", "llama")
	w := one(t, quant.Find(m, nil))
	for i, v := range floats(t, w) {
		if want := times(element(m.tensors[0], int64(i)), element(m.tensors[1],
			int64(i)/12)); v != want {
			t.Fatalf("element %d is %v, not %v", i, v, want)
		}
	}
	bad := of(list(t, "blk.0.x.weight F32 3 4",
		"blk.0.x.scale F32 3")...).with("general.architecture", "llama")
	refused(t, quant.Find(bad, nil), quant.ScaleShape)
}
