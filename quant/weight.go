package quant

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Weight is a tensor as a model has it: a quantised weight, which several stored
// tensors make up, or a stored tensor that is not quantised.
type Weight struct {
	// Name is the weight's name. A quantised weight may have a name that no stored tensor
	// has.
	Name string

	// Scheme is how the weight is quantised: mxfp8, mxfp6, mxfp4, nvfp4, gptq, awq,
	// mlx-affine, bnb-nf4, bnb-fp4, bnb-int8, gguf-scale, or the dtype of codes and what
	// has a scale, such as fp8-block: fp8, int1 to int8, uint8 or int32, with -tensor,
	// -channel, -group or -block. If the scheme is not known, it is the name of the
	// method. It is "" for a tensor that is not quantised.
	Scheme string

	// DType is the dtype of the weight before it was quantised: the dtype in the
	// configuration, else the dtype of its scales, else bfloat16. For a tensor that is
	// not quantised, it is the dtype of the tensor.
	DType tensor.DType

	// Tensor has the weight's name and shape, and its numbers as float32, which are
	// computed as they are read: a part costs the blocks that it touches, and the whole
	// is computed on all cores. tensor.As(w.Tensor, w.DType) rounds them once. If Err is
	// not nil, reading fails with it. For a tensor that is not quantised, Tensor is that
	// tensor.
	Tensor *tensor.Tensor

	// Parts are the stored tensors of a quantised weight; nil for others.
	Parts []Part

	// Auxiliary says that a stored tensor is not a parameter of the model, but a scale of
	// activations or of a cache, or a marker.
	Auxiliary bool

	// Err says why a quantised weight has no numbers.
	Err error
}

// A Part is a stored tensor of a quantised Weight.
type Part struct {
	// Role is the part's role: codes, scale, global-scale, zero-point, bias, group-index,
	// shape, map, nested-scale, nested-map, state or marker.
	Role   string
	Tensor *tensor.Tensor
}

// Parameters returns the number of elements of the weight; 0 for an auxiliary tensor, and
// for a quantised weight whose shape is not known.
func (w *Weight) Parameters() int64 {
	if w.Auxiliary || w.Tensor.Shape == nil && w.Err != nil {
		return 0
	}
	n, _ := w.Tensor.Shape.Elements()
	return n
}

// part returns the stored tensor of a role, or nil.
func (w *Weight) part(role string) *tensor.Tensor {
	for _, p := range w.Parts {
		if p.Role == role {
			return p.Tensor
		}
	}
	return nil
}

// A Code is the kind of a Finding.
type Code string

// The kinds of findings.
const (
	MissingScale       Code = "missing-scale"       // a part of a weight is missing
	ScaleShape         Code = "scale-shape"         // a part has another shape than expected
	ScaleDType         Code = "scale-dtype"         // a part has another dtype than expected
	OrphanScale        Code = "orphan-scale"        // a part without its weight
	QuantizationConfig Code = "quantization-config" // configuration contradicts tensors
	// QuantizationState: JSON, a map, groups or a shape that is stored with a weight is
	// invalid.
	QuantizationState   Code = "quantization-state"
	UnknownQuantization Code = "unknown-quantization" // a method that is not supported

	// Weight.Check finds these.
	ScaleValue Code = "scale-value" // scales are NaN, infinite, negative or all zero
	ValueNaN   Code = "nan"         // codes are NaN
)

// A Finding is something wrong with quantised weights.
type Finding struct {
	Code     Code
	Severity tensor.Severity
	Tensor   string // name of the weight or of a stored tensor; "" for the whole set
	Err      error
}

// A Source is a set of tensors, such as a tensorfile.File. Its attributes are the
// attributes of the file, such as __metadata__ of safetensors and the metadata of GGUF.
type Source interface {
	Tensors() iter.Seq[*tensor.Tensor]
	Attributes() iter.Seq2[string, string]
}

// A Set is the weights of a model.
type Set struct {
	Weights  []*Weight // in the order of their codes in the Source
	Findings []Finding
	// Attributes has the keys of those attributes of the Source that describe how weights
	// are quantised.
	Attributes map[string]bool
}

// Weights yields the weights of src in the order of the file, as Find finds them. cfg may
// be nil.
func Weights(src Source, cfg *Config) iter.Seq[*Weight] {
	return slices.Values(Find(src, cfg).Weights)
}

// Find returns the weights of src, and findings about them. Each stored tensor is part of
// a quantised weight, or a weight itself. cfg is the model's configuration, and may be
// nil. Find reads the small tensors that shapes depend on (weight_shape, quant_state,
// weight_format, comfy_quant), and no others. src must stay open while numbers are read.
func Find(src Source, cfg *Config) *Set {
	f := newFinder(src, cfg)
	f.find()
	return &Set{f.weights, f.findings, f.keys}
}

// refused is the data of a weight without numbers.
type refused struct {
	tensor.Computed
	size int64
	err  error
}

func (r *refused) Size() int64                       { return r.size }
func (r *refused) ReadInto([]byte) error             { return r.err }
func (r *refused) Open() (io.ReadCloser, error)      { return nil, r.err }
func (r *refused) ReadAt([]byte, int64) (int, error) { return 0, r.err }

// Stored has the encoding "none", so that callers allocate nothing for the data.
func (r *refused) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: -1, Encoding: "none"}, true
}

// errorf returns an error about a weight.
func errorf(class error, name, format string, args ...any) error {
	return fmt.Errorf("%w: tensor %s: %s", class, naming.Quote(name),
		fmt.Sprintf(format, args...))
}
