package convert

import (
	"context"
	"io"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/tensor"
)

// A targetRow has the rules of a target format that its Caps do not have. A function is
// nil if the format needs none.
type targetRow struct {
	// version returns the version that is written.
	version func(p *Plan, src *tensorfile.File) string
	// checker returns the checker of the plan.
	checker func(p *Plan) (checker, error)
	// rewrite sets Plan.rewrite where the package of the format writes the file alone.
	rewrite func(ctx context.Context, p *Plan) error
	// name returns the name itself where a version can represent it, or a similar one
	// that it can. It gets and returns UTF-8.
	name func(version, name string) string
	// keep reports whether a tensor keeps the name that its file gave it although good,
	// which name returned, is another, or is taken.
	keep func(p *Plan, it *item, good string) bool
	// suffix is added by readers to a name that they do not find: a name with it, and the
	// same name without it, are taken together.
	suffix string
	// shape returns the dimensions that the format keeps of a tensor.
	shape func(t *tensor.Tensor) tensor.Shape
	// value returns what the writer takes for an attribute, and what is lost of it. v is
	// nil for a string of a format without types.
	value func(p *Plan, text string, v any) (value any, lost string)
	// finish completes a plan whose items are known.
	finish func(p *Plan)
	// writer returns a writer with the attributes of the sources.
	writer func(p *Plan, w io.Writer) (tensorfile.Writer, error)
	// split returns the method that splits the file; nil for splitter.tensors.
	split func(s *splitter) splitMethod
}

// targets has no row for a format that needs nothing of its own.
var targets = map[tensorfile.Format]targetRow{
	tensorfile.ZTensor: {
		version: ztensorVersion,
		checker: newZTensorChecker,
		name:    ztensorName,
		value:   ztensorValue,
		writer:  ztensorWriter,
		split:   splitZTensor,
	},
	tensorfile.PTD: {
		checker: newPTDChecker,
		rewrite: mergePTD,
		name:    ptdName,
		keep:    keepEmpty,
		split:   splitPTD,
	},
	tensorfile.RTen: {rewrite: rewriteRTen},
	tensorfile.Primitiv: {
		name:   primitivName,
		keep:   keepPath,
		shape:  primitivShape,
		finish: (*Plan).renameParents,
		writer: primitivWriter,
		split:  splitPrimitiv,
	},
	tensorfile.Safetensors: {
		name:   safetensorsName,
		writer: safetensorsWriter,
		split:  splitSafetensors,
	},
	tensorfile.NPZ: {name: npzName, suffix: ".npy"},
	tensorfile.GGUF: {
		checker: newGGUFChecker,
		rewrite: mergeGGUF,
		name:    ggufName,
		shape:   ggufShape,
		value:   ggufValue,
		writer:  ggufWriter,
		split:   splitGGUF,
	},
}
