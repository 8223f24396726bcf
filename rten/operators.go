package rten

import "strconv"

// An OpType is the number of an operator. Numbers are only ever appended: a
// number that this library has no name for belongs to a newer RTen.
type OpType uint8

// String is the schema's name, which is ONNX's, or #145 for a number without.
func (t OpType) String() string {
	if int(t) < len(operators) {
		return operators[t].name
	}
	return "#" + strconv.Itoa(int(t))
}

// Known reports whether the operator has a name here.
func (t OpType) Known() bool { return int(t) < len(operators) }

// MaxInputs is how many inputs RTen accepts for the operator: -1 for any
// number, and for an operator that is not known.
func (t OpType) MaxInputs() int {
	if int(t) < len(operators) {
		return int(operators[t].inputs)
	}
	return -1
}

// MinInputs is how many inputs RTen requires, which are the first ones: 0 for an
// operator that is not known.
func (t OpType) MinInputs() int {
	if int(t) < len(operators) {
		return int(operators[t].needs)
	}
	return 0
}

// needsOneOf returns two further inputs of which RTen requires one: the scales or sizes
// of Resize, the window or frame length of STFT.
func (t OpType) needsOneOf() (a, b int, ok bool) {
	return 2, 3, t == opResize || t == opSTFT
}

// ParseOpType finds an operator by the schema's name, such as "MatMul".
func ParseOpType(name string) (OpType, bool) {
	for i := range operators {
		if operators[i].name == name {
			return OpType(i), true
		}
	}
	return 0, false
}

// attrsUse says what RTen's loader does with an operator's attributes.
type attrsUse uint8

const (
	ignored  attrsUse = iota // it never looks
	optional                 // absent ones have their defaults
	needed                   // absent ones are an error, even where the table has no fields
)

// operators is indexed by OpType: the table of the format.
var operators = [...]struct {
	name   string
	since  release
	needs  int8  // inputs that it cannot run without: the first of them
	inputs int8  // the max that the loader accepts, -1 for any number
	attrs  uint8 // index into attrTables, 0 for none
	use    attrsUse
}{
	0:   {"Add", 200, 2, 2, 0, ignored},
	1:   {"ArgMin", 200, 1, 1, 1, needed},
	2:   {"ArgMax", 200, 1, 1, 1, needed},
	3:   {"AveragePool", 200, 1, 1, 2, needed},
	4:   {"BatchNormalization", 200, 5, 5, 3, needed},
	5:   {"Cast", 200, 1, 1, 4, needed},
	6:   {"Clip", 200, 1, 3, 0, ignored},
	7:   {"Concat", 200, 1, -1, 5, needed},
	8:   {"ConstantOfShape", 200, 1, 1, 6, needed},
	9:   {"Conv", 200, 2, 3, 7, needed},
	10:  {"ConvTranspose", 200, 2, 3, 8, needed},
	11:  {"Cos", 200, 1, 1, 0, ignored},
	12:  {"CumSum", 200, 2, 2, 61, optional},
	13:  {"Div", 200, 2, 2, 0, ignored},
	14:  {"Equal", 200, 2, 2, 0, ignored},
	15:  {"Erf", 200, 1, 1, 0, ignored},
	16:  {"Expand", 200, 2, 2, 0, ignored},
	17:  {"Flatten", 200, 1, 1, 9, needed},
	18:  {"Gather", 200, 2, 2, 10, needed},
	19:  {"Gemm", 200, 2, 3, 11, needed},
	20:  {"GlobalAveragePool", 200, 1, 1, 0, ignored},
	21:  {"Greater", 200, 2, 2, 0, ignored},
	22:  {"GRU", 200, 3, 6, 12, needed},
	23:  {"Identity", 200, 1, 1, 0, ignored},
	24:  {"LeakyRelu", 200, 1, 1, 13, needed},
	25:  {"Less", 200, 2, 2, 0, ignored},
	26:  {"LessOrEqual", 200, 2, 2, 0, ignored},
	27:  {"Log", 200, 1, 1, 0, ignored},
	28:  {"LogSoftmax", 200, 1, 1, 20, needed},
	29:  {"LSTM", 200, 3, 7, 14, needed},
	30:  {"MatMul", 200, 2, 2, 0, ignored},
	31:  {"MaxPool", 200, 1, 1, 15, needed},
	32:  {"Mod", 200, 2, 2, 22, needed},
	33:  {"Mul", 200, 2, 2, 0, ignored},
	34:  {"Pad", 200, 2, 4, 40, optional},
	35:  {"Pow", 200, 2, 2, 0, ignored},
	36:  {"Range", 200, 3, 3, 0, ignored},
	37:  {"ReduceMean", 200, 1, 2, 16, needed},
	38:  {"ReduceL2", 200, 1, 2, 16, needed},
	39:  {"Relu", 200, 1, 1, 0, ignored},
	40:  {"Reshape", 200, 2, 2, 17, needed},
	41:  {"Resize", 200, 1, 4, 18, needed},
	42:  {"Shape", 200, 1, 1, 45, optional},
	43:  {"Sigmoid", 200, 1, 1, 0, ignored},
	44:  {"Sin", 200, 1, 1, 0, ignored},
	45:  {"Slice", 200, 3, 5, 0, ignored},
	46:  {"Split", 200, 1, 2, 19, needed},
	47:  {"Sqrt", 200, 1, 1, 0, ignored},
	48:  {"Squeeze", 200, 1, 2, 0, ignored},
	49:  {"Softmax", 200, 1, 1, 20, needed},
	50:  {"Sub", 200, 2, 2, 0, ignored},
	51:  {"Tanh", 200, 1, 1, 0, ignored},
	52:  {"Transpose", 200, 1, 1, 21, needed},
	53:  {"Unsqueeze", 200, 2, 2, 0, ignored},
	54:  {"Where", 200, 3, 3, 0, ignored},
	55:  {"ReduceProd", 200, 1, 2, 16, needed},
	56:  {"ReduceSum", 200, 1, 2, 16, needed},
	57:  {"ReduceMin", 200, 1, 2, 16, needed},
	58:  {"ReduceMax", 200, 1, 2, 16, needed},
	59:  {"NonZero", 200, 1, 1, 0, ignored},
	60:  {"ScatterElements", 200, 3, 3, 23, needed},
	61:  {"Tile", 200, 2, 2, 0, ignored},
	62:  {"Not", 200, 1, 1, 0, ignored},
	63:  {"Abs", 200, 1, 1, 0, ignored},
	64:  {"Max", 200, 1, -1, 0, ignored},
	65:  {"Mean", 200, 1, -1, 0, ignored},
	66:  {"Min", 200, 1, -1, 0, ignored},
	67:  {"Sum", 200, 1, -1, 0, ignored},
	68:  {"OneHot", 200, 3, 3, 24, needed},
	69:  {"Round", 200, 1, 1, 0, ignored},
	70:  {"Floor", 200, 1, 1, 0, ignored},
	71:  {"Ceil", 200, 1, 1, 0, ignored},
	72:  {"Reciprocal", 200, 1, 1, 0, ignored},
	73:  {"TopK", 200, 2, 2, 25, needed},
	74:  {"Neg", 200, 1, 1, 0, ignored},
	75:  {"Exp", 200, 1, 1, 0, ignored},
	76:  {"GreaterOrEqual", 200, 2, 2, 0, ignored},
	77:  {"Size", 200, 1, 1, 0, ignored},
	78:  {"Tan", 200, 1, 1, 0, ignored},
	79:  {"Acos", 200, 1, 1, 0, ignored},
	80:  {"Asin", 200, 1, 1, 0, ignored},
	81:  {"Atan", 200, 1, 1, 0, ignored},
	82:  {"InstanceNormalization", 200, 3, 3, 3, needed},
	83:  {"HardSigmoid", 200, 1, 1, 26, needed},
	84:  {"HardSwish", 200, 1, 1, 0, ignored},
	85:  {"And", 200, 2, 2, 0, ignored},
	86:  {"Or", 200, 2, 2, 0, ignored},
	87:  {"Xor", 200, 2, 2, 0, ignored},
	88:  {"Trilu", 200, 1, 2, 27, needed},
	89:  {"ScatterND", 200, 3, 3, 28, needed},
	90:  {"NonMaxSuppression", 200, 2, 5, 29, needed},
	91:  {"Sign", 200, 1, 1, 0, ignored},
	92:  {"GatherElements", 200, 2, 2, 10, needed},
	93:  {"LayerNormalization", 300, 2, 3, 30, needed},
	94:  {"ReduceSumSquare", 500, 1, 2, 16, needed},
	95:  {"RandomUniform", 600, 0, 0, 31, needed},
	96:  {"Elu", 800, 1, 1, 32, needed},
	97:  {"RandomUniformLike", 900, 1, 1, 33, needed},
	98:  {"RandomNormal", 900, 0, 0, 34, needed},
	99:  {"RandomNormalLike", 900, 1, 1, 35, needed},
	100: {"Softplus", 900, 1, 1, 0, ignored},
	101: {"GatherND", 900, 2, 2, 36, needed},
	102: {"Gelu", 1100, 1, 1, 37, needed},
	103: {"Einsum", 1200, 1, -1, 38, needed},
	104: {"If", 1300, 1, 1, 39, needed},
	105: {"DequantizeLinear", 1400, 2, 3, 41, needed},
	106: {"QuantizeLinear", 1400, 2, 3, 42, needed},
	107: {"DynamicQuantizeLinear", 1400, 1, 1, 0, ignored},
	108: {"MatMulInteger", 1400, 2, 4, 0, ignored},
	109: {"DepthToSpace", 1500, 1, 1, 43, needed},
	110: {"ConvInteger", 1600, 2, 4, 7, needed},
	111: {"CastLike", 1700, 2, 2, 44, needed},
	112: {"Dropout", 1700, 1, 3, 46, needed},
	113: {"EyeLike", 1900, 1, 1, 47, needed},
	114: {"IsNaN", 2100, 1, 1, 0, ignored},
	115: {"IsInf", 2100, 1, 1, 48, needed},
	116: {"Loop", 2200, 0, -1, 49, needed},
	117: {"SequenceEmpty", 2200, 0, 0, 50, needed},
	118: {"SequenceAt", 2200, 2, 2, 0, ignored},
	119: {"SequenceInsert", 2200, 2, 3, 0, ignored},
	120: {"ConcatFromSequence", 2200, 1, 1, 51, needed},
	121: {"SplitToSequence", 2200, 1, 2, 52, needed},
	122: {"SequenceLength", 2200, 1, 1, 0, ignored},
	123: {"SequenceConstruct", 2200, 1, -1, 0, ignored},
	124: {"SequenceErase", 2200, 1, 2, 0, ignored},
	125: {"GridSample", 2200, 2, 2, 53, needed},
	126: {"PRelu", 2200, 2, 2, 0, ignored},
	127: {"STFT", 2200, 2, 4, 54, needed},
	128: {"GlobalMaxPool", 2400, 1, 1, 0, ignored},
	129: {"ReduceL1", 2500, 1, 2, 16, needed},
	130: {"Acosh", 2500, 1, 1, 0, ignored},
	131: {"Asinh", 2500, 1, 1, 0, ignored},
	132: {"Atanh", 2500, 1, 1, 0, ignored},
	133: {"Cosh", 2500, 1, 1, 0, ignored},
	134: {"Sinh", 2500, 1, 1, 0, ignored},
	135: {"Multinomial", 2500, 1, 1, 55, needed},
	136: {"ReverseSequence", 2500, 2, 2, 56, needed},
	137: {"DFT", 2500, 1, 3, 57, needed},
	138: {"Scatter", 2500, 3, 3, 23, needed},
	139: {"Upsample", 2500, 2, 2, 58, needed},
	140: {"RotaryEmbedding", 2500, 3, 4, 59, needed},
	141: {"Attention", 2500, 3, 7, 60, needed},
	142: {"LpNormalization", 2600, 1, 1, 62, needed},
	143: {"ReduceLogSum", 2600, 1, 2, 16, needed},
	144: {"ReduceLogSumExp", 2600, 1, 2, 16, needed},
}
