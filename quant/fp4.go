package quant

import (
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// byteWeight is for weights of U8: NVFP4 of ModelOpt.
func (f *finder) byteWeight(t *tensor.Tensor, base string) {
	a, _ := f.cfg.algorithm(base)
	due := strings.Contains(a, "NVFP4") && len(t.Shape) >= 2 && !f.cfg.excludes(base)
	scale, scale2 := f.stored[base+".weight_scale"], f.stored[base+".weight_scale_2"]
	isNVFP4 := scale != nil && scale.DType == tensor.F8E4M3FN || scale2 != nil
	if len(t.Shape) < 2 || !due && !isNVFP4 {
		return
	}
	w := f.add(f.add(f.weight(t.Name, "nvfp4", t), "scale", scale), "global-scale", scale2)
	w.Tensor.Shape = unpackedShape(t.Shape)
	switch {
	case scale == nil:
		f.lacks("nvfp4", w, due, "no scale, %s", base+".weight_scale")
	case scale.DType != tensor.F8E4M3FN:
		f.refuse(w, ScaleDType, "the scale is %v, where float8_e4m3fn is due", scale.DType)
	case scale2 == nil:
		f.lacks("nvfp4", w, due, "no scale of the tensor, %s", base+".weight_scale_2")
	case f.refuseExtra(w, base):
	default:
		f.nvfp4(w, t, scale, scale2, multiply)
	}
}

// unpackedShape returns the shape of the elements of which two are in a byte.
func unpackedShape(s tensor.Shape) tensor.Shape {
	s = append(tensor.Shape{}, s...)
	s[len(s)-1] *= 2
	return s
}

// nvfp4 completes a weight of E2M1 codes, low nibble first, with a scale for 16 columns.
// The scale of the tensor may be nil.
func (f *finder) nvfp4(w *Weight, t, scale, global *tensor.Tensor, op operator) {
	m := f.fp4(w, t, scale, 16)
	if m == nil || !f.globalScale(w, m, global, op) {
		return
	}
	f.complete("nvfp4", w, w.Tensor.Shape, m, false, nil)
}

// globalScale combines the scales of blocks with that of the tensor, or refuses.
func (f *finder) globalScale(w *Weight, m *matrix, global *tensor.Tensor, op operator) bool {
	if global == nil {
		return true
	}
	if n, _ := global.Shape.Elements(); n != 1 || f.get(global.Name) == nil {
		f.refuse(w, ScaleShape, "%s has the shape %v, where one number is due", global.Name,
			global.Shape)
		return false
	}
	if global.DType != tensor.F32 {
		f.refuse(w, ScaleDType, "%s is %v, where float32 is due", global.Name, global.DType)
		return false
	}
	grid := m.ops[0].grid
	grid.ops = []operation{all(op, number(global), grid.rows, grid.cols)}
	return true
}

// fp4 returns codes of E2M1, low nibble first, with a scale for size columns; nil if it
// refused the weight. The shape of the weight is that of the codes, unpacked.
func (f *finder) fp4(w *Weight, t, scale *tensor.Tensor, size int64) *matrix {
	batch, rows, half := leading(t.Shape)
	if !f.gridOf(w, scale, 2*half, size) {
		return nil
	}
	m := &matrix{batch: batch, rows: rows, cols: 2 * half,
		codes: nibblesOf(t.Data, rows, half, false, e2m1)}
	m.ops = []operation{each(multiply, scaleGrid(scale, batch, rows, 2*half, 1, size), 1, size)}
	return m
}

// gridOf refuses a weight unless its scale has the shape of the weight, with one for size
// columns.
func (f *finder) gridOf(w *Weight, scale *tensor.Tensor, cols, size int64) bool {
	want := append(tensor.Shape{}, w.Tensor.Shape...)
	want[len(want)-1] = cols / size
	if cols%size == 0 && scale.Shape.Equal(want) && f.get(scale.Name) != nil {
		return true
	}
	f.refuse(w, ScaleShape, "%s has the shape %v, where %v in groups of %d is due", scale.Name,
		scale.Shape, w.Tensor.Shape, size)
	return false
}

// leading returns a shape of rank 2 or more as one matrix: all dimensions but the last
// are rows.
func leading(s tensor.Shape) (batch, rows, cols int64) {
	rows = 1
	for _, d := range s[:len(s)-1] {
		rows *= d
	}
	return 1, rows, s[len(s)-1]
}

// int8Weight is for weights of I8: bitsandbytes, DeepSeek-V4, compressed-tensors.
func (f *finder) int8Weight(t *tensor.Tensor, base string) {
	if len(t.Shape) != 2 {
		return
	}
	scb, scale := f.stored[base+".SCB"], f.stored[base+".scale"]
	switch {
	case scb != nil && scb.DType == tensor.F32 && scb.Shape.Equal(t.Shape[:1]):
		f.bnbInt8(t, base, scb)
	case scale != nil && (scale.DType == tensor.F8E8M0FNU ||
		isFloatScale(scale.DType) && f.cfg.is("fp8") && f.cfg.fp4):
		w := f.add(f.weight(t.Name, "mxfp4", t), "scale", scale)
		w.Tensor.Shape = unpackedShape(t.Shape)
		if m := f.fp4(w, t, scale, 32); m != nil {
			f.complete("v4", w, w.Tensor.Shape, m, false, nil)
		}
	case f.cfg.is("compressed-tensors"):
		f.int8Group(t, base)
	case f.cfg.is("fp8") && f.cfg.fp4 || f.seen["v4"]:
		w := f.weight(t.Name, "mxfp4", t)
		w.Tensor.Shape = unpackedShape(t.Shape)
		f.lacks("v4", w, f.cfg.is("fp8") && f.cfg.fp4, "no scale, %s.scale", base)
	default:
		f.lacks("v4", f.weight(t.Name, "mxfp4", t), false, "no scale, %s.scale", base)
		if scb == nil {
			due := f.cfg.is("bitsandbytes") && optional[bool](f.cfg.get(), "load_in_8bit")
			f.lacks("bnb8", f.weight(t.Name, "bnb-int8", t), due, "no scale, %s.SCB", base)
		}
	}
}

// expertBlocks is for the experts of gpt-oss: the weight is the transpose.
func (f *finder) expertBlocks(t *tensor.Tensor, name string) {
	if t.DType != tensor.U8 || len(t.Shape) != 4 || t.Shape[3] != 16 {
		return
	}
	scale := f.stored[name+"_scales"]
	w := f.add(f.weight(name, "mxfp4", t), "scale", scale)
	batch, rows, cols := t.Shape[0], t.Shape[1], 32*t.Shape[2]
	w.Tensor.Shape = tensor.Shape{batch, cols, rows}
	switch {
	case scale == nil:
		f.lacks("mxfp4", w, f.cfg.is("mxfp4"), "no scales, %s", name+"_scales")
	case scale.DType != tensor.U8 && scale.DType != tensor.F8E8M0FNU:
		if f.cfg.is("mxfp4") {
			f.refuse(w, ScaleDType, "the scales are %v", scale.DType)
		}
	case f.get(scale.Name) == nil || !scale.Shape.Equal(t.Shape[:3]):
		f.refuse(w, ScaleShape, "%s has the shape %v, where %v is due", scale.Name, scale.Shape,
			t.Shape[:3])
	default:
		m := &matrix{batch: batch, rows: rows, cols: cols,
			codes: nibblesOf(t.Data, rows, cols/2, false, e2m1)}
		m.ops = []operation{each(multiply, scaleGrid(scale, batch, rows, cols, 1, 32), 1, 32)}
		f.complete("mxfp4", w, w.Tensor.Shape, m, true, nil)
	}
}
