package rten

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func i0(v int32) *tensor.Tensor { return tensor.New("", nil, []int32{v}) }

func f32(v ...float32) *tensor.Tensor {
	return tensor.New("", tensor.Shape{int64(len(v))}, v)
}

func u8(shape tensor.Shape, v ...uint8) *tensor.Tensor { return tensor.New("", shape, v) }

func reshaped(t *tensor.Tensor, shape ...int64) *tensor.Tensor {
	c := *t
	c.Shape = shape
	return &c
}

type call struct {
	op      string
	attrs   Attrs
	inputs  []*tensor.Tensor // nil is one that is left out
	outputs int              // 0 is 1
}

func in(t ...*tensor.Tensor) []*tensor.Tensor { return t }

// calls are one or more uses of every operator that works on tensors alone;
// sequences and graphs are in sequenceModels.
func calls() []call {
	x := ramp(1, 2, 4, 4)
	m, m2 := ramp(2, 3), ramp(3, 2)
	v := ramp(4)
	var list []call
	unary := "Abs Acos Asin Atan Ceil Cos Erf Exp Floor Identity Log Neg Reciprocal Relu Round Sigmoid Sign Sin Sqrt Tan Tanh HardSwish Softplus IsNaN Asinh Atanh Cosh Sinh Size NonZero"
	for _, op := range strings.Fields(unary) {
		list = append(list, call{op, nil, in(v), 0})
	}
	for _, op := range strings.Fields(
		"Add Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Pow Sub PRelu Max Mean Min Sum") {
		list = append(list, call{op, nil, in(v, f0(2)), 0})
	}
	for _, op := range strings.Fields("And Or Xor") {
		list = append(list, call{op, nil, in(bools(1, 0, 1), bools(1, 1, 0)), 0})
	}
	for _, op := range strings.Fields(
		"ReduceMean ReduceL2 ReduceProd ReduceSum ReduceMin ReduceMax ReduceSumSquare ReduceL1 ReduceLogSum ReduceLogSumExp") {
		list = append(list, call{op, nil, in(m), 0},
			call{op, Attrs{"keep_dims": false, "axes": []int{1}}, in(m), 0},
			call{op, Attrs{"noop_with_empty_axes": true}, in(m), 0})
	}
	for _, op := range strings.Fields("ArgMin ArgMax") {
		list = append(list, call{op, nil, in(m), 0},
			call{op, Attrs{"axis": -1, "keep_dims": false}, in(m), 0})
	}
	for _, op := range strings.Fields("Softmax LogSoftmax") {
		list = append(list, call{op, nil, in(m), 0}, call{op, Attrs{"axis": 0}, in(m), 0})
	}
	gates := func(n int64) []*tensor.Tensor {
		return in(ramp(2, 1, 3), ramp(1, n*2, 3), ramp(1, n*2, 2))
	}
	return append(list, []call{
		{"Acosh", nil, in(f32(1.5, 2)), 0},
		{"Not", nil, in(bools(1, 0)), 0},
		{"Attention", nil, in(ramp(1, 2, 3, 4), ramp(1, 2, 3, 4), ramp(1, 2, 3, 4)), 0},
		{"Attention", Attrs{"is_causal": true, "scale": 0.5},
			in(ramp(1, 2, 3, 4), ramp(1, 2, 3, 4), ramp(1, 2, 3, 4)), 0},
		{"Attention", Attrs{"q_num_heads": 2, "kv_num_heads": 2, "softcap": 2.0},
			in(ramp(1, 3, 8), ramp(1, 3, 8), ramp(1, 3, 8)), 0},
		{"AveragePool", Attrs{"kernel_size": []int{2, 2}}, in(x), 0},
		{"AveragePool", Attrs{"kernel_size": []int{2, 2}, "auto_pad": "Same",
			"strides": []int{2, 2}, "count_include_pad": true, "ceil_mode": true}, in(x), 0},
		{"AveragePool", Attrs{"kernel_size": []int{3}}, in(ramp(1, 2, 6)), 0},
		{"MaxPool", Attrs{"kernel_size": []int{2, 2}}, in(x), 0},
		{"MaxPool", Attrs{"kernel_size": []int{2, 2}, "pads": []int{1, 1, 1, 1},
			"strides": []int{2, 2}, "ceil_mode": true}, in(x), 0},
		{"MaxPool", Attrs{"kernel_size": []int{3}}, in(ramp(1, 2, 6)), 0},
		{"BatchNormalization", nil, in(x, ramp(2), ramp(2), ramp(2), ramp(2)), 0},
		{"BatchNormalization", Attrs{"epsilon": 0.5}, in(x, ramp(2), ramp(2), ramp(2), ramp(2)),
			0},
		{"Cast", Attrs{"to": tensor.I32}, in(v), 0}, {"Cast", Attrs{"to": "Int8"}, in(v), 0},
		{"Cast", Attrs{"to": tensor.U8}, in(v), 0},
		{"Cast", Attrs{"to": tensor.F32}, in(i32(1, 2)), 0},
		{"CastLike", nil, in(v, i0(1)), 0},
		{"Clip", nil, in(v, f0(.15), f0(.25)), 0}, {"Clip", nil, in(v, nil, f0(.25)), 0},
		{"Concat", Attrs{"axis": 0}, in(v, v, v), 0}, {"Concat", Attrs{"axis": -1}, in(m, m), 0},
		{"ConstantOfShape", Attrs{"value": 7}, in(i32(2, 3)), 0},
		{"ConstantOfShape", Attrs{"value": 1.5}, in(i32(2)), 0},
		{"ConstantOfShape", nil, in(i32(2)), 0},
		{"Conv", nil, in(x, ramp(3, 2, 2, 2)), 0},
		{"Conv", Attrs{"groups": 2, "strides": []int{2, 2}, "pads": []int{1, 1, 1, 1},
			"dilations": []int{2, 2}}, in(x, ramp(2, 1, 2, 2), ramp(2)), 0},
		{"Conv", Attrs{"auto_pad": "Same"}, in(x, ramp(3, 2, 3, 3)), 0},
		{"Conv", nil, in(ramp(1, 2, 5), ramp(3, 2, 3)), 0},
		{"ConvInteger", nil,
			in(u8(tensor.Shape{1, 1, 2, 2}, 1, 2, 3, 4), i8(tensor.Shape{1, 1, 1, 1}, -2)), 0},
		{"ConvTranspose", nil, in(x, ramp(2, 1, 2, 2)), 0},
		{"ConvTranspose", Attrs{"strides": []int{2, 2}, "output_padding": []int{1, 1},
			"pads": []int{1, 1, 1, 1}, "groups": 1, "dilations": []int{2, 2}},
			in(x, ramp(2, 1, 3, 3)), 0},
		{"ConvTranspose", Attrs{"auto_pad": "Same", "strides": []int{2, 2}},
			in(x, ramp(2, 1, 2, 2)), 0},
		{"CumSum", nil, in(v, i0(0)), 0},
		{"CumSum", Attrs{"exclusive": true, "reverse": true}, in(v, i0(0)), 0},
		{"DequantizeLinear", nil, in(u8(tensor.Shape{3}, 1, 2, 3), f0(.5), u8(nil, 1)), 0},
		{"DequantizeLinear", Attrs{"axis": 0},
			in(i8(tensor.Shape{2, 2}, 1, -2, 3, 4), f32(.5, 2), i8(tensor.Shape{2}, 0, 1)), 0},
		{"QuantizeLinear", nil, in(v, f0(.1), u8(nil, 3)), 0},
		{"QuantizeLinear", Attrs{"axis": 0, "output_dtype": tensor.I8}, in(m, f32(.1, .2)), 0},
		{"DynamicQuantizeLinear", nil, in(v), 3},
		{"MatMulInteger", nil,
			in(u8(tensor.Shape{2, 2}, 1, 2, 3, 4), i8(tensor.Shape{2, 2}, 1, -1, 2, 0)), 0},
		{"DFT", nil, in(ramp(1, 4, 1)), 0},
		{"DFT", Attrs{"onesided": true}, in(ramp(1, 4, 1), nil, i0(1)), 0},
		{"DFT", Attrs{"inverse": true}, in(ramp(1, 4, 2)), 0},
		{"DepthToSpace", Attrs{"block_size": 2}, in(ramp(1, 4, 2, 2)), 0},
		{"DepthToSpace", Attrs{"block_size": 2, "mode": "CRD"}, in(ramp(1, 4, 2, 2)), 0},
		{"Dropout", Attrs{"seed": 5}, in(v), 2}, {"Dropout", nil, in(v, f0(0.5)), 0},
		{"Einsum", Attrs{"equation": "ij,jk->ik"}, in(m, m2), 0},
		{"Elu", nil, in(f32(-1, 1)), 0}, {"Elu", Attrs{"alpha": 2}, in(f32(-1, 1)), 0},
		{"Expand", nil, in(v, i32(2, 4)), 0},
		{"EyeLike", nil, in(m), 0}, {"EyeLike", Attrs{"dtype": tensor.I32, "k": 1}, in(m), 0},
		{"Flatten", nil, in(x), 0}, {"Flatten", Attrs{"axis": 3}, in(x), 0},
		{"Gather", nil, in(m, i32(1)), 0}, {"Gather", Attrs{"axis": 1}, in(m, i32(2, 0)), 0},
		{"GatherElements", Attrs{"axis": 1}, in(m, reshaped(i32(0, 1), 2, 1)), 0},
		{"GatherND", nil, in(m, reshaped(i32(0, 1), 1, 2)), 0},
		{"GatherND", Attrs{"batch_dims": 1}, in(m, reshaped(i32(0, 1), 2, 1)), 0},
		{"Gelu", nil, in(v), 0}, {"Gelu", Attrs{"approximate": "Tanh"}, in(v), 0},
		{"Gemm", nil, in(m, m2, f0(1)), 0},
		{"Gemm", Attrs{"alpha": .5, "beta": 2, "transpose_a": true, "transpose_b": true},
			in(m2, m, f0(1)), 0},
		{"GlobalAveragePool", nil, in(x), 0}, {"GlobalMaxPool", nil, in(x), 0},
		{"GridSample", nil, in(x, ramp(1, 2, 2, 2)), 0},
		{"GridSample", Attrs{"align_corners": true}, in(x, ramp(1, 2, 2, 2)), 0},
		{"GRU", Attrs{"hidden_size": 2, "linear_before_reset": true}, gates(3), 2},
		{"GRU", Attrs{"hidden_size": 2, "direction": "Reverse", "linear_before_reset": true},
			gates(3), 1},
		{"GRU", Attrs{"hidden_size": 2, "direction": "Bidirectional", "linear_before_reset": 1},
			in(ramp(2, 1, 3), ramp(2, 6, 3), ramp(2, 6, 2)), 1},
		{"LSTM", Attrs{"hidden_size": 2}, gates(4), 3},
		{"LSTM", Attrs{"hidden_size": 2, "direction": "Reverse"}, gates(4), 1},
		{"HardSigmoid", nil, in(v), 0}, {"HardSigmoid", Attrs{"alpha": .1, "beta": .9}, in(v), 0},
		{"InstanceNormalization", nil, in(x, ramp(2), ramp(2)), 0},
		{"InstanceNormalization", Attrs{"epsilon": .1}, in(x, ramp(2), ramp(2)), 0},
		{"IsInf", nil, in(v), 0},
		{"LayerNormalization", nil, in(m, ramp(3), ramp(3)), 0},
		{"LayerNormalization", Attrs{"axis": 0, "epsilon": .1}, in(m, reshaped(ramp(6), 2, 3)), 0},
		{"LeakyRelu", nil, in(f32(-1, 1)), 0},
		{"LeakyRelu", Attrs{"alpha": .5}, in(f32(-1, 1)), 0},
		{"LpNormalization", nil, in(m), 0},
		{"LpNormalization", Attrs{"axis": 0, "p": 1}, in(m), 0},
		{"MatMul", nil, in(m, m2), 0},
		{"Mod", nil, in(i32(-5, 5), i32(3, 3)), 0},
		{"Mod", Attrs{"fmod": true}, in(f32(-5, 5), f32(3, 3)), 0},
		{"Multinomial", Attrs{"sample_size": 3, "seed": 2.0}, in(m), 0},
		{"Multinomial", nil, in(m), 0},
		{"NonMaxSuppression", nil, in(ramp(1, 2, 4), ramp(1, 1, 2), i0(1)), 0},
		{"NonMaxSuppression", Attrs{"box_order": "CenterWidthHeight"},
			in(ramp(1, 2, 4), ramp(1, 1, 2), i0(1)), 0},
		{"OneHot", nil, in(i32(0, 2), i0(3), f32(0, 1)), 0},
		{"OneHot", Attrs{"axis": 0}, in(i32(0, 2), i0(3), f32(0, 1)), 0},
		{"Pad", nil, in(v, i32(1, 1), f0(9)), 0},
		{"Pad", Attrs{"mode": "Reflect"}, in(v, i32(1, 1)), 0},
		{"Pad", Attrs{"mode": "Edge"}, in(v, i32(1, 1)), 0},
		{"Pad", Attrs{"mode": "Wrap"}, in(v, i32(1, 1)), 0},
		{"RandomNormal", Attrs{"shape": []int{2, 2}, "seed": 1.0, "mean": 3, "scale": .5}, nil, 0},
		{"RandomNormal", Attrs{"shape": []int{2}}, nil, 0},
		{"RandomNormalLike", Attrs{"seed": 1.0}, in(v), 0},
		{"RandomUniform", Attrs{"shape": []int{2, 2}, "seed": 1.0, "low": 2, "high": 3}, nil, 0},
		{"RandomUniformLike", nil, in(v), 0},
		{"Range", nil, in(i0(0), i0(5), i0(2)), 0},
		{"Reshape", nil, in(m, i32(3, -1)), 0},
		{"Reshape", Attrs{"allow_zero": true}, in(ramp(0, 3), i32(0, 3)), 0},
		{"Resize", nil, in(x, nil, f32(1, 1, 2, 2)), 0},
		{"Resize", Attrs{"mode": "Linear", "coord_mode": "AlignCorners", "nearest_mode": "Floor"},
			in(x, nil, f32(1, 1, 2, 2)), 0},
		{"Resize", Attrs{"coord_mode": "PytorchHalfPixel", "nearest_mode": "RoundPreferCeil"},
			in(x, nil, nil, i32(1, 2, 3, 3)), 0},
		{"Resize", Attrs{"coord_mode": "Asymmetric", "nearest_mode": "Ceil"},
			in(x, nil, nil, i32(1, 2, 3, 3)), 0},
		{"ReverseSequence", nil, in(m, i32(1, 2, 2)), 0},
		{"ReverseSequence", Attrs{"batch_axis": 0, "time_axis": 1}, in(m, i32(1, 2)), 0},
		{"RotaryEmbedding", nil,
			in(ramp(1, 2, 3, 4), ramp(8, 2), ramp(8, 2), reshaped(i32(0, 1, 2), 1, 3)), 0},
		{"RotaryEmbedding", Attrs{"interleaved": true, "num_heads": 2, "rotary_embedding_dim": 2},
			in(ramp(1, 3, 8), ramp(8, 1), ramp(8, 1), reshaped(i32(0, 1, 2), 1, 3)), 0},
		{"Scatter", nil, in(v, i32(1), f32(9)), 0},
		{"ScatterElements", Attrs{"axis": 0, "reduction": "Add"}, in(v, i32(1), f32(9)), 0},
		{"ScatterElements", nil, in(v, i32(1), f32(9)), 0},
		{"ScatterND", nil, in(v, reshaped(i32(1), 1, 1), f32(9)), 0},
		{"ScatterND", Attrs{"reduction": "Max"}, in(v, reshaped(i32(1), 1, 1), f32(9)), 0},
		{"ScatterND", Attrs{"reduction": "Mul"}, in(v, reshaped(i32(1), 1, 1), f32(9)), 0},
		{"ScatterND", Attrs{"reduction": "Min"}, in(v, reshaped(i32(1), 1, 1), f32(9)), 0},
		{"Shape", nil, in(x), 0}, {"Shape", Attrs{"start": 1, "end": -1}, in(x), 0},
		{"Slice", nil, in(v, i32(1), i32(3), i32(0), i32(1)), 0},
		{"Split", nil, in(v, i32(1, 3)), 2},
		{"Split", Attrs{"axis": -1, "num_outputs": 2}, in(v), 2},
		{"Squeeze", nil, in(x, i32(0)), 0}, {"Unsqueeze", nil, in(v, i32(0)), 0},
		{"STFT", nil, in(ramp(1, 8, 1), i0(4), nil, i0(4)), 0},
		{"STFT", Attrs{"onesided": false}, in(ramp(1, 8, 1), i0(4), nil, i0(4)), 0},
		{"Tile", nil, in(v, i32(2)), 0},
		{"TopK", nil, in(v, i32(2)), 2},
		{"TopK", Attrs{"axis": 0, "largest": false, "sorted": false}, in(v, i32(2)), 2},
		{"Transpose", nil, in(m), 0}, {"Transpose", Attrs{"perm": []int{0, 3, 1, 2}}, in(x), 0},
		{"Trilu", nil, in(m), 0}, {"Trilu", Attrs{"upper": 0}, in(m, i0(1)), 0},
		{"Upsample", nil, in(x, f32(1, 1, 2, 2)), 0},
		{"Upsample", Attrs{"mode": "Linear"}, in(x, f32(1, 1, 2, 2)), 0},
		{"Where", nil, in(bools(1, 0), f32(1, 2), f32(3, 4)), 0},
	}...)
}

func (c call) build(t testing.TB) *GraphBuilder {
	g := NewGraphBuilder()
	var inputs []Ref
	for _, x := range c.inputs {
		r := Ref{}
		if x != nil {
			r = g.Constant(x)
		}
		inputs = append(inputs, r)
	}
	for i, out := range g.Ops(c.op, c.attrs, max(c.outputs, 1), inputs...) {
		g.Output(fmt.Sprintf("y%d", i), out)
	}
	return g
}

func bools(v ...int32) *tensor.Tensor { return i32(v...) }
