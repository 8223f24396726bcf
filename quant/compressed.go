package quant

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// packedWeight is for weight_packed of compressed-tensors: FP4 and FP6 in U8, integers in
// I32.
func (f *finder) packedWeight(t *tensor.Tensor, base string) {
	if len(t.Shape) != 2 || t.DType != tensor.U8 && t.DType != tensor.I32 {
		return
	}
	scale := f.stored[base+".weight_scale"]
	w := f.add(f.weight(base+".weight", "compressed-tensors", t), "scale", scale)
	if t.DType == tensor.I32 {
		f.packedIntegers(w, base, t, scale)
		return
	}
	global := f.stored[base+".weight_global_scale"]
	f.add(w, "global-scale", global)
	w.Tensor.Shape = unpackedShape(t.Shape)
	due := f.cfg.is("compressed-tensors")
	cols := t.Shape[1]
	says := ""
	if g := f.cfg.group(base); g != nil {
		says = g.format
	}
	switch {
	case scale == nil:
		f.lacks("ct-packed", w, due, "no scale, %s", base+".weight_scale")
	case scale.DType == tensor.F8E4M3FN && global == nil:
		w.Scheme = "nvfp4"
		f.lacks("ct-packed", w, true, "no scale of the tensor, %s", base+".weight_global_scale")
	case scale.DType == tensor.F8E4M3FN:
		w.Scheme = "nvfp4"
		f.agrees(w, says, "nvfp4-pack-quantized")
		f.nvfp4(w, t, scale, global, divide)
	case !isExponent(scale.DType):
		if due {
			f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
		}
	case len(scale.Shape) == 2 && cols == 24*scale.Shape[1] && cols > 0:
		w.Scheme = "mxfp6"
		f.agrees(w, says, "mxfp6-pack-quantized")
		w.Tensor.Shape = tensor.Shape{t.Shape[0], cols / 3 * 4}
		if f.gridOf(w, scale, cols/3*4, 32) {
			m := &matrix{batch: 1, rows: t.Shape[0], cols: cols / 3 * 4,
				codes: bitsOf(t.Data, t.Shape[0], cols, 6, e2m3)}
			m.ops = []operation{each(multiply,
				scaleGrid(scale, 1, m.rows, m.cols, 1, 32), 1, 32)}
			f.complete("ct-packed", w, w.Tensor.Shape, m, false, nil)
		}
	default:
		w.Scheme = "mxfp4"
		f.agrees(w, says, "mxfp4-pack-quantized")
		if m := f.fp4(w, t, scale, 32); m != nil {
			f.complete("ct-packed", w, w.Tensor.Shape, m, false, nil)
		}
	}
}

// agrees notes a format of the configuration that is not the one that tensors show.
func (f *finder) agrees(w *Weight, says, format string) {
	if says != "" && says != format && says != "mixed-precision" {
		f.contradicts(w, "the configuration says %s, the tensors are %s", says, format)
	}
}

// e2m3 are the values of FP6, by code.
var e2m3 = valuesOf(func(b uint8) float32 {
	m := float32(b & 7)
	v := m / 8
	if e := b >> 3 & 3; e > 0 {
		v = (1 + m/8) * float32(int(1)<<(e-1))
	}
	if b&32 != 0 {
		v = -v
	}
	return v
})

// weightShape reads weight_shape, the only place of the number of columns.
func weightShape(t *tensor.Tensor) (rows, cols int64, err error) {
	if (t.DType != tensor.I64 && t.DType != tensor.I32) || !t.Shape.Equal(tensor.Shape{2}) {
		return 0, 0, fmt.Errorf("weight_shape is %v of %v", t.Shape, t.DType)
	}
	v, err := tensor.Convert[int64](t)
	if err != nil {
		return 0, 0, fmt.Errorf("weight_shape: %w", err)
	}
	return v[0], v[1], nil
}

// packedIntegers is for integers of 1 to 8 bits in words.
func (f *finder) packedIntegers(w *Weight, base string, t, scale *tensor.Tensor) {
	shape := f.stored[base+".weight_shape"]
	zero, index := f.stored[base+".weight_zero_point"], f.stored[base+".weight_g_idx"]
	f.add(f.add(f.add(w, "shape", shape), "zero-point", zero), "group-index", index)
	due := f.cfg.is("compressed-tensors")
	if scale == nil || shape == nil {
		missing := base + ".weight_scale"
		if scale != nil {
			missing = base + ".weight_shape"
		}
		f.lacks("ct-packed", w, due, "no %s", missing)
		return
	}
	if !isFloatScale(scale.DType) || f.get(scale.Name) == nil {
		f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
		return
	}
	if f.get(shape.Name) == nil {
		f.refuse(w, QuantizationState, "weight_shape is %v of %v", shape.Shape, shape.DType)
		return
	}
	rows, cols, err := weightShape(shape)
	words := t.Shape[1]
	if err == nil && (rows != t.Shape[0] || cols < 0 || cols > 32*words) {
		err = fmt.Errorf("weight_shape is [%d, %d], of %v words", rows, cols, t.Shape)
	}
	if err != nil {
		f.refuse(w, QuantizationState, "%v", err)
		return
	}
	w.Tensor.Shape = tensor.Shape{rows, cols}
	g := f.cfg.group(base)
	n, per, err := packing(g, words, cols)
	if err != nil {
		f.refuse(w, QuantizationConfig, "%v", err)
		return
	}
	if g != nil {
		f.agrees(w, g.format, "pack-quantized")
	}
	m := &matrix{batch: 1, rows: rows, cols: cols}
	half := float32(int(1) << (n - 1))
	if per == 0 {
		m.codes = bitsOf(t.Data, rows, words*4, int(n), valuesOf(func(b uint8) float32 {
			return float32(b) - half
		}))
	} else {
		m.codes = wordsOf(t.Data, rows, words*4, int(n), places(n, per))
		m.ops = append(m.ops, all(subtract, constantOf(half), rows, cols))
	}
	grid, ok := f.integerScale(w, base, fmt.Sprintf("int%d", n), g, scale, zero, index)
	if !ok {
		return
	}
	if zero != nil {
		height := ceil(rows*n, 32)
		if per > 0 {
			height = ceil(rows, per)
		}
		_, width := gridDims(scale)
		if zero.DType != tensor.I32 || !zero.Shape.Equal(tensor.Shape{height, width}) ||
			f.get(zero.Name) == nil {
			f.refuse(w, ScaleShape, "weight_zero_point is %v of %v, where %v of int32 is due",
				zero.Shape, zero.DType, tensor.Shape{height, width})
			return
		}
		z := &matrix{batch: 1, rows: rows, cols: width, codes: &columns{input: input{zero.Data},
			rows: height, cols: width, bits: n, per: per}}
		z.ops = []operation{all(subtract, constantOf(half), rows, width)}
		o := grid.op
		o.operator, o.grid = subtract, z
		m.ops = append(m.ops, o)
	}
	m.ops = append(m.ops, grid.op)
	f.complete("ct-packed", w, w.Tensor.Shape, m, false, grid.prepare)
}

// places are where the elements of a word are that the next one does not continue.
func places(bits, per int64) []uint8 {
	at := make([]uint8, per)
	for i := range at {
		at[i] = uint8(int64(i) * bits)
	}
	return at
}

// packing returns the bits of an element, and how many a word has where the next one does
// not continue them; 0 if it does, as since compressed-tensors 0.20.
func packing(g *group, words, cols int64) (n, per int64, err error) {
	fits := func(n int64) (int64, bool) {
		if words == ceil(cols*n, 32) {
			return 0, true
		}
		return 32 / n, words == ceil(cols, 32/n)
	}
	if g != nil {
		if n, err = bits(g.weights, 1, 2, 3, 4, 5, 6, 7, 8); err != nil {
			return 0, 0, err
		}
		per, ok := fits(n)
		if !ok {
			return 0, 0, fmt.Errorf("num_bits is %d; %d columns are in %d words", n, cols, words)
		}
		return n, per, nil
	}
	for b := int64(1); b <= 8; b++ {
		if p, ok := fits(b); ok {
			if n > 0 {
				return 0, 0, fmt.Errorf("%d columns in %d words have %d bits or %d: %w", cols,
					words,
					n, b, errBits)
			}
			n, per = b, p
		}
	}
	if n == 0 {
		return 0, 0, fmt.Errorf("%d columns are in %d words", cols, words)
	}
	return n, per, nil
}

// gridDims returns the rows and columns of a scale of rank 2 or less.
func gridDims(scale *tensor.Tensor) (rows, cols int64) {
	switch len(scale.Shape) {
	case 0:
		return 1, 1
	case 1:
		return scale.Shape[0], 1
	}
	return scale.Shape[0], scale.Shape[1]
}

// A scaleOperation multiplies by scales, and reads the groups that it needs.
type scaleOperation struct {
	op      operation
	prepare func() error
}

// integerScale returns how integers of compressed-tensors are multiplied by their scale:
// [N, K/g], [N, 1] or [1]. It refuses the weight if scale, configuration and columns do
// not agree.
func (f *finder) integerScale(w *Weight, base, kind string, g *group, scale, zero,
	index *tensor.Tensor) (s scaleOperation, ok bool) {
	rows, cols := w.Tensor.Shape[0], w.Tensor.Shape[1]
	form, size := "", int64(0)
	if g != nil {
		var err error
		var sized bool
		form, _, size, sized, err = g.form(cols)
		if err == nil && sized && form == "block" {
			err = fmt.Errorf("strategy is block")
		}
		if err != nil {
			f.refuse(w, QuantizationConfig, "%v", err)
			return s, false
		}
		if symmetric, has, _ := get[bool](g.weights, "symmetric"); has && !symmetric &&
			zero == nil {
			f.refuse(w, MissingScale, "not symmetric, and no %s", base+".weight_zero_point")
			return s, false
		} else if has && symmetric && zero != nil {
			f.contradicts(w, "the configuration says symmetric; there is %s",
				base+".weight_zero_point")
		}
	}
	one := len(scale.Shape) <= 1 && scale.Shape.Equal(tensor.Shape{1}) || len(scale.Shape) == 0
	gridRows, groupsOf := gridDims(scale)
	switch {
	case form == "group":
		if len(scale.Shape) != 2 || gridRows != rows || groupsOf != cols/size {
			f.refuse(w, ScaleShape, "a scale of %v, where [%d, %d] is due", scale.Shape, rows,
				cols/size)
			return s, false
		}
	case one:
		form = "tensor"
	case len(scale.Shape) == 2 && gridRows == rows && groupsOf == 1:
		form = "channel"
	case form == "" && len(scale.Shape) == 2 && gridRows == rows && groupsOf > 0 &&
		cols%groupsOf == 0:
		form, size = "group", cols/groupsOf
	default:
		f.refuse(w, ScaleShape, "a scale of %v for %v", scale.Shape, w.Tensor.Shape)
		return s, false
	}
	w.Scheme = kind + "-" + form
	switch form {
	case "tensor":
		s.op = all(multiply, table(scale, 1, 1, 1), rows, cols)
	case "channel":
		s.op = each(multiply, table(scale, 1, rows, 1), 1, max(cols, 1))
	default:
		s.op = each(multiply, table(scale, 1, rows, groupsOf), 1, max(size, 1))
	}
	if index == nil {
		return s, true
	}
	if index.DType != tensor.I32 || !index.Shape.Equal(tensor.Shape{cols}) ||
		f.get(index.Name) == nil {
		f.refuse(w, QuantizationState, "%s is %v of %v", index.Name, index.Shape, index.DType)
		return s, false
	}
	if form == "group" {
		s.op.groups, s.op.byColumn = &groups{tensor: index, limit: groupsOf}, true
		s.prepare = s.op.groups.read
	}
	return s, true
}

// int8Group is for I8 of compressed-tensors.
func (f *finder) int8Group(t *tensor.Tensor, base string) {
	scale, zero := f.stored[base+".weight_scale"], f.stored[base+".weight_zero_point"]
	w := f.add(f.add(f.weight(t.Name, "int8", t), "scale", scale), "zero-point", zero)
	w.Tensor.Shape = t.Shape
	g := f.cfg.group(base)
	switch {
	case scale == nil:
		due := g != nil && !f.cfg.excludes(base) && !strings.Contains(g.format, "float")
		f.lacks("ct-int", w, due, "no scale, %s", base+".weight_scale")
	case !isFloatScale(scale.DType) || f.get(scale.Name) == nil:
		f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
	case zero != nil && (zero.DType != tensor.I8 || f.get(zero.Name) == nil):
		f.refuse(w, ScaleDType, "the zero point is %v", zero.DType)
	case zero != nil && !zero.Shape.Equal(scale.Shape):
		f.refuse(w, ScaleShape, "a zero point of %v, a scale of %v", zero.Shape, scale.Shape)
	default:
		grid, ok := f.integerScale(w, base, "int8", g, scale, zero, nil)
		if !ok {
			return
		}
		m := table(t, 1, t.Shape[0], t.Shape[1])
		if zero != nil {
			rows, cols := gridDims(zero)
			o := grid.op
			o.operator, o.grid = subtract, table(zero, 1, rows, cols)
			m.ops = append(m.ops, o)
		}
		m.ops = append(m.ops, grid.op)
		f.complete("ct-int", w, t.Shape, m, false, nil)
	}
}
