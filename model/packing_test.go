package model

import (
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestLogicalParameters(t *testing.T) {
	i32 := func(name string, shape ...int64) *tensor.Tensor {
		n, _ := tensor.Shape(shape).Elements()
		return tensor.New(name, shape, make([]int32, n))
	}
	u8 := func(name string, shape ...int64) *tensor.Tensor {
		n, _ := tensor.Shape(shape).Elements()
		return tensor.New(name, shape, make([]uint8, n))
	}
	f32 := func(name string, shape ...int64) *tensor.Tensor {
		n, _ := tensor.Shape(shape).Elements()
		return tensor.New(name, shape, make([]float32, n))
	}
	for _, c := range []struct {
		name, config string
		tensors      []*tensor.Tensor
		want         int64
	}{
		{"not packed", "{}", []*tensor.Tensor{f32("a.weight", 8, 8), f32("a.bias", 8)}, 72},
		{"GPTQ", `{"quantization_config": {"quant_method": "gptq", "bits": 4}}`,
			[]*tensor.Tensor{i32("a.g_idx", 64), i32("a.qweight", 8, 16), i32("a.qzeros", 1, 2),
				f32("a.scales", 1, 16), f32("norm", 5)}, 64*16 + 5},
		{"GPTQ of unknown bits", `{}`,
			[]*tensor.Tensor{i32("a.qweight", 8, 16), f32("a.scales", 1, 16)}, 8*16 + 16},
		{"MXFP4", "{}", []*tensor.Tensor{u8("a_blocks", 4, 16), u8("a_scales", 4)}, 128},
		{"bitsandbytes", "{}",
			[]*tensor.Tensor{u8("a.weight", 32, 1), f32("a.weight.absmax", 1),
				f32("a.weight.quant_map", 16), u8("a.weight.quant_state.bitsandbytes__nf4", 9)},
			64},
		{"compressed-tensors",
			`{"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}}}`,
			[]*tensor.Tensor{i32("a.weight_packed", 4, 4), f32("a.weight_scale", 4),
				i32("a.weight_shape", 2)}, 64},
		{"layers of different bits",
			`{"quantization_config": {"config_groups": {"g": {"weights": {"num_bits": 8}}, "h": {"weights": {"num_bits": 4}}}}}`,
			[]*tensor.Tensor{i32("a.weight_packed", 4, 4), f32("a.weight_scale", 4)}, 20},
		{"only the name of a packing", "{}",
			[]*tensor.Tensor{u8("a_blocks", 4, 16), u8("b_scales", 4)}, 68},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openFixture(t,
				map[string]any{"model.safetensors": fileOf(t, c.tensors...),
					"config.json": c.config}, ".", nil)
			if got := m.Summary().Logical; got != c.want {
				t.Errorf("%d parameters, want %d", got, c.want)
			}
		})
	}
}
