package rten

import (
	"strconv"

	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// An OpType is the number of an operator. Numbers are only ever appended: a
// number that this library has no name for belongs to a newer RTen.
type OpType uint8

// String returns the schema's name, which is ONNX's, or #145 for a number without.
func (t OpType) String() string {
	if t.Known() {
		return rtenfb.EnumNamesOperatorType[rtenfb.OperatorType(t)]
	}
	return "#" + strconv.Itoa(int(t))
}

// Known reports whether the operator has a name here.
func (t OpType) Known() bool { return int(t) < len(operators) }

// MinInputs returns how many inputs RTen requires, which are the first ones: 0 for an
// operator that is not known.
func (t OpType) MinInputs() int {
	if t.Known() {
		return int(operators[t].min)
	}
	return 0
}

// MaxInputs returns how many inputs RTen accepts for the operator: -1 for any
// number, and for an operator that is not known.
func (t OpType) MaxInputs() int {
	if t.Known() {
		return int(operators[t].max)
	}
	return -1
}

// needsOneOf returns two further inputs of which RTen requires one: the scales or sizes
// of Resize, the window or frame length of STFT.
func (t OpType) needsOneOf() (a, b int, ok bool) {
	return 2, 3, t == OpResize || t == OpSTFT
}

// ParseOpType finds an operator by the schema's name, such as "MatMul".
func ParseOpType(name string) (OpType, bool) {
	t, ok := rtenfb.EnumValuesOperatorType[name]
	return OpType(t), ok
}

// attrsUse says what RTen's loader does with an operator's attributes.
type attrsUse uint8

const (
	ignored  attrsUse = iota // it never reads them
	optional                 // absent ones have their defaults
	needed                   // absent ones are an error, even where the table has no fields
)

// operators is indexed by OpType: what RTen requires of them.
var operators = [...]struct {
	since    release
	min, max int8                 // inputs; a max of -1 is any number
	attrs    rtenfb.OperatorAttrs // 0 for none
	use      attrsUse
}{
	OpAdd:                   {200, 2, 2, 0, ignored},
	OpArgMin:                {200, 1, 1, rtenfb.OperatorAttrsArgMaxAttrs, needed},
	OpArgMax:                {200, 1, 1, rtenfb.OperatorAttrsArgMaxAttrs, needed},
	OpAveragePool:           {200, 1, 1, rtenfb.OperatorAttrsAveragePoolAttrs, needed},
	OpBatchNormalization:    {200, 5, 5, rtenfb.OperatorAttrsBatchNormalizationAttrs, needed},
	OpCast:                  {200, 1, 1, rtenfb.OperatorAttrsCastAttrs, needed},
	OpClip:                  {200, 1, 3, 0, ignored},
	OpConcat:                {200, 1, -1, rtenfb.OperatorAttrsConcatAttrs, needed},
	OpConstantOfShape:       {200, 1, 1, rtenfb.OperatorAttrsConstantOfShapeAttrs, needed},
	OpConv:                  {200, 2, 3, rtenfb.OperatorAttrsConvAttrs, needed},
	OpConvTranspose:         {200, 2, 3, rtenfb.OperatorAttrsConvTransposeAttrs, needed},
	OpCos:                   {200, 1, 1, 0, ignored},
	OpCumSum:                {200, 2, 2, rtenfb.OperatorAttrsCumSumAttrs, optional},
	OpDiv:                   {200, 2, 2, 0, ignored},
	OpEqual:                 {200, 2, 2, 0, ignored},
	OpErf:                   {200, 1, 1, 0, ignored},
	OpExpand:                {200, 2, 2, 0, ignored},
	OpFlatten:               {200, 1, 1, rtenfb.OperatorAttrsFlattenAttrs, needed},
	OpGather:                {200, 2, 2, rtenfb.OperatorAttrsGatherAttrs, needed},
	OpGemm:                  {200, 2, 3, rtenfb.OperatorAttrsGemmAttrs, needed},
	OpGlobalAveragePool:     {200, 1, 1, 0, ignored},
	OpGreater:               {200, 2, 2, 0, ignored},
	OpGRU:                   {200, 3, 6, rtenfb.OperatorAttrsGRUAttrs, needed},
	OpIdentity:              {200, 1, 1, 0, ignored},
	OpLeakyRelu:             {200, 1, 1, rtenfb.OperatorAttrsLeakyReluAttrs, needed},
	OpLess:                  {200, 2, 2, 0, ignored},
	OpLessOrEqual:           {200, 2, 2, 0, ignored},
	OpLog:                   {200, 1, 1, 0, ignored},
	OpLogSoftmax:            {200, 1, 1, rtenfb.OperatorAttrsSoftmaxAttrs, needed},
	OpLSTM:                  {200, 3, 7, rtenfb.OperatorAttrsLSTMAttrs, needed},
	OpMatMul:                {200, 2, 2, 0, ignored},
	OpMaxPool:               {200, 1, 1, rtenfb.OperatorAttrsMaxPoolAttrs, needed},
	OpMod:                   {200, 2, 2, rtenfb.OperatorAttrsModAttrs, needed},
	OpMul:                   {200, 2, 2, 0, ignored},
	OpPad:                   {200, 2, 4, rtenfb.OperatorAttrsPadAttrs, optional},
	OpPow:                   {200, 2, 2, 0, ignored},
	OpRange:                 {200, 3, 3, 0, ignored},
	OpReduceMean:            {200, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpReduceL2:              {200, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpRelu:                  {200, 1, 1, 0, ignored},
	OpReshape:               {200, 2, 2, rtenfb.OperatorAttrsReshapeAttrs, needed},
	OpResize:                {200, 1, 4, rtenfb.OperatorAttrsResizeAttrs, needed},
	OpShape:                 {200, 1, 1, rtenfb.OperatorAttrsShapeAttrs, optional},
	OpSigmoid:               {200, 1, 1, 0, ignored},
	OpSin:                   {200, 1, 1, 0, ignored},
	OpSlice:                 {200, 3, 5, 0, ignored},
	OpSplit:                 {200, 1, 2, rtenfb.OperatorAttrsSplitAttrs, needed},
	OpSqrt:                  {200, 1, 1, 0, ignored},
	OpSqueeze:               {200, 1, 2, 0, ignored},
	OpSoftmax:               {200, 1, 1, rtenfb.OperatorAttrsSoftmaxAttrs, needed},
	OpSub:                   {200, 2, 2, 0, ignored},
	OpTanh:                  {200, 1, 1, 0, ignored},
	OpTranspose:             {200, 1, 1, rtenfb.OperatorAttrsTransposeAttrs, needed},
	OpUnsqueeze:             {200, 2, 2, 0, ignored},
	OpWhere:                 {200, 3, 3, 0, ignored},
	OpReduceProd:            {200, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpReduceSum:             {200, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpReduceMin:             {200, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpReduceMax:             {200, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpNonZero:               {200, 1, 1, 0, ignored},
	OpScatterElements:       {200, 3, 3, rtenfb.OperatorAttrsScatterElementsAttrs, needed},
	OpTile:                  {200, 2, 2, 0, ignored},
	OpNot:                   {200, 1, 1, 0, ignored},
	OpAbs:                   {200, 1, 1, 0, ignored},
	OpMax:                   {200, 1, -1, 0, ignored},
	OpMean:                  {200, 1, -1, 0, ignored},
	OpMin:                   {200, 1, -1, 0, ignored},
	OpSum:                   {200, 1, -1, 0, ignored},
	OpOneHot:                {200, 3, 3, rtenfb.OperatorAttrsOneHotAttrs, needed},
	OpRound:                 {200, 1, 1, 0, ignored},
	OpFloor:                 {200, 1, 1, 0, ignored},
	OpCeil:                  {200, 1, 1, 0, ignored},
	OpReciprocal:            {200, 1, 1, 0, ignored},
	OpTopK:                  {200, 2, 2, rtenfb.OperatorAttrsTopKAttrs, needed},
	OpNeg:                   {200, 1, 1, 0, ignored},
	OpExp:                   {200, 1, 1, 0, ignored},
	OpGreaterOrEqual:        {200, 2, 2, 0, ignored},
	OpSize:                  {200, 1, 1, 0, ignored},
	OpTan:                   {200, 1, 1, 0, ignored},
	OpAcos:                  {200, 1, 1, 0, ignored},
	OpAsin:                  {200, 1, 1, 0, ignored},
	OpAtan:                  {200, 1, 1, 0, ignored},
	OpInstanceNormalization: {200, 3, 3, rtenfb.OperatorAttrsBatchNormalizationAttrs, needed},
	OpHardSigmoid:           {200, 1, 1, rtenfb.OperatorAttrsHardSigmoidAttrs, needed},
	OpHardSwish:             {200, 1, 1, 0, ignored},
	OpAnd:                   {200, 2, 2, 0, ignored},
	OpOr:                    {200, 2, 2, 0, ignored},
	OpXor:                   {200, 2, 2, 0, ignored},
	OpTrilu:                 {200, 1, 2, rtenfb.OperatorAttrsTriluAttrs, needed},
	OpScatterND:             {200, 3, 3, rtenfb.OperatorAttrsScatterNDAttrs, needed},
	OpNonMaxSuppression:     {200, 2, 5, rtenfb.OperatorAttrsNonMaxSuppressionAttrs, needed},
	OpSign:                  {200, 1, 1, 0, ignored},
	OpGatherElements:        {200, 2, 2, rtenfb.OperatorAttrsGatherAttrs, needed},
	OpLayerNormalization:    {300, 2, 3, rtenfb.OperatorAttrsLayerNormalizationAttrs, needed},
	OpReduceSumSquare:       {500, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpRandomUniform:         {600, 0, 0, rtenfb.OperatorAttrsRandomUniformAttrs, needed},
	OpElu:                   {800, 1, 1, rtenfb.OperatorAttrsEluAttrs, needed},
	OpRandomUniformLike:     {900, 1, 1, rtenfb.OperatorAttrsRandomUniformLikeAttrs, needed},
	OpRandomNormal:          {900, 0, 0, rtenfb.OperatorAttrsRandomNormalAttrs, needed},
	OpRandomNormalLike:      {900, 1, 1, rtenfb.OperatorAttrsRandomNormalLikeAttrs, needed},
	OpSoftplus:              {900, 1, 1, 0, ignored},
	OpGatherND:              {900, 2, 2, rtenfb.OperatorAttrsGatherNDAttrs, needed},
	OpGelu:                  {1100, 1, 1, rtenfb.OperatorAttrsGeluAttrs, needed},
	OpEinsum:                {1200, 1, -1, rtenfb.OperatorAttrsEinsumAttrs, needed},
	OpIf:                    {1300, 1, 1, rtenfb.OperatorAttrsIfAttrs, needed},
	OpDequantizeLinear:      {1400, 2, 3, rtenfb.OperatorAttrsDequantizeLinearAttrs, needed},
	OpQuantizeLinear:        {1400, 2, 3, rtenfb.OperatorAttrsQuantizeLinearAttrs, needed},
	OpDynamicQuantizeLinear: {1400, 1, 1, 0, ignored},
	OpMatMulInteger:         {1400, 2, 4, 0, ignored},
	OpDepthToSpace:          {1500, 1, 1, rtenfb.OperatorAttrsDepthToSpaceAttrs, needed},
	OpConvInteger:           {1600, 2, 4, rtenfb.OperatorAttrsConvAttrs, needed},
	OpCastLike:              {1700, 2, 2, rtenfb.OperatorAttrsCastLikeAttrs, needed},
	OpDropout:               {1700, 1, 3, rtenfb.OperatorAttrsDropoutAttrs, needed},
	OpEyeLike:               {1900, 1, 1, rtenfb.OperatorAttrsEyeLikeAttrs, needed},
	OpIsNaN:                 {2100, 1, 1, 0, ignored},
	OpIsInf:                 {2100, 1, 1, rtenfb.OperatorAttrsIsInfAttrs, needed},
	OpLoop:                  {2200, 0, -1, rtenfb.OperatorAttrsLoopAttrs, needed},
	OpSequenceEmpty:         {2200, 0, 0, rtenfb.OperatorAttrsSequenceEmptyAttrs, needed},
	OpSequenceAt:            {2200, 2, 2, 0, ignored},
	OpSequenceInsert:        {2200, 2, 3, 0, ignored},
	OpConcatFromSequence:    {2200, 1, 1, rtenfb.OperatorAttrsConcatFromSequenceAttrs, needed},
	OpSplitToSequence:       {2200, 1, 2, rtenfb.OperatorAttrsSplitToSequenceAttrs, needed},
	OpSequenceLength:        {2200, 1, 1, 0, ignored},
	OpSequenceConstruct:     {2200, 1, -1, 0, ignored},
	OpSequenceErase:         {2200, 1, 2, 0, ignored},
	OpGridSample:            {2200, 2, 2, rtenfb.OperatorAttrsGridSampleAttrs, needed},
	OpPRelu:                 {2200, 2, 2, 0, ignored},
	OpSTFT:                  {2200, 2, 4, rtenfb.OperatorAttrsSTFTAttrs, needed},
	OpGlobalMaxPool:         {2400, 1, 1, 0, ignored},
	OpReduceL1:              {2500, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpAcosh:                 {2500, 1, 1, 0, ignored},
	OpAsinh:                 {2500, 1, 1, 0, ignored},
	OpAtanh:                 {2500, 1, 1, 0, ignored},
	OpCosh:                  {2500, 1, 1, 0, ignored},
	OpSinh:                  {2500, 1, 1, 0, ignored},
	OpMultinomial:           {2500, 1, 1, rtenfb.OperatorAttrsMultinomialAttrs, needed},
	OpReverseSequence:       {2500, 2, 2, rtenfb.OperatorAttrsReverseSequenceAttrs, needed},
	OpDFT:                   {2500, 1, 3, rtenfb.OperatorAttrsDFTAttrs, needed},
	OpScatter:               {2500, 3, 3, rtenfb.OperatorAttrsScatterElementsAttrs, needed},
	OpUpsample:              {2500, 2, 2, rtenfb.OperatorAttrsUpsampleAttrs, needed},
	OpRotaryEmbedding:       {2500, 3, 4, rtenfb.OperatorAttrsRotaryEmbeddingAttrs, needed},
	OpAttention:             {2500, 3, 7, rtenfb.OperatorAttrsAttentionAttrs, needed},
	OpLpNormalization:       {2600, 1, 1, rtenfb.OperatorAttrsLpNormalizationAttrs, needed},
	OpReduceLogSum:          {2600, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
	OpReduceLogSumExp:       {2600, 1, 2, rtenfb.OperatorAttrsReduceMeanAttrs, needed},
}
