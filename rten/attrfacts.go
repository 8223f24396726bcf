package rten

import "github.com/tensorfile/tensorfile/internal/fb"

// writeRule says what the graph builder stores where the caller gives nothing.
type writeRule uint8

const (
	fill   writeRule = iota // ONNX's default, explicitly
	omit                    // nothing: absence has the meaning of ONNX's default
	demand                  // ONNX has no default
)

// An attrFact is what the schema does not say of an attribute. onnx is what ONNX means
// by an absent one, enums and bools as numbers: it differs from the schema's default for
// most fields, the trap of this schema.
type attrFact struct {
	onnx  float64
	write writeRule
	since release // 0: as old as the operator
}

func factOf(t *fb.Table, f *fb.Field) attrFact {
	fact := attrFacts[t.Name+"."+f.Name]
	if f.Optional {
		fact.write = omit
	}
	return fact
}

// attrFacts has the attributes of which something is not zero; see factOf.
var attrFacts = map[string]attrFact{
	"ArgMaxAttrs.keep_dims":                {onnx: 1},
	"AveragePoolAttrs.kernel_size":         {write: demand},
	"AveragePoolAttrs.auto_pad":            {onnx: 1},
	"AveragePoolAttrs.count_include_pad":   {since: 400},
	"AveragePoolAttrs.ceil_mode":           {since: 2200},
	"BatchNormalizationAttrs.epsilon":      {onnx: 1e-05},
	"CastAttrs.to":                         {write: demand},
	"ConcatAttrs.axis":                     {write: demand},
	"ConvAttrs.auto_pad":                   {onnx: 1},
	"ConvAttrs.groups":                     {onnx: 1},
	"ConvTransposeAttrs.auto_pad":          {onnx: 1, since: 900},
	"ConvTransposeAttrs.pads":              {since: 900},
	"ConvTransposeAttrs.groups":            {onnx: 1, since: 2200},
	"ConvTransposeAttrs.output_padding":    {write: omit, since: 2200},
	"ConvTransposeAttrs.dilations":         {write: omit, since: 2600},
	"FlattenAttrs.axis":                    {onnx: 1},
	"GemmAttrs.alpha":                      {onnx: 1},
	"GemmAttrs.beta":                       {onnx: 1},
	"GRUAttrs.hidden_size":                 {write: demand},
	"LeakyReluAttrs.alpha":                 {onnx: 0.01},
	"LSTMAttrs.hidden_size":                {write: demand},
	"MaxPoolAttrs.kernel_size":             {write: demand},
	"MaxPoolAttrs.auto_pad":                {onnx: 1},
	"MaxPoolAttrs.ceil_mode":               {since: 2200},
	"ReduceMeanAttrs.axes":                 {write: omit},
	"ReduceMeanAttrs.keep_dims":            {onnx: 1},
	"ReduceMeanAttrs.noop_with_empty_axes": {since: 2400},
	"ResizeAttrs.nearest_mode":             {onnx: 2},
	"SplitAttrs.num_outputs":               {since: 1700},
	"SoftmaxAttrs.axis":                    {onnx: -1},
	"TransposeAttrs.perm":                  {write: omit},
	"OneHotAttrs.axis":                     {onnx: -1},
	"TopKAttrs.axis":                       {onnx: -1},
	"TopKAttrs.largest":                    {onnx: 1},
	"TopKAttrs.sorted":                     {onnx: 1},
	"HardSigmoidAttrs.alpha":               {onnx: 0.2},
	"HardSigmoidAttrs.beta":                {onnx: 0.5},
	"TriluAttrs.upper":                     {onnx: 1},
	"LayerNormalizationAttrs.axis":         {onnx: -1},
	"LayerNormalizationAttrs.epsilon":      {onnx: 1e-05},
	"RandomUniformAttrs.shape":             {write: demand},
	"RandomUniformAttrs.high":              {onnx: 1},
	"EluAttrs.alpha":                       {onnx: 1},
	"RandomUniformLikeAttrs.high":          {onnx: 1},
	"RandomNormalAttrs.scale":              {onnx: 1},
	"RandomNormalAttrs.shape":              {write: demand},
	"RandomNormalLikeAttrs.scale":          {onnx: 1},
	"GeluAttrs.approximate":                {since: 1900},
	"EinsumAttrs.equation":                 {write: demand},
	"IfAttrs.then_branch":                  {write: demand},
	"IfAttrs.else_branch":                  {write: demand},
	"PadAttrs.mode":                        {since: 1301},
	"DequantizeLinearAttrs.axis":           {onnx: 1},
	"QuantizeLinearAttrs.axis":             {onnx: 1},
	"DepthToSpaceAttrs.block_size":         {write: demand},
	"ShapeAttrs.start":                     {since: 1700},
	"ShapeAttrs.end":                       {since: 1700},
	"LoopAttrs.body":                       {write: demand},
	"ConcatFromSequenceAttrs.axis":         {write: demand},
	"SplitToSequenceAttrs.keep_dims":       {onnx: 1},
	"STFTAttrs.onesided":                   {onnx: 1},
	"MultinomialAttrs.sample_size":         {onnx: 1},
	"ReverseSequenceAttrs.batch_axis":      {onnx: 1},
	"CumSumAttrs.exclusive":                {since: 2600},
	"CumSumAttrs.reverse":                  {since: 2600},
	"LpNormalizationAttrs.axis":            {onnx: -1},
	"LpNormalizationAttrs.p":               {onnx: 2},
}

// enumSince is the release that brought a number of an enum, 0 where that is its first
// use.
func enumSince(e Enum) release {
	switch e.Type + "." + e.String() {
	case "CoordTransformMode.AlignCorners":
		return 300
	case "DataType.Int8", "DataType.UInt8":
		return 1400
	case "CoordTransformMode.PytorchHalfPixel":
		return 1700
	case "PadMode.Edge", "PadMode.Wrap":
		return 2200
	}
	return 0
}
