package quant

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// float8 is for FP8 codes with one scale, or one for each channel, group or block.
func (f *finder) float8(t *tensor.Tensor) {
	base, isWeight := strings.CutSuffix(t.Name, ".weight")
	if isMarker(t.Name) {
		return
	}
	w := f.weight(t.Name, "fp8", t)
	w.Tensor.Shape = t.Shape
	suffixes := []string{".weight_scale", ".weight_scale_inv", ".scale_weight", ".qscale_weight"}
	if !isWeight {
		if isPartName(t.Name) {
			return
		}
		suffixes = []string{"_scale_inv", "_scale"}
	}
	var scale *tensor.Tensor
	scales := 0
	for _, suffix := range suffixes {
		if s := f.stored[base+suffix]; s != nil {
			f.add(w, "scale", s)
			scale = s
			scales++
		}
	}
	if s := f.stored[base+".scale"]; isWeight && s != nil && scales == 0 && f.isScale(t, s) {
		f.add(w, "scale", s)
		scale, scales = s, 1
	}
	due := (f.cfg.is("fp8", "fbgemm_fp8") || f.isScaled && isWeight || f.float8Group(base) ||
		f.float8Algorithm(base)) && len(t.Shape) >= 2 && !f.cfg.excludes(base)
	switch {
	case scales == 0:
		f.lacks("fp8", w, due, "%v without a scale, %s", t.DType, base+suffixes[0])
	case scales > 1:
		f.refuse(w, QuantizationConfig, "more than one scale")
	case strings.HasSuffix(scale.Name, "_scale") && !isWeight:
		f.refuse(w, UnknownQuantization, "what %s scales is not known", scale.Name)
	case f.refuseExtra(w, base, "weight_scale_2", "weight_zero_point"):
	case f.get(scale.Name) == nil || !isFloatScale(scale.DType) && !isExponent(scale.DType):
		f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
	default:
		f.float8Scaled(w, base, t, scale)
	}
}

// isPartName reports whether a name that does not end in .weight is a scale's.
func isPartName(name string) bool {
	return strings.HasSuffix(name, "scale") || strings.HasSuffix(name, "scales") ||
		strings.HasSuffix(name, "scale_inv") || strings.HasSuffix(name, "scale_2")
}

// isScale reports whether s, named .scale, is one of DeepSeek-V4: it also names learned
// parameters of other models.
func (f *finder) isScale(t, s *tensor.Tensor) bool {
	if len(t.Shape) != 2 || len(s.Shape) != 2 {
		return false
	}
	return s.DType == tensor.F8E8M0FNU || isFloatScale(s.DType) && f.cfg.is("fp8")
}

// float8Group reports whether compressed-tensors quantises the module to floats of 8
// bits.
func (f *finder) float8Group(base string) bool {
	g := f.cfg.group(base)
	return g != nil && optional[string](g.weights, "type") == "float" &&
		optional[int64](g.weights, "num_bits") == 8
}

// float8Algorithm reports whether ModelOpt quantises the module to FP8.
func (f *finder) float8Algorithm(base string) bool {
	a, _ := f.cfg.algorithm(base)
	return strings.HasPrefix(a, "FP8") || a == "MXFP8"
}

// inputFactors are parts that change what a layer computes from its input: its weight
// alone says nothing.
var inputFactors = []string{"pre_quant_scale", "svdquant_lora_a", "svdquant_lora_b"}

// refuseExtra refuses a weight that has parts which its scheme does not have.
func (f *finder) refuseExtra(w *Weight, base string, suffixes ...string) bool {
	for _, s := range inputFactors {
		if t := f.stored[base+"."+s]; t != nil {
			f.refuse(f.add(w, "scale", t), UnknownQuantization,
				"%s changes what the layer computes", s)
			return true
		}
	}
	for _, s := range suffixes {
		if t := f.stored[base+"."+s]; t != nil {
			f.refuse(f.add(w, "scale", t), QuantizationConfig, "%s is not part of %s", s,
				w.Scheme)
			return true
		}
	}
	return false
}

// float8Scaled takes the form of the scale from the configuration, else from its shape.
func (f *finder) float8Scaled(w *Weight, base string, t, scale *tensor.Tensor) {
	batch, rows, cols, ok := matrixOf(t.Shape)
	if !ok {
		f.refuse(w, ScaleShape, "a weight of %v with a scale of %v", t.Shape, scale.Shape)
		return
	}
	bm, bn, sized, err := f.cfg.blockSize()
	form := ""
	if g := f.cfg.group(base); g != nil && err == nil {
		form, bm, bn, sized, err = g.form(cols)
	}
	if err != nil {
		f.refuse(w, QuantizationConfig, "%v", err)
		return
	}
	one := len(scale.Shape) == 0 || len(scale.Shape) == 1 && scale.Shape[0] == 1
	perRow := len(t.Shape) >= 2 && batch == 1 && len(t.Shape) != 3 &&
		(scale.Shape.Equal(tensor.Shape{rows}) || isColumn(scale.Shape, rows, len(t.Shape)))
	isGrid := func(bm, bn int64) bool {
		want := tensor.Shape{ceil(rows, bm), ceil(cols, bn)}
		if len(t.Shape) == 3 {
			want = append(tensor.Shape{batch}, want...)
		}
		return len(t.Shape) >= 2 && len(t.Shape) <= 3 && scale.Shape.Equal(want)
	}
	switch {
	case sized && isGrid(bm, bn):
		w.Scheme = "fp8-block"
		if form == "group" {
			w.Scheme = "fp8-group"
		}
		if bm == 1 && bn == 32 && isExponent(scale.DType) {
			w.Scheme = "mxfp8"
		}
	case sized && (form == "" || !one && !perRow):
		f.refuse(w, ScaleShape, "a scale of %v, where %v in blocks of %d by %d has %v",
			scale.Shape,
			t.Shape, bm, bn, tensor.Shape{ceil(rows, bm), ceil(cols, bn)})
		return
	case one:
		w.Scheme, bm, bn = "fp8-tensor", rows, cols
	case form == "" && isExponent(scale.DType) && cols%32 == 0 && isGrid(1, 32):
		w.Scheme, bm, bn = "mxfp8", 1, 32
	case perRow:
		w.Scheme, bm, bn = "fp8-channel", 1, cols
	case form != "" && form != "block":
		f.refuse(w, ScaleShape, "a scale of %v, where one a %s is due", scale.Shape, form)
		return
	case isGrid(128, 128):
		w.Scheme, bm, bn = "fp8-block", 128, 128
	default:
		f.refuse(w, QuantizationConfig,
			"a scale of %v for %v, and the configuration has no block size", scale.Shape,
			t.Shape)
		return
	}
	if form != "" && w.Scheme != "mxfp8" && w.Scheme != "fp8-"+form {
		f.contradicts(w, "the configuration says one scale a %s, the tensors are %s", form,
			w.Scheme)
	}
	if a, all := f.cfg.algorithm(base); strings.Contains(a, "FP4") {
		f.contradicts(w, "the configuration says %s, the tensors are %s", a, w.Scheme)
	} else if a == "MXFP8" && w.Scheme != "mxfp8" && all {
		f.contradicts(w, "the configuration says %s, the tensors are %s", a, w.Scheme)
	}
	m := table(t, batch, rows, cols)
	m.ops = []operation{each(multiply, scaleGrid(scale, batch, rows, cols, bm, bn), max(bm, 1),
		max(bn, 1))}
	f.complete("fp8", w, t.Shape, m, false, nil)
}

// scaleGrid is the scales of a batch of matrices, one for bm rows and bn columns. U8 is
// E8M0.
func scaleGrid(scale *tensor.Tensor, batch, rows, cols, bm, bn int64) *matrix {
	if n, _ := scale.Shape.Elements(); n == 1 {
		batch = 1
	}
	m := table(scale, batch, ceil(rows, max(bm, 1)), ceil(cols, max(bn, 1)))
	if scale.DType == tensor.U8 {
		m.codes.(*packed).unpack = unpackers[tensor.F8E8M0FNU]
	}
	return m
}

// matrixOf returns a shape as a batch of matrices: those of rank 3 as they are, others
// with all but the first dimension as columns.
func matrixOf(s tensor.Shape) (batch, rows, cols int64, ok bool) {
	batch, rows, cols = 1, 1, 1
	switch len(s) {
	case 0:
	case 1:
		cols = s[0]
	case 3:
		batch, rows, cols = s[0], s[1], s[2]
	default:
		rows = s[0]
		cols, ok = s[1:].Elements()
		return batch, rows, cols, ok
	}
	_, ok = s.Elements()
	return batch, rows, cols, ok
}

// isColumn reports whether s is [n, 1, …] of that rank.
func isColumn(s tensor.Shape, n int64, rank int) bool {
	if len(s) != rank || s[0] != n {
		return false
	}
	for _, d := range s[1:] {
		if d != 1 {
			return false
		}
	}
	return true
}

// form returns what a group of compressed-tensors says of the scales of a weight with
// that many columns: tensor, channel, group or block, and the size of its blocks.
func (g *group) form(cols int64) (form string, bm, bn int64, sized bool, err error) {
	strategy, ok, err := get[string](g.weights, "strategy")
	size, hasSize, sizeErr := groupSize(g.weights, -1)
	if optional[int64](g.weights, "group_size") == -1 { // one group
		hasSize, sizeErr = false, nil
	}
	switch {
	case err != nil:
		return "", 0, 0, false, err
	case sizeErr != nil:
		return "", 0, 0, false, sizeErr
	case !ok && hasSize, strategy == "group", strategy == "tensor_group":
		if !hasSize {
			return "", 0, 0, false, fmt.Errorf("strategy is %s, without group_size", strategy)
		}
		if cols%size != 0 {
			return "", 0, 0, false, fmt.Errorf("group_size is %d, of %d columns", size, cols)
		}
		return "group", 1, size, true, nil
	case strategy == "block":
		block, ok, err := get[[]int64](g.weights, "block_structure")
		bm, bn, sized, err = checkBlock("block_structure", block, ok, err)
		return "block", bm, bn, sized, err
	case strategy == "tensor", strategy == "channel", !ok:
		return strategy, 0, 0, false, nil
	}
	return "", 0, 0, false, fmt.Errorf("strategy is %s", naming.Quote(strategy))
}
