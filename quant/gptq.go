package quant

import (
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// wordWeight makes a weight of qweight of GPTQ or AWQ, which the file has transposed.
func (f *finder) wordWeight(t *tensor.Tensor, base string) {
	zeros, scales := f.stored[base+".qzeros"], f.stored[base+".scales"]
	expected := f.cfg.is("gptq", "awq")
	isOther := scales != nil && (!isFloatScale(scales.DType) || len(scales.Shape) != 2) ||
		zeros != nil && zeros.DType != tensor.I32
	if t.DType != tensor.I32 || len(t.Shape) != 2 || !expected && isOther {
		return
	}
	b := f.begin("words", "gptq", base+".weight", base, t, nil)
	b.expected = expected
	b.part("scale", ".scales")
	b.part("zero-point", ".qzeros")
	index := b.part("group-index", ".g_idx")
	if !b.needs(scales, ".scales", floatScales) ||
		!b.needs(zeros, ".qzeros", []tensor.DType{tensor.I32}) {
		return
	}
	cols := t.Shape[1]
	isAWQ := index == nil && len(scales.Shape) == 2 && scales.Shape[1] == 8*cols && cols > 0
	switch {
	case f.stored[b.Name] != nil:
		b.refuse(QuantizationConfig, "there is %s too", b.Name)
	case isAWQ && f.cfg.quantised() && !f.cfg.is("awq"), !isAWQ && f.cfg.is("awq"):
		b.refuse(QuantizationConfig,
			"the configuration says %s; %v words and scales of %v are %s",
			f.cfg.method, t.Shape, scales.Shape, map[bool]string{true: "AWQ's",
				false: "not"}[isAWQ])
	case isAWQ:
		b.Scheme = "awq"
		b.awq(t, scales, zeros)
	case len(scales.Shape) != 2 || scales.Shape[1] != cols:
		b.refuse(ScaleShape, "scales of %v, %v words", scales.Shape, t.Shape)
	case f.cfg.quantised() && !f.cfg.is("gptq"):
		b.refuse(UnknownQuantization, "the configuration says %s", naming.Quote(f.cfg.method))
	case f.cfg == nil || !f.cfg.is("gptq"):
		b.refuse(QuantizationConfig,
			"no configuration of GPTQ says whether 1 is added to zero points")
	default:
		b.gptq(t, scales, zeros, index)
	}
}

// gptq completes a weight of GPTQ: the codes of a column are in the words of that column.
func (b *builder) gptq(t, scales, zeros, index *tensor.Tensor) {
	o := b.f.cfg.get()
	format := strings.ToLower(optional[string](o, "checkpoint_format", "format"))
	if format != "" && format != "gptq" && format != "gptq_v2" {
		b.refuse(UnknownQuantization, "the configuration says format %q", format)
		return
	}
	for _, d := range b.f.cfg.dynamic {
		if len(b.base) <= maxModule && d.module.MatchString(b.base) && !d.excludes {
			o = d.values.withDefaults(o, "bits", "group_size")
			break
		}
	}
	n, err := bits(o, 2, 3, 4, 8)
	if !b.check(QuantizationConfig, err) {
		return
	}
	words, cols, count := t.Shape[0], t.Shape[1], scales.Shape[0]
	rows := words * 32 / n
	if index != nil {
		if b.f.get(index.Name) == nil || index.DType != tensor.I32 || len(index.Shape) != 1 {
			b.refuse(QuantizationState, "g_idx is %v of %v", index.Shape, index.DType)
			return
		}
		rows = index.Shape[0]
	}
	size, ok, err := groupSize(o, rows)
	if err != nil || !ok && index == nil || ceil(rows*n, 32) != words ||
		ok && ceil(rows, size) != count {
		b.refuse(QuantizationConfig, "%d bits, group_size %d: %v words, %d groups, %d rows, %v",
			n, size, t.Shape, count, rows, err)
		return
	}
	if !b.needs(zeros, ".qzeros", []tensor.DType{tensor.I32},
		tensor.Shape{count, ceil(cols*n, 32)}) {
		return
	}
	offset := float32(1) // between stored zero points and their values
	if format == "gptq_v2" {
		offset = 0
	}
	z := &matrix{batch: 1, rows: count, cols: cols, codes: bitsOf(zeros.Data, count,
		zeros.Shape[1]*4, int(n), valuesOf(func(u uint8) float32 { return float32(u) + offset }))}
	m := &matrix{batch: 1, rows: rows, cols: cols,
		codes: &columns{input{t.Data}, words, cols, n, 0}}
	m.ops = []operation{each(subtract, z, max(size, 1), 1),
		each(multiply, table(scales, 1, count, cols), max(size, 1), 1)}
	var prepare func() error
	if index != nil {
		g := &groups{tensor: index, limit: count}
		m.ops[0].groups, m.ops[1].groups = g, g
		prepare = g.read
	}
	b.Tensor.Shape = tensor.Shape{cols, rows}
	if v := b.complete(m, true, prepare); v != nil && offset > 0 {
		v.wrapped = float32(int(1) << n)
	}
}

// awqOrder has the lowest bit of each of the eight columns in a word.
var awqOrder = []uint8{0, 16, 4, 20, 8, 24, 12, 28}

// awq completes a weight of AWQ, version gemm: words of eight columns.
func (b *builder) awq(t, scales, zeros *tensor.Tensor) {
	rows, words, count := t.Shape[0], t.Shape[1], scales.Shape[0]
	size := int64(0)
	if o := b.f.cfg.get(); o != nil {
		if v := strings.ToLower(optional[string](o, "version")); v != "" && v != "gemm" {
			b.refuse(UnknownQuantization, "the configuration says version %q", v)
			return
		}
		_, err := bits(o, 4)
		if err == nil {
			size, _, err = groupSize(o, rows)
		}
		if !b.check(QuantizationConfig, err) {
			return
		}
	}
	if size == 0 && count > 0 && rows%count == 0 {
		size = max(1, rows/count)
	}
	if size == 0 || ceil(rows, size) != count {
		b.refuse(QuantizationConfig, "group_size is %d, of %d rows in %d groups", size, rows,
			count)
		return
	}
	if !b.needs(zeros, ".qzeros", []tensor.DType{tensor.I32}, tensor.Shape{count, words}) {
		return
	}
	cols := 8 * words
	z := &matrix{batch: 1, rows: count, cols: cols,
		codes: wordsOf(zeros.Data, count, words*4, 4, awqOrder)}
	m := &matrix{batch: 1, rows: rows, cols: cols,
		codes: wordsOf(t.Data, rows, words*4, 4, awqOrder)}
	m.ops = []operation{each(subtract, z, size, 1),
		each(multiply, table(scales, 1, count, cols), size, 1)}
	b.Tensor.Shape = tensor.Shape{cols, rows}
	b.complete(m, true, nil)
}
