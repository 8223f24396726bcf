package quant

import (
	"encoding/json"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A layer is ComfyUI's description of a module.
type layer struct {
	format string // "?" if it cannot be read
	values object
	err    error
}

// marker ends the name of a tensor of JSON that describes a module.
const marker = ".comfy_quant"

// isMarker reports whether a tensor of that name is ComfyUI's old marker of a file with
// scales, which has no values.
func isMarker(name string) bool {
	return name == "scaled_fp8" || strings.HasSuffix(name, ".scaled_fp8")
}

// readComfy reads ComfyUI's descriptions of modules: in tensors of JSON, or in the
// header, where names may lack the first segments.
func (f *finder) readComfy() {
	inHeader := map[string]layer{}
	if text := f.attributes["_quantization_metadata"]; text != "" {
		f.keys["_quantization_metadata"] = true
		top, err := parseObject([]byte(text))
		if err != nil {
			f.note(QuantizationState, tensor.SeverityError, "",
				errorf(tensor.ErrMalformed, "_quantization_metadata", "%v", err))
		}
		ordered(top["layers"], func(name string, raw json.RawMessage) {
			inHeader[name] = newLayer(parseObject(raw))
		})
	}
	for _, t := range f.order {
		base, isWeight := strings.CutSuffix(t.Name, ".weight")
		switch {
		case isMarker(t.Name):
			f.isScaled = true
		case strings.HasSuffix(t.Name, marker):
			f.comfy[strings.TrimSuffix(t.Name, marker)] = newLayer(f.readJSON(t))
		case isWeight && len(inHeader) > 0 && f.comfy[base].format == "" &&
			len(base) <= maxModule:
			for name, ok := base, true; ok; _, name, ok = strings.Cut(name, ".") {
				if l, found := inHeader[name]; found {
					f.comfy[base] = l
					break
				}
			}
		}
	}
}

func newLayer(values object, err error) layer {
	l := layer{optional[string](values, "format"), values, err}
	if l.format == "" {
		l.format = "?"
		if err == nil {
			l.err = errJSON
		}
	}
	return l
}

// option returns the object that has the key: the description, else its params.
func (l layer) option(key string) object {
	if l.values.has(key) {
		return l.values
	}
	return l.values.object("params")
}

// comfyLayer makes a weight that ComfyUI describes.
func (f *finder) comfyLayer(t *tensor.Tensor, base string) {
	l := f.comfy[base]
	b := f.begin("comfy", l.format, t.Name, base, t, t.Shape)
	b.expected = true
	scale, scale2 := b.part("scale", ".weight_scale"), b.part("global-scale", ".weight_scale_2")
	b.part("marker", marker)
	dtype, ok := map[string]tensor.DType{"float8_e4m3fn": tensor.F8E4M3FN,
		"float8_e5m2": tensor.F8E5M2, "mxfp8": tensor.F8E4M3FN, "nvfp4": tensor.U8,
		"int8_tensorwise": tensor.I8, "int8_rowwise": tensor.I8,
		"int8_blockwise": tensor.I8}[l.format]
	isMX := l.format == "nvfp4" || l.format == "mxfp8"
	switch {
	case l.err != nil:
		b.refuse(QuantizationState, "what ComfyUI says of it: %v", l.err)
	case !ok:
		b.refuse(UnknownQuantization, "ComfyUI says format %q", l.format)
	case optional[bool](l.option("convrot"), "convrot"):
		b.refuse(UnknownQuantization, "ComfyUI says convrot: the weight is rotated")
	case t.DType != dtype || len(t.Shape) == 0 || isMX && len(t.Shape) != 2:
		b.refuse(QuantizationConfig, "ComfyUI says %s, the weight is %v of %v", l.format,
			t.Shape, t.DType)
	case l.format != "nvfp4" && scale2 != nil:
		b.refuse(QuantizationConfig, "weight_scale_2 is no part of %s", l.format)
	case !b.without():
	case l.format == "nvfp4": // the high nibble first
		m := fp4Of(t, true)
		if b.Tensor.Shape = withLast(t.Shape, m.cols); b.swizzle(m, scale, onlyE4M3, 16, true) &&
			b.needsNumber(scale2, ".weight_scale_2") {
			b.complete(m.withGlobal(multiply, scale2), false, nil)
		}
	case l.format == "mxfp8":
		if m := table(t, 1, t.Shape[0], t.Shape[1]); b.swizzle(m, scale, exponents, 32, true) {
			b.complete(m, false, nil)
		}
	case b.needs(scale, ".weight_scale", floatScales):
		b.comfyScaled(l, t, scale)
	}
}

// comfyScaled completes a weight of bytes with one scale, or one for each row or block.
func (b *builder) comfyScaled(l layer, t, scale *tensor.Tensor) {
	kind := "int8"
	if strings.HasPrefix(l.format, "float8") {
		kind = "fp8"
	}
	batch, rows, cols := matrixOf(t.Shape)
	n, _ := scale.Shape.Elements()
	bm, bn := rows, cols
	switch {
	case l.format == "int8_blockwise":
		size, ok, err := groupSize(l.option("group_size"), -1)
		if !ok || err != nil || len(t.Shape) != 2 {
			b.refuse(QuantizationState, "ComfyUI says %s, group_size %d: %v", l.format, size, err)
			return
		}
		b.Scheme, bm, bn = kind+"-block", size, size
		if !b.needs(scale, ".weight_scale", floatScales,
			tensor.Shape{ceil(rows, size), ceil(cols, size)}) {
			return
		}
	case n == 1 && len(scale.Shape) <= 1:
		b.Scheme = kind + "-tensor"
	case len(t.Shape) >= 2 && batch == 1 && n == rows &&
		(len(scale.Shape) == 1 || isColumn(scale.Shape, rows, len(t.Shape))):
		b.Scheme, bm = kind+"-channel", 1
	default:
		b.refuse(ScaleShape, "a scale of %v for %v", scale.Shape, t.Shape)
	}
	b.complete(table(t, batch, rows, cols).scaled(scale, bm, bn), false, nil)
}

// swizzle multiplies by scales in the order of cuBLAS, each for size columns. If exact is
// set, the scales must have the shape of the tiles, else only as many elements.
func (b *builder) swizzle(m *matrix, scale *tensor.Tensor, dtypes []tensor.DType, size int64,
	exact bool) bool {
	if m.cols%size != 0 {
		b.refuse(ScaleShape, "%d columns in groups of %d", m.cols, size)
		return false
	}
	rows, cols := (m.rows+127)/128*128, (m.cols/size+3)/4*4
	shape := tensor.Shape{rows, cols}
	if scale != nil && !exact {
		if n, _ := scale.Shape.Elements(); n == rows*cols {
			shape = scale.Shape
		}
	}
	if !b.needs(scale, ".weight_scale", dtypes, shape) {
		return false
	}
	s := &swizzled{input: input{scale.Data}, cols: cols, values: e4m3}
	if isExponent(scale.DType) {
		s.values = e8m0
	}
	m.ops = append(m.ops, each(multiply,
		&matrix{batch: 1, rows: m.rows, cols: m.cols / size, codes: s}, 1, size))
	return true
}
