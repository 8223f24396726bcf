package rten

import (
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// An OpType is the type of an operator: its number in the schema. An unknown number is
// from a newer RTen.
type OpType uint8

// String returns the schema's name, which is ONNX's, or such as #145 if it is unknown.
func (t OpType) String() string {
	if t.Known() {
		return rtenfb.EnumNamesOperatorType[rtenfb.OperatorType(t)]
	}
	return "#" + strconv.Itoa(int(t))
}

// Known reports whether this library knows the operator.
func (t OpType) Known() bool { return int(t) < len(rules) }

// MinInputs returns how many inputs RTen requires; 0 for an unknown operator. The first
// inputs are the required ones.
func (t OpType) MinInputs() int { return t.rule().min }

// MaxInputs returns how many inputs RTen accepts; -1 for any number, and for an unknown
// operator.
func (t OpType) MaxInputs() int { return t.rule().max }

func (t OpType) rule() rule {
	if t.Known() {
		return rules[t]
	}
	return rule{max: -1}
}

// needsOneOf returns two optional inputs of which RTen requires at least one: the scales
// or sizes of Resize, the window or frame length of STFT.
func (t OpType) needsOneOf() (a, b int, ok bool) {
	return 2, 3, t == OpResize || t == OpSTFT
}

// ParseOpType returns the operator with that name in the schema, such as "MatMul"; false
// if there is none.
func ParseOpType(name string) (OpType, bool) {
	t, ok := rtenfb.EnumValuesOperatorType[name]
	return OpType(t), ok
}

// attrsUse says what RTen's loader does with an operator's table of attributes.
type attrsUse uint8

const (
	ignored  attrsUse = iota // it does not read the table
	optional                 // if the table is absent, attributes have their defaults
	needed                   // an absent table is an error, even if it has no fields
)

// A rule is what RTen requires of an operator.
type rule struct {
	since    release
	min, max int                  // inputs; a max of -1 is any number
	attrs    rtenfb.OperatorAttrs // 0 for none
	use      attrsUse
}

// rules is indexed by OpType.
var rules = makeRules()

func makeRules() []rule {
	all := make([]rule, len(rtenfb.EnumNamesOperatorType))
	for _, g := range ruleGroups {
		for _, t := range g.operators {
			r := rule{since: g.since, min: g.min, max: g.max}
			if r.attrs = attrsOf(t); r.attrs != 0 {
				r.use = needed
			}
			if t == OpCumSum || t == OpPad || t == OpShape {
				r.use = optional
			}
			all[t] = r
		}
	}
	return all
}

// attrsOf returns the table of attributes of an operator, 0 for none. Most operators have
// a table of their own.
func attrsOf(t OpType) rtenfb.OperatorAttrs {
	switch t {
	case OpArgMin:
		return rtenfb.OperatorAttrsArgMaxAttrs
	case OpLogSoftmax:
		return rtenfb.OperatorAttrsSoftmaxAttrs
	case OpInstanceNormalization:
		return rtenfb.OperatorAttrsBatchNormalizationAttrs
	case OpGatherElements:
		return rtenfb.OperatorAttrsGatherAttrs
	case OpConvInteger:
		return rtenfb.OperatorAttrsConvAttrs
	case OpScatter:
		return rtenfb.OperatorAttrsScatterElementsAttrs
	}
	name := rtenfb.EnumNamesOperatorType[rtenfb.OperatorType(t)]
	if strings.HasPrefix(name, "Reduce") {
		return rtenfb.OperatorAttrsReduceMeanAttrs
	}
	return rtenfb.EnumValuesOperatorAttrs[name+"Attrs"]
}

// ruleGroups are operators of the same release with the same numbers of inputs.
var ruleGroups = []struct {
	since     release
	min, max  int
	operators []OpType
}{
	{200, 1, -1, []OpType{OpConcat, OpMax, OpMean, OpMin, OpSum}},
	{200, 1, 1, []OpType{
		OpArgMin, OpArgMax, OpAveragePool, OpCast, OpConstantOfShape, OpCos, OpErf, OpFlatten,
		OpGlobalAveragePool, OpIdentity, OpLeakyRelu, OpLog, OpLogSoftmax, OpMaxPool, OpRelu,
		OpShape, OpSigmoid, OpSin, OpSqrt, OpSoftmax, OpTanh, OpTranspose, OpNonZero, OpNot,
		OpAbs, OpRound, OpFloor, OpCeil, OpReciprocal, OpNeg, OpExp, OpSize, OpTan, OpAcos,
		OpAsin, OpAtan, OpHardSigmoid, OpHardSwish, OpSign,
	}},
	{200, 1, 2, []OpType{
		OpReduceMean, OpReduceL2, OpSplit, OpSqueeze, OpReduceProd, OpReduceSum, OpReduceMin,
		OpReduceMax, OpTrilu,
	}},
	{200, 1, 3, []OpType{OpClip}},
	{200, 1, 4, []OpType{OpResize}},
	{200, 2, 2, []OpType{
		OpAdd, OpCumSum, OpDiv, OpEqual, OpExpand, OpGather, OpGreater, OpLess, OpLessOrEqual,
		OpMatMul, OpMod, OpMul, OpPow, OpReshape, OpSub, OpUnsqueeze, OpTile, OpTopK,
		OpGreaterOrEqual, OpAnd, OpOr, OpXor, OpGatherElements,
	}},
	{200, 2, 3, []OpType{OpConv, OpConvTranspose, OpGemm}},
	{200, 2, 4, []OpType{OpPad}},
	{200, 2, 5, []OpType{OpNonMaxSuppression}},
	{200, 3, 3, []OpType{
		OpRange, OpWhere, OpScatterElements, OpOneHot, OpInstanceNormalization, OpScatterND,
	}},
	{200, 3, 5, []OpType{OpSlice}},
	{200, 3, 6, []OpType{OpGRU}},
	{200, 3, 7, []OpType{OpLSTM}},
	{200, 5, 5, []OpType{OpBatchNormalization}},
	{300, 2, 3, []OpType{OpLayerNormalization}},
	{500, 1, 2, []OpType{OpReduceSumSquare}},
	{600, 0, 0, []OpType{OpRandomUniform}},
	{800, 1, 1, []OpType{OpElu}},
	{900, 0, 0, []OpType{OpRandomNormal}},
	{900, 1, 1, []OpType{OpRandomUniformLike, OpRandomNormalLike, OpSoftplus}},
	{900, 2, 2, []OpType{OpGatherND}},
	{1100, 1, 1, []OpType{OpGelu}},
	{1200, 1, -1, []OpType{OpEinsum}},
	{1300, 1, 1, []OpType{OpIf}},
	{1400, 1, 1, []OpType{OpDynamicQuantizeLinear}},
	{1400, 2, 3, []OpType{OpDequantizeLinear, OpQuantizeLinear}},
	{1400, 2, 4, []OpType{OpMatMulInteger}},
	{1500, 1, 1, []OpType{OpDepthToSpace}},
	{1600, 2, 4, []OpType{OpConvInteger}},
	{1700, 1, 3, []OpType{OpDropout}},
	{1700, 2, 2, []OpType{OpCastLike}},
	{1900, 1, 1, []OpType{OpEyeLike}},
	{2100, 1, 1, []OpType{OpIsNaN, OpIsInf}},
	{2200, 0, -1, []OpType{OpLoop}},
	{2200, 0, 0, []OpType{OpSequenceEmpty}},
	{2200, 1, -1, []OpType{OpSequenceConstruct}},
	{2200, 1, 1, []OpType{OpConcatFromSequence, OpSequenceLength}},
	{2200, 1, 2, []OpType{OpSplitToSequence, OpSequenceErase}},
	{2200, 2, 2, []OpType{OpSequenceAt, OpGridSample, OpPRelu}},
	{2200, 2, 3, []OpType{OpSequenceInsert}},
	{2200, 2, 4, []OpType{OpSTFT}},
	{2400, 1, 1, []OpType{OpGlobalMaxPool}},
	{2500, 1, 1, []OpType{OpAcosh, OpAsinh, OpAtanh, OpCosh, OpSinh, OpMultinomial}},
	{2500, 1, 2, []OpType{OpReduceL1}},
	{2500, 1, 3, []OpType{OpDFT}},
	{2500, 2, 2, []OpType{OpReverseSequence, OpUpsample}},
	{2500, 3, 3, []OpType{OpScatter}},
	{2500, 3, 4, []OpType{OpRotaryEmbedding}},
	{2500, 3, 7, []OpType{OpAttention}},
	{2600, 1, 1, []OpType{OpLpNormalization}},
	{2600, 1, 2, []OpType{OpReduceLogSum, OpReduceLogSumExp}},
}
