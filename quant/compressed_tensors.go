package quant

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// packedWeight makes a weight of weight_packed of compressed-tensors: FP4 or FP6 in U8,
// or integers in I32.
func (f *finder) packedWeight(t *tensor.Tensor, base string) {
	if len(t.Shape) != 2 || t.DType != tensor.U8 && t.DType != tensor.I32 {
		return
	}
	b := f.begin("ct-packed", "compressed-tensors", base+".weight", base, t, nil)
	b.expected = f.cfg.is("compressed-tensors")
	scale := b.part("scale", ".weight_scale")
	format := optional[string](f.cfg.get().object("sparsity_config"), "format")
	if g := f.cfg.group(base); g != nil && strings.HasPrefix(g.format, "marlin") {
		format = g.format
	}
	if format != "" && format != "dense" {
		b.part("shape", ".weight_shape")
		b.part("zero-point", ".weight_zero_point")
		b.part("group-index", ".weight_g_idx")
		b.part("global-scale", ".weight_global_scale")
		b.refuse(UnknownQuantization, "the configuration says %q", format)
		return
	}
	if t.DType == tensor.I32 {
		b.packedIntegers(t, scale)
		return
	}
	rows, bytes := t.Shape[0], t.Shape[1]
	b.Tensor.Shape = tensor.Shape{rows, 2 * bytes}
	global := b.part("global-scale", ".weight_global_scale")
	says := ""
	if g := f.cfg.group(base); g != nil {
		says = g.format
	}
	switch {
	case scale == nil:
		b.lacks(".weight_scale")
	case scale.DType == tensor.F8E4M3FN:
		b.Scheme, b.expected = "nvfp4", true
		b.agrees(says, "nvfp4-pack-quantized")
		b.nvfp4(t, scale, global, ".weight_global_scale", divide)
	case len(scale.Shape) == 2 && bytes == 24*scale.Shape[1] && bytes > 0:
		b.Scheme, b.Tensor.Shape = "mxfp6", tensor.Shape{rows, bytes / 3 * 4}
		b.agrees(says, "mxfp6-pack-quantized")
		if b.fp4Scale(scale, exponents, 32) {
			m := &matrix{batch: 1, rows: rows, cols: bytes / 3 * 4,
				codes: bitsOf(t.Data, rows, bytes, 6, e2m3)}
			b.complete(m.scaled(scale, 1, 32), false, nil)
		}
	case b.expected || isExponent(scale.DType):
		b.Scheme = "mxfp4"
		b.agrees(says, "mxfp4-pack-quantized")
		b.mxfp4(t, scale, exponents)
	}
}

// agrees adds a finding if the configuration says another format than the tensors have.
func (b *builder) agrees(says, format string) {
	if says != "" && says != format && says != "mixed-precision" {
		b.disagrees("the configuration says %s, the tensors are %s", says, format)
	}
}

// packedIntegers completes a weight of integers of 1 to 8 bits in words of 32 bits.
func (b *builder) packedIntegers(t, scale *tensor.Tensor) {
	shape := b.part("shape", ".weight_shape")
	zero := b.part("zero-point", ".weight_zero_point")
	index := b.part("group-index", ".weight_g_idx")
	if !b.needs(scale, ".weight_scale", floatScales) {
		return
	}
	if shape == nil {
		b.lacks(".weight_shape")
		return
	}
	rows, cols, err := weightShape(b.f.loaded(shape), t)
	if !b.check(QuantizationState, err) {
		return
	}
	b.Tensor.Shape = tensor.Shape{rows, cols}
	g := b.f.cfg.group(b.base)
	words := t.Shape[1]
	n, per, err := packing(g, words, cols)
	if !b.check(QuantizationConfig, err) {
		return
	}
	if g != nil {
		b.agrees(g.format, "pack-quantized")
	}
	half := float32(int(1) << (n - 1))
	m := &matrix{batch: 1, rows: rows, cols: cols}
	if per == 0 {
		m.codes = bitsOf(t.Data, rows, words*4, int(n), valuesOf(func(u uint8) float32 {
			return float32(u) - half
		}))
	} else {
		m.codes = wordsOf(t.Data, rows, words*4, int(n), shifts(n, per))
		m.ops = append(m.ops, all(subtract, constantOf(half), rows, cols))
	}
	var zeros *matrix
	height := ceil(rows*n, 32)
	if per > 0 {
		height = ceil(rows, per)
	}
	_, _, width := matrixOf(scale.Shape)
	if zero != nil {
		if !b.needs(zero, ".weight_zero_point", []tensor.DType{tensor.I32},
			tensor.Shape{height, width}) {
			return
		}
		zeros = &matrix{batch: 1, rows: rows, cols: width, codes: &columns{input{zero.Data},
			height, width, n, per}}
		zeros.ops = []operation{all(subtract, constantOf(half), rows, width)}
	}
	b.integers(m, fmt.Sprintf("int%d", n), g, scale, zeros, index)
}

// weightShape reads the shape of a weight: the shape of its words does not show the
// number of columns.
func weightShape(shape, words *tensor.Tensor) (rows, cols int64, err error) {
	if (shape.DType != tensor.I64 && shape.DType != tensor.I32) ||
		!shape.Shape.Equal(tensor.Shape{2}) || shape.Check() != nil {
		return 0, 0, fmt.Errorf("weight_shape is %v of %v", shape.Shape, shape.DType)
	}
	v, err := tensor.Convert[int64](shape)
	if err != nil {
		return 0, 0, fmt.Errorf("weight_shape: %w", err)
	}
	if v[0] != words.Shape[0] || v[1] < 0 || v[1] > 32*words.Shape[1] {
		return 0, 0, fmt.Errorf("weight_shape is %v, of %v words", v, words.Shape)
	}
	return v[0], v[1], nil
}

// shifts returns the lowest bit of each of per codes in a word.
func shifts(bits, per int64) []uint8 {
	all := make([]uint8, per)
	for i := range all {
		all[i] = uint8(int64(i) * bits)
	}
	return all
}

// packing returns the bits of a code, and how many codes a word has: 0 if a code may
// continue in the next word, as it may since compressed-tensors 0.20.
func packing(g *group, words, cols int64) (n, per int64, err error) {
	fits := func(n int64) (per int64, ok bool) {
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
			err = fmt.Errorf("num_bits is %d; %d columns are in %d words", n, cols, words)
		}
		return n, per, err
	}
	for k := int64(1); k <= 8; k++ {
		if p, ok := fits(k); ok {
			if n > 0 {
				return 0, 0, errBits
			}
			n, per = k, p
		}
	}
	if n == 0 {
		err = fmt.Errorf("%d columns are in %d words", cols, words)
	}
	return n, per, err
}

// int8Group makes a weight of I8 codes of compressed-tensors.
func (f *finder) int8Group(t *tensor.Tensor, base string) {
	b := f.begin("ct-int", "int8", t.Name, base, t, t.Shape)
	g := f.cfg.group(base)
	b.expected = g != nil && !f.cfg.excludes(base) && !strings.Contains(g.format, "float")
	scale := b.part("scale", ".weight_scale")
	zero := b.part("zero-point", ".weight_zero_point")
	if !b.needs(scale, ".weight_scale", floatScales) ||
		zero != nil && !b.needs(zero, ".weight_zero_point", []tensor.DType{tensor.I8},
			scale.Shape) {
		return
	}
	var zeros *matrix
	if zero != nil {
		_, rows, cols := matrixOf(scale.Shape)
		if len(scale.Shape) < 2 {
			rows, cols = cols, 1
		}
		zeros = table(zero, 1, rows, cols)
	}
	b.integers(table(t, 1, t.Shape[0], t.Shape[1]), "int8", g, scale, zeros, nil)
}

// integers completes a weight of N rows and K columns of integers. scale has the shape
// [N, K/g], [N, 1], [1] or []; zeros has the same shape, or is nil. integers refuses the
// weight if scales, configuration and columns contradict each other.
func (b *builder) integers(m *matrix, kind string, g *group, scale *tensor.Tensor, zeros *matrix,
	index *tensor.Tensor) {
	form, rowSize, colSize := b.integerForm(g, scale, m.rows, m.cols, zeros != nil)
	if b.ended {
		return
	}
	b.Scheme = kind + "-" + form
	m.scaled(scale, rowSize, colSize)
	scaled := &m.ops[len(m.ops)-1]
	var prepare func() error
	if index != nil {
		if index.DType != tensor.I32 || !index.Shape.Equal(tensor.Shape{m.cols}) ||
			b.f.get(index.Name) == nil {
			b.refuse(QuantizationState, "weight_g_idx is %v of %v", index.Shape, index.DType)
			return
		}
		if form == "group" {
			scaled.groups = &groups{tensor: index, limit: scale.Shape[1]}
			scaled.byColumn = true
			prepare = scaled.groups.read
		}
	}
	if zeros != nil { // before the scale
		o := *scaled
		o.operator, o.grid = subtract, zeros
		m.ops = append(m.ops[:len(m.ops)-1], o, *scaled)
	}
	b.complete(m, false, prepare)
}

// integerForm returns what a scale is for, "tensor", "channel" or "group", and the rows
// and columns that share a scale. It refuses the weight if scales, configuration and
// columns contradict each other.
func (b *builder) integerForm(g *group, scale *tensor.Tensor, rows, cols int64,
	hasZeros bool) (form string, rowSize, colSize int64) {
	size := int64(0)
	if g != nil {
		var err error
		if form, _, size, _, err = g.form(cols); err == nil && form == "block" {
			err = errors.New("strategy is block")
		}
		symmetric, given, _ := get[bool](g.weights, "symmetric")
		switch {
		case !b.check(QuantizationConfig, err):
			return "", 0, 0
		case given && !symmetric && !hasZeros:
			b.refuse(MissingScale, "not symmetric, and no %s.weight_zero_point", b.base)
			return "", 0, 0
		case given && symmetric && hasZeros:
			b.disagrees("the configuration says symmetric; there are zero points")
		}
	}
	rank, groupCount := len(scale.Shape), int64(1)
	if rank == 2 {
		groupCount = scale.Shape[1]
	}
	perRow := rank == 2 && scale.Shape[0] == rows
	switch {
	case form == "group" && perRow && groupCount == cols/size,
		form == "" && perRow && groupCount > 1 && cols%groupCount == 0:
		return "group", 1, max(1, cols/max(groupCount, 1))
	case form != "group" && (rank == 0 || scale.Shape.Equal(tensor.Shape{1})):
		return "tensor", max(rows, 1), max(cols, 1)
	case form != "group" && perRow && groupCount == 1:
		return "channel", 1, max(cols, 1)
	}
	b.refuse(ScaleShape, "a scale of %v for %v, group_size %d", scale.Shape, b.Tensor.Shape, size)
	return "", 0, 0
}
