package quant

import (
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

var onlyE4M3 = []tensor.DType{tensor.F8E4M3FN}

// byteWeight makes a weight of U8 codes: NVFP4 of ModelOpt, or, incomplete, a weight of
// bitsandbytes without its state.
func (f *finder) byteWeight(t *tensor.Tensor, base string) {
	if len(t.Shape) == 2 && t.Shape[1] == 1 {
		b := f.begin("bnb4", "bnb", t.Name, t.Name, t, nil)
		b.expected = f.cfg.is("bitsandbytes") && optional[bool](f.cfg.get(), "load_in_4bit") &&
			!f.cfg.excludes(base)
		b.part("scale", ".absmax")
		b.part("map", ".quant_map")
		b.part("nested-scale", ".nested_absmax")
		b.part("nested-map", ".nested_quant_map")
		b.lacks(stateSuffix + "…")
	}
	algorithm, _ := f.cfg.algorithm(base)
	expected := strings.Contains(algorithm, "NVFP4") && !f.cfg.excludes(base)
	s := f.stored[base+".weight_scale"]
	if len(t.Shape) < 2 || !expected && s != nil && s.DType != tensor.F8E4M3FN &&
		f.stored[base+".weight_scale_2"] == nil {
		return // scaled in another way
	}
	b := f.begin("nvfp4", "nvfp4", t.Name, base, t, withLast(t.Shape, 2*t.Shape[len(t.Shape)-1]))
	b.expected = expected
	b.nvfp4(t, b.part("scale", ".weight_scale"), b.part("global-scale", ".weight_scale_2"),
		".weight_scale_2", multiply)
}

// nvfp4 completes a weight of E2M1 codes, low nibble first, with a scale for each 16
// columns and one for the tensor.
func (b *builder) nvfp4(t, scale, global *tensor.Tensor, suffix string, op operator) {
	if b.fp4Scale(scale, onlyE4M3, 16) && b.needsNumber(global, suffix) && b.without() {
		b.complete(fp4Of(t, false).scaled(scale, 1, 16).withGlobal(op, global), false, nil)
	}
}

// fp4Scale is needs for scales that size columns of the weight share.
func (b *builder) fp4Scale(scale *tensor.Tensor, dtypes []tensor.DType, size int64) bool {
	cols := b.Tensor.Shape[len(b.Tensor.Shape)-1]
	if scale != nil && cols%size != 0 {
		b.refuse(ScaleShape, "%d columns in groups of %d", cols, size)
	}
	return b.needs(scale, ".weight_scale", dtypes, withLast(b.Tensor.Shape, cols/size))
}

// mxfp4 completes a weight of E2M1 codes, low nibble first, with an exponent for each 32
// columns.
func (b *builder) mxfp4(t, scale *tensor.Tensor, dtypes []tensor.DType) {
	if b.fp4Scale(scale, dtypes, 32) {
		b.complete(fp4Of(t, false).scaled(scale, 1, 32), false, nil)
	}
}

// int8Weight makes a weight of I8 codes: of bitsandbytes, DeepSeek-V4 or
// compressed-tensors.
func (f *finder) int8Weight(t *tensor.Tensor, base string) {
	if len(t.Shape) != 2 {
		return
	}
	scb, scale := f.stored[base+".SCB"], f.stored[base+".scale"]
	isV4 := f.cfg.is("fp8") && f.cfg.fp4
	isBNB := f.cfg.is("bitsandbytes") && optional[bool](f.cfg.get(), "load_in_8bit") &&
		!f.cfg.excludes(base)
	switch {
	case scb != nil && (isBNB || scb.DType == tensor.F32 && scb.Shape.Equal(t.Shape[:1])):
		f.bnbInt8(t, base)
	case scale != nil && (scale.DType == tensor.F8E8M0FNU || isFloatScale(scale.DType) && isV4):
		b := f.begin("v4", "mxfp4", t.Name, base, t, withLast(t.Shape, 2*t.Shape[1]))
		b.mxfp4(t, b.part("scale", ".scale"), scales8)
	case f.cfg.is("compressed-tensors"):
		f.int8Group(t, base)
	default:
		b := f.begin("v4", "mxfp4", t.Name, base, t, withLast(t.Shape, 2*t.Shape[1]))
		b.expected = isV4 && !f.cfg.excludes(base)
		b.lacks(".scale")
		b = f.begin("bnb8", "bnb-int8", t.Name, base, t, t.Shape)
		b.expected = isBNB
		b.lacks(".SCB")
	}
}

// expertBlocks makes the weight of experts of gpt-oss, which the file has transposed.
func (f *finder) expertBlocks(t *tensor.Tensor, name string) {
	scale := f.stored[name+"_scales"]
	isMethod := f.cfg.is("mxfp4")
	if t.DType != tensor.U8 || len(t.Shape) != 4 || t.Shape[3] != 16 ||
		scale != nil && !isExponent(scale.DType) && !isMethod {
		return
	}
	batch, rows, cols := t.Shape[0], t.Shape[1], 32*t.Shape[2]
	b := f.begin("mxfp4", "mxfp4", name, name, t, tensor.Shape{batch, cols, rows})
	b.expected = isMethod
	if b.needs(b.part("scale", "_scales"), "_scales", exponents, t.Shape[:3]) {
		m := &matrix{batch: batch, rows: rows, cols: cols,
			codes: nibblesOf(t.Data, rows, cols/2, false, e2m1)}
		b.complete(m.scaled(scale, 1, 32), true, nil)
	}
}
