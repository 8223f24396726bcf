package quant

import (
	"github.com/tensorfile/tensorfile/tensor"
)

// mlx makes a weight of U32 words of MLX.
func (f *finder) mlx(t *tensor.Tensor, base string) {
	expected := f.cfg.is("mlx")
	if len(t.Shape) < 2 || !expected && f.attributes["format"] != "mlx" {
		return
	}
	b := f.begin("mlx", "mlx-affine", t.Name, base, t, nil)
	b.expected = expected && !f.cfg.excludes(base)
	scales, biases := b.part("scale", ".scales"), b.part("bias", ".biases")
	if scales == nil {
		b.lacks(".scales")
		return
	}
	if !expected {
		b.refuse(QuantizationConfig, "no configuration says how many bits a weight has")
		return
	}
	o := f.cfg.get().object(base).withDefaults(f.cfg.get(), "bits", "group_size", "mode")
	n, err := bits(o, 2, 3, 4, 5, 6, 8)
	size, ok, err2 := groupSize(o, -1)
	rows, words := flatten(t.Shape)
	if err != nil || err2 != nil || !ok || len(scales.Shape) == 0 || words*32%n != 0 ||
		words*32/n != scales.Shape[len(scales.Shape)-1]*size {
		b.refuse(QuantizationConfig, "%d bits in groups of %d do not fit %v words, scales of %v",
			n, size, t.Shape, scales.Shape)
		return
	}
	cols := words * 32 / n
	b.Tensor.Shape = withLast(t.Shape, cols)
	grid := withLast(t.Shape, cols/size)
	m := &matrix{batch: 1, rows: rows, cols: cols}
	switch mode := optional[string](o, "mode"); mode {
	case "", "affine":
		if b.expected = true; b.needs(scales, ".scales", floatScales, grid) &&
			b.needs(biases, ".biases", []tensor.DType{scales.DType}, grid) {
			m.codes = bitsOf(t.Data, rows, words*4, int(n), identity)
			m.scaled(scales, 1, size)
			m.ops = append(m.ops, each(add, table(biases, 1, rows, cols/size), 1, size))
			b.complete(m, false, nil)
		}
	case "mxfp4", "mxfp8", "nvfp4":
		b.Scheme = mode
		want := map[string][2]int64{"mxfp4": {4, 32}, "mxfp8": {8, 32}, "nvfp4": {4, 16}}[mode]
		if biases != nil || want != [2]int64{n, size} {
			b.refuse(QuantizationConfig, "mode %s of %d bits in groups of %d, biases %v", mode,
				n, size, biases != nil)
		}
		if !b.needs(scales, ".scales", []tensor.DType{tensor.U8}, grid) {
			return
		}
		m.codes = nibblesOf(t.Data, rows, words*4, false, e2m1)
		if mode == "mxfp8" {
			m.codes = bitsOf(t.Data, rows, words*4, 8, e4m3)
		}
		m.scaled(scales, 1, size)
		if mode == "nvfp4" {
			m.ops[0].grid.codes.(*packed).unpack = unpackers[tensor.F8E4M3FN]
		}
		b.complete(m, false, nil)
	default:
		b.refuse(UnknownQuantization, "the configuration says mode %q", mode)
	}
}
