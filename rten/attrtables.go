package rten

// attrType is what an attribute holds: a scalar, a vector, a graph, or one of
// the schema's enums.
type attrType uint8

const (
	isInt32 attrType = iota
	isUint32
	isFloat32
	isBool
	isString
	isInt32s
	isUint32s
	isGraph
	isScalar // a union of int32 and float32
	isDataType
	isAutoPad
	isPadMode
	isRNNDirection
	isResizeMode
	isCoordTransformMode
	isNearestMode
	isDepthToSpaceMode
	isGeluApproximation
	isNMSBoxOrder
	isScatterReduction
)

// An enumValue is one name of an enum, with the release that brought it where
// that is later than the enum's first use.
type enumValue struct {
	name  string
	since release
}

// enums is indexed by attrType less isDataType, and then by number.
var enums = [...]struct {
	name   string
	values []enumValue
}{
	{"DataType", []enumValue{{"Int32", 0}, {"Float", 0}, {"Int8", 1400}, {"UInt8", 1400}}},
	{"AutoPad", []enumValue{{"Same", 0}, {"NotSet", 0}}},
	{"PadMode", []enumValue{{"Constant", 0}, {"Reflect", 0}, {"Edge", 2200}, {"Wrap", 2200}}},
	{"RNNDirection", []enumValue{{"Forward", 0}, {"Reverse", 0}, {"Bidirectional", 0}}},
	{"ResizeMode", []enumValue{{"Nearest", 0}, {"Linear", 0}}},
	{"CoordTransformMode", []enumValue{{"HalfPixel", 0}, {"Asymmetric", 0}, {"AlignCorners", 300}, {"PytorchHalfPixel", 1700}}},
	{"NearestMode", []enumValue{{"Floor", 0}, {"Ceil", 0}, {"RoundPreferFloor", 0}, {"RoundPreferCeil", 0}}},
	{"DepthToSpaceMode", []enumValue{{"DCR", 0}, {"CRD", 0}}},
	{"GeluApproximation", []enumValue{{"None", 0}, {"Tanh", 0}}},
	{"NMSBoxOrder", []enumValue{{"TopLeftBottomRight", 0}, {"CenterWidthHeight", 0}}},
	{"ScatterReduction", []enumValue{{"None", 0}, {"Add", 0}, {"Mul", 0}, {"Min", 0}, {"Max", 0}}},
}

// writeRule says what the graph builder stores where the caller gives nothing.
type writeRule uint8

const (
	fill   writeRule = iota // ONNX's default, explicitly
	omit                    // nothing: absence has the meaning of ONNX's default
	demand                  // ONNX has no default
)

// vectorRule is the meaning of an absent vector, which is also what the
// converter writes.
type vectorRule uint8

const (
	unset  vectorRule = iota
	ones2             // [1, 1], or one 1 a dimension where the kernel's rank is known
	zeros4            // [0, 0, 0, 0], or two 0 a dimension
)

// An attrField is one field of a table of attributes. def is what an absent
// field means, or for a graph which branch it is; onnx what ONNX means by an absent attribute: they differ for most
// fields, the trap of this schema. Enums and bools stand as their numbers.
type attrField struct {
	name  string
	typ   attrType
	id    uint8 // of the field; for a union, of its value
	null  bool  // an optional scalar: absent means that there is none
	fill  vectorRule
	write writeRule
	since release // 0: as old as the table
	def   float64
	onnx  float64
}

type attrTable struct {
	name   string
	since  release
	fields []attrField
}

// attrTables is indexed by the tag of the union OperatorAttrs; 0 is NONE.
var attrTables = [...]attrTable{
	1: {"ArgMaxAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0},
		{name: "keep_dims", typ: isBool, id: 1, onnx: 1},
	}},
	2: {"AveragePoolAttrs", 200, []attrField{
		{name: "kernel_size", typ: isUint32s, id: 0, write: demand},
		{name: "auto_pad", typ: isAutoPad, id: 1, onnx: 1},
		{name: "pads", typ: isUint32s, id: 2, fill: zeros4},
		{name: "strides", typ: isUint32s, id: 3, fill: ones2},
		{name: "count_include_pad", typ: isBool, id: 4, since: 400},
		{name: "ceil_mode", typ: isBool, id: 5, since: 2200},
	}},
	3: {"BatchNormalizationAttrs", 200, []attrField{
		{name: "epsilon", typ: isFloat32, id: 0, onnx: 1e-05},
	}},
	4: {"CastAttrs", 200, []attrField{
		{name: "to", typ: isDataType, id: 0, write: demand},
	}},
	5: {"ConcatAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0, write: demand},
	}},
	6: {"ConstantOfShapeAttrs", 200, []attrField{
		{name: "value", typ: isScalar, id: 1},
	}},
	7: {"ConvAttrs", 200, []attrField{
		{name: "auto_pad", typ: isAutoPad, id: 0, onnx: 1},
		{name: "pads", typ: isUint32s, id: 1, fill: zeros4},
		{name: "groups", typ: isUint32, id: 2, onnx: 1},
		{name: "strides", typ: isUint32s, id: 3, fill: ones2},
		{name: "dilations", typ: isUint32s, id: 4, fill: ones2},
	}},
	8: {"ConvTransposeAttrs", 200, []attrField{
		{name: "strides", typ: isUint32s, id: 0, fill: ones2},
		{name: "auto_pad", typ: isAutoPad, id: 1, def: 1, onnx: 1, since: 900},
		{name: "pads", typ: isUint32s, id: 2, fill: zeros4, since: 900},
		{name: "groups", typ: isUint32, id: 3, def: 1, onnx: 1, since: 2200},
		{name: "output_padding", typ: isUint32s, id: 4, write: omit, since: 2200},
		{name: "dilations", typ: isUint32s, id: 5, write: omit, since: 2600},
	}},
	9: {"FlattenAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0, onnx: 1},
	}},
	10: {"GatherAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0},
	}},
	11: {"GemmAttrs", 200, []attrField{
		{name: "alpha", typ: isFloat32, id: 0, onnx: 1},
		{name: "beta", typ: isFloat32, id: 1, onnx: 1},
		{name: "transpose_a", typ: isBool, id: 2},
		{name: "transpose_b", typ: isBool, id: 3},
	}},
	12: {"GRUAttrs", 200, []attrField{
		{name: "direction", typ: isRNNDirection, id: 0},
		{name: "hidden_size", typ: isUint32, id: 1, write: demand},
		{name: "linear_before_reset", typ: isBool, id: 2},
	}},
	13: {"LeakyReluAttrs", 200, []attrField{
		{name: "alpha", typ: isFloat32, id: 0, onnx: 0.01},
	}},
	14: {"LSTMAttrs", 200, []attrField{
		{name: "direction", typ: isRNNDirection, id: 0},
		{name: "hidden_size", typ: isUint32, id: 1, write: demand},
	}},
	15: {"MaxPoolAttrs", 200, []attrField{
		{name: "kernel_size", typ: isUint32s, id: 0, write: demand},
		{name: "auto_pad", typ: isAutoPad, id: 1, onnx: 1},
		{name: "pads", typ: isUint32s, id: 2, fill: zeros4},
		{name: "strides", typ: isUint32s, id: 3, fill: ones2},
		{name: "ceil_mode", typ: isBool, id: 4, since: 2200},
	}},
	16: {"ReduceMeanAttrs", 200, []attrField{
		{name: "axes", typ: isInt32s, id: 0, write: omit},
		{name: "keep_dims", typ: isBool, id: 1, onnx: 1},
		{name: "noop_with_empty_axes", typ: isBool, id: 2, since: 2400},
	}},
	17: {"ReshapeAttrs", 200, []attrField{
		{name: "allow_zero", typ: isBool, id: 0},
	}},
	18: {"ResizeAttrs", 200, []attrField{
		{name: "mode", typ: isResizeMode, id: 0},
		{name: "coord_mode", typ: isCoordTransformMode, id: 1},
		{name: "nearest_mode", typ: isNearestMode, id: 2, onnx: 2},
	}},
	19: {"SplitAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0},
		{name: "num_outputs", typ: isInt32, id: 1, null: true, write: omit, since: 1700},
	}},
	20: {"SoftmaxAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0, onnx: -1},
	}},
	21: {"TransposeAttrs", 200, []attrField{
		{name: "perm", typ: isUint32s, id: 0, write: omit},
	}},
	22: {"ModAttrs", 200, []attrField{
		{name: "fmod", typ: isBool, id: 0},
	}},
	23: {"ScatterElementsAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0},
		{name: "reduction", typ: isScatterReduction, id: 1},
	}},
	24: {"OneHotAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0, onnx: -1},
	}},
	25: {"TopKAttrs", 200, []attrField{
		{name: "axis", typ: isInt32, id: 0, onnx: -1},
		{name: "largest", typ: isBool, id: 1, onnx: 1},
		{name: "sorted", typ: isBool, id: 2, onnx: 1},
	}},
	26: {"HardSigmoidAttrs", 200, []attrField{
		{name: "alpha", typ: isFloat32, id: 0, onnx: 0.2},
		{name: "beta", typ: isFloat32, id: 1, onnx: 0.5},
	}},
	27: {"TriluAttrs", 200, []attrField{
		{name: "upper", typ: isBool, id: 0, onnx: 1},
	}},
	28: {"ScatterNDAttrs", 200, []attrField{
		{name: "reduction", typ: isScatterReduction, id: 0},
	}},
	29: {"NonMaxSuppressionAttrs", 200, []attrField{
		{name: "box_order", typ: isNMSBoxOrder, id: 0},
	}},
	30: {"LayerNormalizationAttrs", 300, []attrField{
		{name: "axis", typ: isInt32, id: 0, onnx: -1},
		{name: "epsilon", typ: isFloat32, id: 1, onnx: 1e-05},
	}},
	31: {"RandomUniformAttrs", 600, []attrField{
		{name: "shape", typ: isUint32s, id: 0, write: demand},
		{name: "high", typ: isFloat32, id: 1, onnx: 1},
		{name: "low", typ: isFloat32, id: 2},
		{name: "seed", typ: isFloat32, id: 3, null: true, write: omit},
	}},
	32: {"EluAttrs", 800, []attrField{
		{name: "alpha", typ: isFloat32, id: 0, onnx: 1},
	}},
	33: {"RandomUniformLikeAttrs", 900, []attrField{
		{name: "high", typ: isFloat32, id: 0, onnx: 1},
		{name: "low", typ: isFloat32, id: 1},
		{name: "seed", typ: isFloat32, id: 2, null: true, write: omit},
	}},
	34: {"RandomNormalAttrs", 900, []attrField{
		{name: "mean", typ: isFloat32, id: 0},
		{name: "scale", typ: isFloat32, id: 1, onnx: 1},
		{name: "seed", typ: isFloat32, id: 2, null: true, write: omit},
		{name: "shape", typ: isUint32s, id: 3, write: demand},
	}},
	35: {"RandomNormalLikeAttrs", 900, []attrField{
		{name: "mean", typ: isFloat32, id: 0},
		{name: "scale", typ: isFloat32, id: 1, onnx: 1},
		{name: "seed", typ: isFloat32, id: 2, null: true, write: omit},
	}},
	36: {"GatherNDAttrs", 900, []attrField{
		{name: "batch_dims", typ: isInt32, id: 0},
	}},
	37: {"GeluAttrs", 1100, []attrField{
		{name: "approximate", typ: isGeluApproximation, id: 0, since: 1900},
	}},
	38: {"EinsumAttrs", 1200, []attrField{
		{name: "equation", typ: isString, id: 0, write: demand},
	}},
	39: {"IfAttrs", 1300, []attrField{
		{name: "then_branch", typ: isGraph, def: 1, id: 0, write: demand},
		{name: "else_branch", typ: isGraph, def: 2, id: 1, write: demand},
	}},
	40: {"PadAttrs", 1301, []attrField{
		{name: "mode", typ: isPadMode, id: 0},
	}},
	41: {"DequantizeLinearAttrs", 1400, []attrField{
		{name: "axis", typ: isInt32, id: 0, onnx: 1},
	}},
	42: {"QuantizeLinearAttrs", 1400, []attrField{
		{name: "axis", typ: isInt32, id: 0, onnx: 1},
		{name: "output_dtype", typ: isDataType, id: 1, null: true, write: omit},
	}},
	43: {"DepthToSpaceAttrs", 1500, []attrField{
		{name: "mode", typ: isDepthToSpaceMode, id: 0},
		{name: "block_size", typ: isUint32, id: 1, write: demand},
	}},
	44: {"CastLikeAttrs", 1700, []attrField{}},
	45: {"ShapeAttrs", 1700, []attrField{
		{name: "start", typ: isInt32, id: 0, null: true, write: omit},
		{name: "end", typ: isInt32, id: 1, null: true, write: omit},
	}},
	46: {"DropoutAttrs", 1700, []attrField{
		{name: "seed", typ: isInt32, id: 0, null: true, write: omit},
	}},
	47: {"EyeLikeAttrs", 1900, []attrField{
		{name: "dtype", typ: isDataType, id: 0, null: true, write: omit},
		{name: "k", typ: isInt32, id: 1},
	}},
	48: {"IsInfAttrs", 2100, []attrField{}},
	49: {"LoopAttrs", 2200, []attrField{
		{name: "body", typ: isGraph, def: 3, id: 0, write: demand},
	}},
	50: {"SequenceEmptyAttrs", 2200, []attrField{
		{name: "dtype", typ: isDataType, id: 0, null: true, write: omit},
	}},
	51: {"ConcatFromSequenceAttrs", 2200, []attrField{
		{name: "axis", typ: isInt32, id: 0, write: demand},
		{name: "new_axis", typ: isBool, id: 1},
	}},
	52: {"SplitToSequenceAttrs", 2200, []attrField{
		{name: "axis", typ: isInt32, id: 0},
		{name: "keep_dims", typ: isBool, id: 1, def: 1, onnx: 1},
	}},
	53: {"GridSampleAttrs", 2200, []attrField{
		{name: "align_corners", typ: isBool, id: 0},
	}},
	54: {"STFTAttrs", 2200, []attrField{
		{name: "onesided", typ: isBool, id: 0, def: 1, onnx: 1},
	}},
	55: {"MultinomialAttrs", 2500, []attrField{
		{name: "sample_size", typ: isInt32, id: 0, onnx: 1},
		{name: "seed", typ: isFloat32, id: 1, null: true, write: omit},
	}},
	56: {"ReverseSequenceAttrs", 2500, []attrField{
		{name: "batch_axis", typ: isInt32, id: 0, def: 1, onnx: 1},
		{name: "time_axis", typ: isInt32, id: 1},
	}},
	57: {"DFTAttrs", 2500, []attrField{
		{name: "inverse", typ: isBool, id: 0},
		{name: "onesided", typ: isBool, id: 1},
	}},
	58: {"UpsampleAttrs", 2500, []attrField{
		{name: "mode", typ: isResizeMode, id: 0},
	}},
	59: {"RotaryEmbeddingAttrs", 2500, []attrField{
		{name: "interleaved", typ: isBool, id: 0},
		{name: "num_heads", typ: isUint32, id: 1},
		{name: "rotary_embedding_dim", typ: isUint32, id: 2},
	}},
	60: {"AttentionAttrs", 2500, []attrField{
		{name: "is_causal", typ: isBool, id: 0},
		{name: "q_num_heads", typ: isUint32, id: 1, null: true, write: omit},
		{name: "kv_num_heads", typ: isUint32, id: 2, null: true, write: omit},
		{name: "scale", typ: isFloat32, id: 3, null: true, write: omit},
		{name: "softcap", typ: isFloat32, id: 4},
	}},
	61: {"CumSumAttrs", 2600, []attrField{
		{name: "exclusive", typ: isBool, id: 0},
		{name: "reverse", typ: isBool, id: 1},
	}},
	62: {"LpNormalizationAttrs", 2600, []attrField{
		{name: "axis", typ: isInt32, id: 0, def: -1, onnx: -1},
		{name: "p", typ: isUint32, id: 1, def: 2, onnx: 2},
	}},
}
