package convert

import (
	"errors"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// zeros returns a tensor of a dtype.
func zeros(name string, d tensor.DType, shape ...int64) *tensor.Tensor {
	n, _ := tensor.Shape(shape).Elements()
	size, _ := d.Bytes(n)
	return &tensor.Tensor{Name: name, DType: d, Shape: shape,
		Data: tensor.BlobOf(make([]byte, size))}
}

// zeroBlocks returns a tensor of quantised blocks.
func zeroBlocks(name, kind string, shape ...int64) *tensor.Tensor {
	k, _ := ggml.Named(kind)
	n, _ := tensor.Shape(shape).Elements()
	return &tensor.Tensor{Name: name, Shape: shape, Scheme: k.Name, Parts: []tensor.Part{
		{Role: "blocks", Data: tensor.BlobOf(make([]byte, n/k.Elements*k.Bytes))}}}
}

// lossesOf returns the losses of a kind of making everything float32.
func lossesOf(t *testing.T, kind LossKind, ts ...*tensor.Tensor) (all []Loss) {
	t.Helper()
	o := &Options{
		Map: func(t *tensor.Tensor) (string, tensor.DType, bool) {
			if t.DType.IsComplex() {
				return t.Name, tensor.Unknown, true
			}
			return t.Name, tensor.F32, true
		}}
	p, err := NewPlan(t.Context(), tensorfile.FromTensors(ts, nil), tensorfile.Safetensors, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Losses() {
		if l.Kind == kind {
			all = append(all, l)
		}
	}
	return all
}

// A quantised tensor is not cast past its scale, in whatever scheme.
func TestCastPastAScaleIsALoss(t *testing.T) {
	const f8, f32, e8 = tensor.F8E4M3FN, tensor.F32, tensor.F8E8M0FNU
	for name, c := range map[string]struct {
		weight, scale *tensor.Tensor
		where         string
	}{
		"fp8 by blocks": {zeros("l.weight", f8, 256, 256), zeros("l.weight_scale_inv", f32, 2, 2),
			"weight_scale_inv"},
		"fp8 by blocks, short ones": {zeros("l.weight", f8, 300, 130),
			zeros("l.weight_scale_inv", tensor.BF16, 3, 2), "weight_scale_inv"},
		"fp8 of experts": {zeros("l.experts.up", f8, 2, 4, 8),
			zeros("l.experts.up_scale_inv", f32, 2, 1, 1), "up_scale_inv"},
		"fp8 by channel": {zeros("l.weight", f8, 4, 8), zeros("l.weight_scale", tensor.BF16, 4, 1),
			"weight_scale"},
		"fp8 as a whole": {zeros("l.weight", tensor.F8E5M2, 4, 8), zeros("l.weight_scale", f32),
			"weight_scale"},
		"fp8 of ComfyUI": {zeros("l.weight", f8, 4, 8), zeros("l.scale_weight", f32, 1),
			"scale_weight"},
		"fp8 of Mistral": {zeros("l.weight", f8, 4, 8), zeros("l.qscale_weight", f32),
			"qscale_weight"},
		"without a module": {zeros("weight", f8, 4, 8), zeros("weight_scale_inv", f32, 1, 1),
			"weight_scale_inv"},
		"fnuz": {zeros("l.weight", tensor.F8E4M3FNUZ, 4, 8), zeros("l.weight_scale", f32),
			"weight_scale"},
		"mxfp8": {zeros("l.weight", f8, 4, 32), zeros("l.weight_scale", tensor.U8, 4, 1),
			"weight_scale"},
		"DeepSeek-V4": {zeros("w1.weight", tensor.I8, 4, 32),
			zeros("w1.scale", e8, 4, 2), "scale"},
		"its fp8": {zeros("w1.weight", f8, 256, 128), zeros("w1.scale", e8, 2, 1), "scale"},
		"nvfp4": {zeros("l.weight", tensor.U8, 4, 16),
			zeros("l.weight_scale", f8, 4, 2), "weight_scale"},
		"nvfp4 swizzle": {zeros("l.weight", tensor.U8, 16, 16),
			zeros("l.weight_scale", f8, 128, 4), ""},
		"fp4 codes": {zeros("l.weight", tensor.F4E2M1FN, 4, 16), zeros("l.weight_scale", e8, 4, 1),
			"weight_scale"},
		"packed nvfp4": {zeros("l.weight_packed", tensor.U8, 4, 16),
			zeros("l.weight_scale", f8, 4, 2), ""},
		"int8 by row": {zeros("l.weight", tensor.I8, 4, 8),
			zeros("l.weight_scale", f32, 4, 1), "weight_scale"},
		"int8": {zeros("l.weight", tensor.I8, 4, 8),
			zeros("l.weight_scale", f32), "weight_scale"},
		"gpt-oss": {zeros("m.down_proj_blocks", tensor.U8, 2, 4, 3, 16),
			zeros("m.down_proj_scales", tensor.U8, 2, 4, 3), "down_proj_scales"},
		"MLX": {zeros("l.weight", tensor.U32, 4, 8),
			zeros("l.scales", tensor.BF16, 4, 1), "scales"},
		"its int8": {zeros("l.weight", tensor.I8, 4, 8), zeros("l.SCB", f32, 4), "SCB"},
		"torchao": {zeros("l._weight_qdata", tensor.I8, 4, 8),
			zeros("l._weight_scale", f32, 4, 1), "_weight_scale"},
		"torchao .bin": {zeros("0.weight.qdata", f8, 4, 8),
			zeros("0.weight.scale", f32, 4, 1), "scale"},
		"quanto": {zeros("l.weight._data", tensor.I8, 4, 8),
			zeros("l.weight._scale", f32, 4, 1), "_scale"},
		"ONNX Runtime": {zeros("w_quantized", tensor.I8, 4, 8), zeros("w_scale", f32), "w_scale"},
		"GGUF": {zeroBlocks("blk.0.up.weight", "NVFP4", 4, 64),
			zeros("blk.0.up.scale", f32, 1), "scale"},
		"GGUF, ternary": {zeroBlocks("blk.0.up.weight", "TQ2_0", 4, 256),
			zeros("blk.0.up.scale", f32, 1), "scale"},
		"GGUF, experts": {zeroBlocks("blk.0.up_exps.weight", "NVFP4", 3, 4, 64),
			zeros("blk.0.up_exps.scale", f32, 3), "scale"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ts := range [][]*tensor.Tensor{{c.weight, c.scale}, {c.scale, c.weight}} {
				l, where := lossesOf(t, LossScale, ts...), c.where
				if strings.Contains(c.scale.Name, ".") {
					where = "*." + where
				}
				reason := " becomes float32, and its scale, " + where + ", is not applied"
				if c.where == "" { // parts do not fit together
					reason = " becomes float32 as it is"
				}
				if len(l) != 1 || l[0].Field != fieldOf(c.weight) || l[0].Requested ||
					!strings.HasSuffix(l[0].Reason, reason) {
					t.Errorf("%v", l)
				}
			}
			if l := lossesOf(t, LossScale, c.weight); len(l) > 0 {
				t.Errorf("without the scale: %v", l)
			}
		})
	}
	quantised := zeros("w", tensor.QI8, 4)
	if l := lossesOf(t, LossScale, quantised); len(l) != 1 {
		t.Errorf("qint8: %v", l)
	}
}

// Tensors of an ordinary network may have the names of scales.
func TestNamesOfScalesInOrdinaryNetworksAreNoLoss(t *testing.T) {
	const f32 = tensor.F32
	for name, ts := range map[string][]*tensor.Tensor{
		"learned scales": {zeros("norm.scale", f32, 8), zeros("norm.weight", tensor.BF16, 8),
			zeros("scale", f32), zeros("weight", tensor.F16, 4, 8), zeros("weight_scale", f32)},
		"a norm in fp8": {zeros("norm.weight", tensor.F8E4M3FN, 8),
			zeros("norm.scale", tensor.BF16, 8)},
		"float blocks": {zeros("x_blocks", tensor.F16, 2, 2, 2, 16),
			zeros("x_scales", f32, 2, 2, 2)},
		"scales of an RNN": {zeros("rnn.weight", tensor.F16, 4, 8),
			zeros("rnn.scales", f32, 4, 1)},
		"integer tables": {zeros("tid2eid", tensor.I32, 4, 8),
			zeros("scales", f32, 4, 1),
			zeros("tid.weight", tensor.I32, 4, 8),
			zeros("tid.weight_scale", f32, 4, 1)},
		"a mask": {zeros("attn.mask", tensor.U8, 4, 4),
			zeros("attn.scale", f32),
			zeros("attn.mask_scale", f32)},
		"a scale of others": {zeros("a.weight", tensor.F8E4M3FN, 4, 8),
			zeros("b.weight_scale", f32),
			zeros("a.input_scale", f32),
			zeros("a.k_scale", f32)},
		"layers of ints": {zeros("l.weight", tensor.I8, 4, 8),
			zeros("l.scale", f32, 4),
			zeros("l.weight_scale", f32, 7, 3)},
	} {
		if l := lossesOf(t, LossScale, ts...); len(l) > 0 {
			t.Errorf("%s: %v", name, l)
		}
	}
	// As long as elements stay what they are nothing is lost.
	src := tensorfile.FromTensors([]*tensor.Tensor{zeros("l.weight", tensor.F8E4M3FN, 4, 8),
		zeros("l.weight_scale_inv", f32, 1, 1)}, nil)
	for _, o := range []*Options{nil,
		{Map: dtypes(map[tensor.DType]tensor.DType{f32: tensor.BF16})}} {
		p, err := NewPlan(t.Context(), src, tensorfile.Safetensors, o)
		if err != nil || p.Err() != nil {
			t.Errorf("%v, %v", err, p)
		}
	}
}

// A target that lacks the dtype, and blocks, lose the scale as well; --allow is by name.
func TestScaleIsLostWhereTheDTypeIsLost(t *testing.T) {
	src := tensorfile.FromTensors([]*tensor.Tensor{zeros("l.weight", tensor.F8E4M3FN, 4, 32),
		zeros("l.weight_scale_inv", tensor.F32, 1, 1)}, nil)
	for name, c := range map[string]struct {
		to    tensorfile.Format
		o     Options
		kinds LossKind
	}{
		"npz": {tensorfile.NPZ, Options{Allow: LossWiden}, LossWiden | LossScale},
		"blocks": {tensorfile.GGUF, Options{Quantize: func(x *tensor.Tensor) string {
			if x.Name == "l.weight" {
				return "Q8_0"
			}
			return ""
		}}, LossNarrow | LossScale},
	} {
		p, err := NewPlan(t.Context(), src, c.to, &c.o)
		if err != nil {
			t.Fatal(err)
		}
		var kinds LossKind
		for _, l := range p.Losses() {
			kinds |= l.Kind
		}
		var refused *LossError
		if err := p.Err(); !errors.As(err, &refused) || len(refused.Losses) != 1 ||
			refused.Losses[0].Kind != LossScale || kinds != c.kinds {
			t.Errorf("%s: %v, %v", name, err, p.Losses())
		}
		c.o.Allow |= LossScale
		if p, err = NewPlan(t.Context(), src, c.to, &c.o); err != nil || p.Err() != nil {
			t.Errorf("%s, allowed: %v", name, p.Err())
		}
	}
}
