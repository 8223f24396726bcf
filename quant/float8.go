package quant

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// float8 makes a weight of FP8 codes with one scale, or one for each channel, group or
// block.
func (f *finder) float8(t *tensor.Tensor) {
	base, isWeight := strings.CutSuffix(t.Name, ".weight")
	if !isWeight && (isMarker(t.Name) || isPartName(t.Name)) {
		return
	}
	b := f.begin("fp8", "fp8", t.Name, base, t, t.Shape)
	algorithm, _ := f.cfg.algorithm(base)
	b.expected = (f.cfg.is("fp8", "fbgemm_fp8") || f.isScaled && isWeight ||
		f.cfg.group(base).isFloat8() ||
		strings.HasPrefix(algorithm, "FP8") || algorithm == "MXFP8") &&
		len(t.Shape) >= 2 && !f.cfg.excludes(base)
	scale, suffix := b.float8Scale(t, isWeight)
	if !b.needs(scale, suffix, scales8) ||
		!b.without(".weight_scale_2", ".weight_zero_point") {
		return
	}
	batch, rows, cols := matrixOf(t.Shape)
	bm, bn, ok := b.float8Form(scale, batch, rows, cols)
	if !ok {
		return
	}
	if a, isDefault := f.cfg.algorithm(base); strings.Contains(a, "FP4") ||
		a == "MXFP8" && b.Scheme != "mxfp8" && isDefault {
		b.disagrees("the configuration says %s, the tensors are %s", a, b.Scheme)
	}
	b.complete(table(t, batch, rows, cols).scaled(scale, bm, bn), false, nil)
}

// float8Scale adds the scale of the codes t, and returns it with the suffix of its name.
// If there is no scale, it returns nil and the suffix that is expected.
func (b *builder) float8Scale(t *tensor.Tensor, isWeight bool) (*tensor.Tensor, string) {
	suffixes := []string{".weight_scale", ".weight_scale_inv", ".scale_weight", ".qscale_weight"}
	if !isWeight {
		suffixes = []string{"_scale_inv", "_scale"}
	}
	var scale *tensor.Tensor
	for _, suffix := range suffixes {
		if s := b.part("scale", suffix); s != nil {
			if scale != nil {
				b.refuse(QuantizationConfig, "more than one scale")
			}
			scale = s
		}
	}
	if s := b.f.stored[b.base+".scale"]; isWeight && scale == nil && b.f.isScale(t, s) {
		scale = b.part("scale", ".scale")
	}
	if scale != nil && !isWeight && strings.HasSuffix(scale.Name, "_scale") {
		b.refuse(UnknownQuantization, "what %s scales is not known", scale.Name)
	}
	switch cfg := b.f.cfg; {
	case scale != nil:
		return scale, scale.Name[len(b.base):]
	case isWeight && b.f.isScaled:
		return nil, ".scale_weight"
	case isWeight && cfg.is("fp8") && cfg.fp4:
		return nil, ".scale"
	case isWeight && cfg.is("fp8"):
		return nil, ".weight_scale_inv"
	}
	return nil, suffixes[0]
}

// isPartName reports whether a name, which does not end in .weight, is the name of a
// scale.
func isPartName(name string) bool {
	return strings.HasSuffix(name, "scale") || strings.HasSuffix(name, "scales") ||
		strings.HasSuffix(name, "scale_inv") || strings.HasSuffix(name, "scale_2")
}

// isScale reports whether s, which is named .scale, is a scale of DeepSeek-V4. Other
// models have learned parameters of that name.
func (f *finder) isScale(t, s *tensor.Tensor) bool {
	return s != nil && len(t.Shape) == 2 && len(s.Shape) == 2 &&
		(s.DType == tensor.F8E8M0FNU || isFloatScale(s.DType) && f.cfg.is("fp8"))
}

// float8Form returns how many rows and columns share a scale: as the configuration says,
// else by the shape of the scales. It sets the scheme, or refuses the weight.
func (b *builder) float8Form(scale *tensor.Tensor, batch, rows, cols int64) (bm, bn int64,
	ok bool) {
	shape := b.Tensor.Shape
	bm, bn, sized, err := b.f.cfg.blockSize()
	form := ""
	if g := b.f.cfg.group(b.base); g != nil && err == nil {
		form, bm, bn, sized, err = g.form(cols)
	}
	if !b.check(QuantizationConfig, err) {
		return 0, 0, false
	}
	one := scale.Shape.Equal(tensor.Shape{}) || scale.Shape.Equal(tensor.Shape{1})
	perRow := len(shape) >= 2 && len(shape) != 3 &&
		(scale.Shape.Equal(tensor.Shape{rows}) || isColumn(scale.Shape, rows, len(shape)))
	grid := func(bm, bn int64) tensor.Shape {
		if len(shape) == 3 {
			return tensor.Shape{batch, ceil(rows, bm), ceil(cols, bn)}
		}
		return tensor.Shape{ceil(rows, bm), ceil(cols, bn)}
	}
	isGrid := func(bm, bn int64) bool {
		return (len(shape) == 2 || len(shape) == 3) && scale.Shape.Equal(grid(bm, bn))
	}
	isMX := isExponent(scale.DType) && cols%32 == 0 && isGrid(1, 32)
	switch {
	case sized && isGrid(bm, bn):
		b.Scheme = "fp8-block"
		if form == "group" {
			b.Scheme = "fp8-group"
		}
		if isMX && bm == 1 && bn == 32 {
			b.Scheme = "mxfp8"
		}
	case sized && (form == "" || !one && !perRow):
		b.refuse(ScaleShape, "a scale of %v, where %v in blocks of %d by %d has %v", scale.Shape,
			shape, bm, bn, grid(bm, bn))
	case one:
		b.Scheme, bm, bn = "fp8-tensor", rows, cols
	case form == "" && isMX:
		b.Scheme, bm, bn = "mxfp8", 1, 32
	case b.f.cfg.is("fp8") && isGrid(128, 128): // the default of the method
		b.Scheme, bm, bn = "fp8-block", 128, 128
	case perRow:
		b.Scheme, bm, bn = "fp8-channel", 1, cols
	case form != "":
		b.refuse(ScaleShape, "a scale of %v, where one a %s is expected", scale.Shape, form)
	case isGrid(128, 128):
		b.Scheme, bm, bn = "fp8-block", 128, 128
	default:
		b.refuse(QuantizationConfig,
			"a scale of %v for %v, and the configuration has no block size",
			scale.Shape, shape)
	}
	if !b.ended && form != "" && b.Scheme != "mxfp8" && b.Scheme != "fp8-"+form {
		b.disagrees("the configuration says one scale a %s, the tensors are %s", form, b.Scheme)
	}
	return bm, bn, !b.ended
}

// isColumn reports whether s is [n, 1, …] of that rank.
func isColumn(s tensor.Shape, n int64, rank int) bool {
	count, _ := s.Elements()
	return len(s) == rank && s[0] == n && count == n
}

// isFloat8 reports whether a group of compressed-tensors is FP8.
func (g *group) isFloat8() bool {
	return g != nil && optional[string](g.weights, "type") == "float" &&
		optional[int64](g.weights, "num_bits") == 8
}

// form returns what the scales of a weight with cols columns are for: "tensor",
// "channel", "group" or "block"; for the last two also the rows and columns that share a
// scale.
func (g *group) form(cols int64) (form string, bm, bn int64, sized bool, err error) {
	strategy, ok, err := get[string](g.weights, "strategy")
	size, hasSize, sizeErr := groupSize(g.weights, -1)
	if optional[int64](g.weights, "group_size") == -1 { // one group
		hasSize, sizeErr = false, nil
	}
	if err == nil {
		err = sizeErr
	}
	switch {
	case err != nil:
	case !ok && hasSize, strategy == "group", strategy == "tensor_group":
		if !hasSize || cols%size != 0 {
			err = fmt.Errorf("strategy is group, group_size %d, of %d columns", size, cols)
		}
		return "group", 1, size, true, err
	case strategy == "block":
		block, ok, err := get[[]int64](g.weights, "block_structure")
		bm, bn, sized, err = checkBlock("block_structure", block, ok, err)
		return "block", bm, bn, sized, err
	case strategy == "tensor", strategy == "channel", !ok:
		return strategy, 0, 0, false, nil
	default:
		err = fmt.Errorf("strategy is %s", naming.Quote(strategy))
	}
	return "", 0, 0, false, err
}
