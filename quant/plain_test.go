package quant_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// Names alone make no tensor a part of a quantised weight.
func TestOrdinaryCheckpointsStayAsTheyAre(t *testing.T) {
	for name, lines := range map[string][]string{
		"llama": {"model.embed_tokens.weight BF16 8 4",
			"model.layers.0.mlp.up_proj.weight BF16 8 4",
			"model.layers.0.input_layernorm.weight BF16 4", "lm_head.weight BF16 8 4"},
		"a layer scale": {"blk.weight F32 8 4", "blk.scale F32 8 1",
			"blk.scale.weight F32 1"},
		"a batch norm called scale": {"bn.weight F32 4", "bn.scale F32 4",
			"bn.biases F32 4"},
		"a learned scale of DINO": {"layers.0.weight F32 4 4",
			"layers.0.weight_scale F32 4 1"},
		"an integer table with a scale": {"pos.weight I8 8 4", "pos.weight_scale F32 8 1",
			"pos.scale F32 1"},
		"a byte table with a scale": {"t.weight U8 8 4", "t.weight_scale F32 8 1",
			"t.weight_scale_inv F32 1"},
		"words without zero points": {"a.qweight I32 8 4", "a.scales F16 2 4"},
		"words of two hash tables": {"a.qweight I64 8 4", "a.qzeros I64 2 4",
			"a.scales F16 2 4"},
		"unsigned words without config": {"a.weight U32 8 4", "a.scales F16 8 1",
			"a.biases F16 8 1"},
		"blocks and scales of another": {"x_blocks F32 2 3", "x_scales F32 2",
			"y_blocks U8 1 2 3 4", "y_scales U8 1 2 3"},
		"absmax of statistics": {"w.weight F32 4 4", "w.weight.absmax F32 4",
			"w.weight.quant_map F32 16"},
		"FP8 without any scale": {"a.weight F8E4M3FN 8 4", "b.weight F8E5M2 8 4",
			"c.bias F8E4M3FN 4"},
		"FP8 next to a learned scale": {"a.weight F8E4M3FN 8 4", "a.scale BF16 4"},
		"FP8 next to one float scale": {"a.weight F8E4M3FN 8 4", "a.scale F32 1"},
		"packed without a scale":      {"a.weight_packed U8 8 4", "b.weight_packed I32 8 4"},
		"activation scales of a network": {"a.weight F32 8 4", "a.k_scale F32 1",
			"a.input_scale F32 1"},
		"experts that are plain": {"experts.gate_up_proj BF16 2 4 8",
			"experts.gate_up_proj_bias BF16 2 8"},
		"group indices of something": {"a.g_idx I32 8", "a.SCB F32 8"},
		"scalars and empty tensors": {"a F32", "b.weight F8E4M3FN 0 4", "c.weight U8 0",
			".weight F32 2", "weight F32 2"},
		"a name that is a suffix": {".weight_scale F32 1", "_scale_inv F32 1",
			".qweight I32 2 2", "_blocks U8 1 1 1 16"},
		"scales of scales": {"x.weight_scale F32 1",
			"x.weight_scale.weight_scale F32 1", "x.weight_scale.weight F32 2 2"},
	} {
		t.Run(name, func(t *testing.T) {
			m := of(list(t, lines...)...)
			for _, cfg := range []*quant.Config{nil, config(t, `{"torch_dtype":"bfloat16"}`)} {
				set := quant.Find(m, cfg)
				for _, f := range set.Findings {
					t.Errorf("finding %s: %v", f.Code, f.Err)
				}
				if len(set.Weights) != len(m.tensors) {
					t.Fatalf("%d weights of %d tensors", len(set.Weights), len(m.tensors))
				}
				for i, w := range set.Weights {
					n, _ := m.tensors[i].Shape.Elements()
					if w.Tensor != m.tensors[i] || w.Scheme != "" || w.Err != nil ||
						w.Auxiliary ||
						w.Parameters() != n || w.DType != m.tensors[i].DType {
						t.Errorf("%s is %s with %d parameters: %v", w.Name, w.Scheme,
							w.Parameters(), w.Err)
					}
				}
			}
		})
	}
}

// In a GGUF file without a model, and next to plain weights, .scale is an ordinary
// tensor.
func TestScaleOfAnOrdinaryNetworkIsNoScaleOfGGUF(t *testing.T) {
	m := of(list(t, "blk.0.norm.weight F32 8", "blk.0.norm.scale F32 1")...)
	for _, w := range quant.Find(m, nil).Weights {
		if w.Scheme != "" {
			t.Errorf("%s is %s", w.Name, w.Scheme)
		}
	}
}

// The configuration makes no plain tensor quantised: modules that it excludes are plain,
// and others are what their dtypes say.
func TestConfigurationMakesNoTensorQuantised(t *testing.T) {
	cfg := config(t,
		`{"quantization_config":{"quant_method":"fp8","modules_to_not_convert":["lm_head","model.*.gate"]}}`)
	m := of(list(t, "a.weight F8E4M3FN 4 4", "a.weight_scale_inv F32 1 1", "norm.weight BF16 4",
		"b.weight BF16 4 4",
		"lm_head.weight F8E4M3FN 4 4", "model.0.gate.weight F8E4M3FN 4 4",
		"ids.weight I64 4 4")...)
	set := quant.Find(m, cfg)
	if len(set.Findings) > 0 {
		t.Error(set.Findings)
	}
	for _, w := range set.Weights {
		if (w.Name == "a.weight") != (w.Scheme == "fp8-block") || w.Err != nil {
			t.Errorf("%s is %s: %v", w.Name, w.Scheme, w.Err)
		}
	}
}

// compressed-tensors stores weights that were rounded, and not compressed, with their
// scales.
func TestScalesOfRoundedWeightsAreNoOrphans(t *testing.T) {
	for format, want := range map[string]int{"dense": 0, "float-quantized": 1} {
		set := quant.Find(of(list(t, "a.weight BF16 4 4", "a.weight_scale BF16 4 1",
			"b.weight F8E4M3FN 4 4", "b.weight_scale BF16 4 1")...), config(t, fmt.Sprintf(
			ctConfig, format, `{"num_bits":8,"type":"float","strategy":"channel"}`)))
		if len(set.Findings) != want {
			t.Errorf("%s: %v", format, set.Findings)
		}
	}
}

// An exclusion list makes no quantised weight plain.
func TestExcludedModuleWithScaleIsQuantised(t *testing.T) {
	cfg := config(t,
		`{"quantization_config":{"quant_method":"fp8","modules_to_not_convert":["a"]}}`)
	set := quant.Find(of(list(t, "a.weight F8E4M3FN 4 4", "a.weight_scale_inv F32 1 1")...), cfg)
	if w := set.Weights[0]; w.Scheme != "fp8-block" || w.Err != nil {
		t.Error(w.Scheme, w.Err)
	}
}

func TestParametersAreLogical(t *testing.T) {
	for _, s := range samples(rand.New(rand.NewPCG(1, 1)), 20, 64, 16) {
		n, _ := s.shape.Elements()
		if got := s.find(t).Parameters(); got != n {
			t.Errorf("%s: %d parameters, not %d", s.name, got, n)
		}
	}
	set := quant.Find(of(list(t, "a.weight F8E4M3FN 4 4", "a.weight_scale F32 1",
		"a.input_scale F32 1",
		"a.bias F32 4", "attn.k_scale F32 1", "scaled_fp8 F8E4M3FN 2")...), nil)
	total, auxiliary := int64(0), 0
	for _, w := range set.Weights {
		if total += w.Parameters(); w.Auxiliary {
			auxiliary++
		}
	}
	if total != 20 || auxiliary != 3 {
		t.Errorf("%d parameters, %d auxiliary", total, auxiliary)
	}
}

func TestLogicalDTypeFollowsConfigurationAndScale(t *testing.T) {
	for _, c := range []struct {
		config, scale string
		want          tensor.DType
	}{
		{`{"torch_dtype":"float16"}`, "F32", tensor.F16},
		{`{"dtype":"torch.float32"}`, "BF16", tensor.F32},
		{`{"text_config":{"dtype":"float16"}}`, "BF16", tensor.F16},
		{"", "F16", tensor.F16}, {"", "BF16", tensor.BF16}, {"", "F32", tensor.BF16},
	} {
		set := quant.Find(of(list(t, "a.weight F8E4M3FN 4 4",
			"a.weight_scale "+c.scale+" 4 1")...), config(t, c.config))
		if got := set.Weights[0].DType; got != c.want {
			t.Errorf("%s, scale %s: %v", c.config, c.scale, got)
		}
	}
}

// A method that is not known is named, and its weights have no values.
func TestUnknownMethodIsNamed(t *testing.T) {
	cfg := config(t, `{"quantization_config":{"quant_method":"hqq"}}`)
	set := quant.Find(of(list(t, "a.W_q U8 4 4", "a.scale F16 4 1", "norm.weight F16 4",
		"ids I64 1 4")...), cfg)
	if len(set.Findings) != 1 || set.Findings[0].Code != quant.UnknownQuantization ||
		set.Findings[0].Severity != tensor.SeverityWarning ||
		!strings.Contains(set.Findings[0].Err.Error(), `"a.W_q"`) {
		t.Error(set.Findings)
	}
	w := set.Weights[0]
	if _, err := tensor.Convert[float32](w.Tensor); w.Scheme != "hqq" || !errors.Is(err,
		errors.ErrUnsupported) || w.Err == nil {
		t.Errorf("%s: %v", w.Scheme, err)
	}
	if got := w.Parts[0].Tensor; got.DType != tensor.U8 {
		t.Error("the stored tensor is not a part")
	}
	if i := slices.IndexFunc(set.Weights,
		func(w *quant.Weight) bool { return w.Name == "ids" }); set.Weights[i].Scheme != "" {
		t.Error("positions are a weight")
	}
}

func TestStaleConfigurationIsAWarning(t *testing.T) {
	cfg := config(t, `{"quantization_config":{"quant_method":"fp8"}}`)
	set := quant.Find(of(list(t, "a.weight BF16 4 4")...), cfg)
	if len(set.Findings) != 1 || set.Findings[0].Code != quant.QuantizationConfig ||
		set.Findings[0].Severity != tensor.SeverityWarning {
		t.Error(set.Findings)
	}
}
