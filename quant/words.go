package quant

import (
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// wordWeight is for qweight of GPTQ and AWQ: the weight is the transpose.
func (f *finder) wordWeight(t *tensor.Tensor, base string) {
	if t.DType != tensor.I32 || len(t.Shape) != 2 {
		return
	}
	zeros, scales, index := f.stored[base+".qzeros"], f.stored[base+".scales"],
		f.stored[base+".g_idx"]
	w := f.weight(base+".weight", "gptq", t)
	f.add(f.add(f.add(w, "scale", scales), "zero-point", zeros), "group-index", index)
	due := f.cfg.is("gptq", "awq")
	if scales == nil || zeros == nil {
		missing := base + ".scales"
		if scales != nil {
			missing = base + ".qzeros"
		}
		f.lacks("words", w, due, "no %s", missing)
		return
	}
	if !isFloatScale(scales.DType) || len(scales.Shape) != 2 || zeros.DType != tensor.I32 ||
		f.get(scales.Name) == nil || f.get(zeros.Name) == nil {
		if due || f.seen["words"] {
			f.refuse(w, ScaleDType, "the scales are %v of %v, the zero points %v", scales.Shape,
				scales.DType, zeros.DType)
		}
		return
	}
	count, n := scales.Shape[0], scales.Shape[1]
	cols := t.Shape[1]
	switch isAWQ := index == nil && n == 8*cols && cols > 0; {
	case f.stored[base+".weight"] != nil:
		f.refuse(w, QuantizationConfig, "there is %s too", base+".weight")
	case isAWQ && f.cfg.is("gptq"):
		f.refuse(w, QuantizationConfig, "the configuration says gptq, the shapes are AWQ's")
	case isAWQ:
		f.awq(w, t, scales, zeros)
	case f.cfg.is("awq"):
		f.refuse(w, QuantizationConfig,
			"the configuration says awq, the shapes are not: %v words, "+
				"scales of %v", t.Shape, scales.Shape)
	case n != cols:
		f.refuse(w, ScaleShape, "scales of %v, %v words", scales.Shape, t.Shape)
	default:
		f.gptq(w, base, t, count, scales, zeros, index)
	}
}

// gptq reads words whose bits run down the columns.
func (f *finder) gptq(w *Weight, base string, t *tensor.Tensor, count int64, scales, zeros,
	index *tensor.Tensor) {
	if !f.cfg.is("gptq") {
		f.refuse(w, QuantizationConfig,
			"no configuration of GPTQ says whether 1 is added to zero points")
		return
	}
	o := f.cfg.get()
	format := strings.ToLower(optional[string](o, "checkpoint_format", "format"))
	if format != "" && format != "gptq" && format != "gptq_v2" {
		f.refuse(w, UnknownQuantization, "the configuration says format %q", format)
		return
	}
	for _, d := range f.cfg.override {
		if d.module.MatchString(base) && !d.excludes {
			o = object{}
			for _, from := range []object{f.cfg.get(), d.values} {
				for k, v := range from {
					o[k] = v
				}
			}
			break
		}
	}
	b, err := bits(o, 2, 3, 4, 8)
	if err != nil {
		f.refuse(w, QuantizationConfig, "%v", err)
		return
	}
	words, n := t.Shape[0], t.Shape[1]
	k := words * 32 / b
	if index != nil {
		if f.get(index.Name) == nil || index.DType != tensor.I32 || len(index.Shape) != 1 {
			f.refuse(w, QuantizationState, "g_idx is %v of %v", index.Shape, index.DType)
			return
		}
		k = index.Shape[0]
	}
	if ceil(k*b, 32) != words {
		f.refuse(w, QuantizationConfig, "%d rows of %d bits are not %d words", k, b, words)
		return
	}
	size, ok, err := groupSize(o, k)
	if err != nil || !ok && index == nil {
		f.refuse(w, QuantizationConfig, "group_size: %v", err)
		return
	}
	if ok && ceil(k, size) != count {
		f.refuse(w, QuantizationConfig, "group_size is %d, of %d rows in %d groups", size, k,
			count)
		return
	}
	if !zeros.Shape.Equal(tensor.Shape{count, ceil(n*b, 32)}) {
		f.refuse(w, ScaleShape, "zero points of %v words, where %v is due", zeros.Shape,
			tensor.Shape{count, ceil(n*b, 32)})
		return
	}
	w.DType = tensor.F16
	zero := float32(1)
	if format == "gptq_v2" {
		zero = 0
	}
	z := &matrix{batch: 1, rows: count, cols: n, codes: bitsOf(zeros.Data, count,
		zeros.Shape[1]*4, int(b), valuesOf(func(v uint8) float32 { return float32(v) + zero }))}
	m := &matrix{batch: 1, rows: k, cols: n,
		codes: &columns{input: input{t.Data}, rows: words, cols: n, bits: b}}
	m.ops = []operation{each(subtract, z, max(size, 1), 1),
		each(multiply, table(scales, 1, count, n), max(size, 1), 1)}
	var prepare func() error
	if index != nil {
		g := &groups{tensor: index, limit: count}
		m.ops[0].groups, m.ops[1].groups = g, g
		prepare = g.read
	}
	f.complete("words", w, tensor.Shape{n, k}, m, true, prepare)
	f.seen["gptq"] = true
	if v, ok := w.Tensor.Data.Source().(*values); ok && zero > 0 {
		v.wrapped = float32(int(1) << b)
	}
}

// awqOrder is where the columns of a word are.
var awqOrder = []uint8{0, 16, 4, 20, 8, 24, 12, 28}

// awq reads words of eight columns, version gemm.
func (f *finder) awq(w *Weight, t, scales, zeros *tensor.Tensor) {
	w.Scheme = "awq"
	k, cols, groups := t.Shape[0], t.Shape[1], scales.Shape[0]
	size := int64(0)
	if o := f.cfg.get(); o != nil {
		if !f.cfg.is("awq") {
			f.refuse(w, QuantizationConfig, "the configuration says %s, the shapes are AWQ's",
				f.cfg.method)
			return
		}
		if v := strings.ToLower(optional[string](o, "version")); v != "" && v != "gemm" {
			f.refuse(w, UnknownQuantization, "the configuration says version %q", v)
			return
		}
		_, err := bits(o, 4)
		if err == nil {
			size, _, err = groupSize(o, k)
		}
		if err != nil {
			f.refuse(w, QuantizationConfig, "%v", err)
			return
		}
	}
	if size == 0 && groups > 0 && k%groups == 0 {
		size = max(1, k/groups)
	}
	if size == 0 || ceil(k, size) != groups {
		f.refuse(w, QuantizationConfig, "group_size is %d, of %d rows in %d groups", size, k,
			groups)
		return
	}
	if !zeros.Shape.Equal(tensor.Shape{groups, cols}) {
		f.refuse(w, ScaleShape, "zero points of %v words, where %v is due", zeros.Shape,
			tensor.Shape{groups, cols})
		return
	}
	w.DType = tensor.F16
	n := 8 * cols
	z := &matrix{batch: 1, rows: groups, cols: n,
		codes: wordsOf(zeros.Data, groups, cols*4, 4, awqOrder)}
	m := &matrix{batch: 1, rows: k, cols: n, codes: wordsOf(t.Data, k, cols*4, 4, awqOrder)}
	m.ops = []operation{each(subtract, z, size, 1),
		each(multiply, table(scales, 1, groups, n), size, 1)}
	f.complete("words", w, tensor.Shape{n, k}, m, true, nil)
	f.seen["awq"] = true
}

// mlx is for weights of U32 of MLX.
func (f *finder) mlx(t *tensor.Tensor, base string) {
	scales, biases := f.stored[base+".scales"], f.stored[base+".biases"]
	due := f.cfg.is("mlx")
	if len(t.Shape) < 2 || !due && f.attributes["format"] != "mlx" {
		return
	}
	w := f.add(f.add(f.weight(t.Name, "mlx-affine", t), "scale", scales), "bias", biases)
	if scales == nil {
		f.lacks("mlx", w, due && !f.cfg.excludes(base), "no %s", base+".scales")
		return
	}
	rank := len(t.Shape) - 1
	if f.get(scales.Name) == nil || len(scales.Shape) != rank+1 ||
		!scales.Shape[:rank].Equal(t.Shape[:rank]) {
		f.refuse(w, ScaleShape, "scales of %v, %v words", scales.Shape, t.Shape)
		return
	}
	if !due {
		f.refuse(w, QuantizationConfig, "no configuration says how many bits a weight has")
		return
	}
	o := f.cfg.get()
	if own := o.object(base); own != nil {
		for k, v := range o {
			if _, ok := own[k]; !ok && (k == "bits" || k == "group_size" || k == "mode") {
				own[k] = v
			}
		}
		o = own
	}
	n, err := bits(o, 2, 3, 4, 5, 6, 8)
	var size int64
	if err == nil {
		size, _, err = groupSize(o, -1)
	}
	words, groups := t.Shape[rank], scales.Shape[rank]
	cols := words * 32 / max(n, 1)
	if err != nil || words*32%n != 0 || size < 1 || cols != groups*size {
		if err == nil {
			err = errorf(tensor.ErrMalformed, w.Name,
				"%d bits in groups of %d do not fit %d words and "+
					"%d groups", n, size, words, groups)
		}
		f.refuse(w, QuantizationConfig, "%v", err)
		return
	}
	shape := append(append(tensor.Shape{}, t.Shape[:rank]...), cols)
	w.Tensor.Shape = shape
	_, rows, _ := leading(t.Shape)
	mode := optional[string](o, "mode")
	m := &matrix{batch: 1, rows: rows, cols: cols}
	scale := table(scales, 1, rows, groups)
	switch mode {
	case "", "affine":
		if biases == nil {
			f.refuse(w, MissingScale, "no %s", base+".biases")
			return
		}
		if !isFloatScale(scales.DType) || biases.DType != scales.DType ||
			!biases.Shape.Equal(scales.Shape) || f.get(biases.Name) == nil {
			f.refuse(w, ScaleShape, "scales of %v %v, biases of %v %v", scales.Shape,
				scales.DType,
				biases.Shape, biases.DType)
			return
		}
		m.codes = bitsOf(t.Data, rows, words*4, int(n), identity)
		m.ops = []operation{each(multiply, scale, 1, size),
			each(add, table(biases, 1, rows, groups), 1, size)}
		f.complete("mlx", w, shape, m, false, nil)
		return
	case "mxfp4", "mxfp8", "nvfp4":
		w.Scheme = mode
	default:
		f.refuse(w, UnknownQuantization, "the configuration says mode %q", mode)
		return
	}
	want := map[string][2]int64{"mxfp4": {4, 32}, "mxfp8": {8, 32}, "nvfp4": {4, 16}}[mode]
	switch {
	case biases != nil:
		f.refuse(w, QuantizationConfig, "the configuration says mode %s; there is %s", mode,
			base+".biases")
		return
	case scales.DType != tensor.U8:
		f.refuse(w, ScaleDType, "the scales are %v", scales.DType)
		return
	case want != [2]int64{n, size}:
		f.refuse(w, QuantizationConfig,
			"mode %s has %d bits in groups of %d, the configuration says "+
				"%d and %d", mode, want[0], want[1], n, size)
		return
	}
	scale.codes.(*packed).unpack = unpackers[tensor.F8E8M0FNU]
	m.codes = nibblesOf(t.Data, rows, words*4, false, e2m1)
	if mode == "nvfp4" {
		scale.codes.(*packed).unpack = unpackers[tensor.F8E4M3FN]
	}
	if mode == "mxfp8" {
		m.codes = bitsOf(t.Data, rows, words*4, 8, e4m3)
	}
	m.ops = []operation{each(multiply, scale, 1, size)}
	f.complete("mlx", w, shape, m, false, nil)
}
