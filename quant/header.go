package quant

import (
	"encoding/json"
	"strings"

	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// This file is for weights that the header, or a tensor of JSON, describes: ComfyUI,
// torchao, GGUF.

// A layer is what ComfyUI says of a module.
type layer struct {
	format string // "?" where it cannot be read
	values object
	marker *tensor.Tensor // nil: the header says it
	err    error
}

const marker = ".comfy_quant"

// readComfy reads what ComfyUI says of modules: in tensors of JSON, or in the header,
// where names may lack the first segments.
func (f *finder) readComfy() {
	var suffixes map[string]layer
	if text := f.attributes["_quantization_metadata"]; text != "" {
		top, err := parseObject([]byte(text))
		if err != nil {
			f.note(QuantizationState, tensor.SeverityError, "",
				errorf(tensor.ErrMalformed, "_quantization_metadata", "%v", err))
		}
		suffixes = map[string]layer{}
		ordered(top["layers"], func(name string, raw json.RawMessage) {
			values, err := parseObject(raw)
			suffixes[name] = newLayer(values, nil, err)
		})
	}
	for _, t := range f.order {
		switch {
		case isMarker(t.Name):
			f.isScaled = true
		case strings.HasSuffix(t.Name, marker):
			values, err := f.readJSON(t)
			f.comfy[strings.TrimSuffix(t.Name, marker)] = newLayer(values, t, err)
		case suffixes != nil && strings.HasSuffix(t.Name, ".weight"):
			base := strings.TrimSuffix(t.Name, ".weight")
			for name := base; ; {
				if l, ok := suffixes[name]; ok {
					if f.comfy[base].format == "" {
						f.comfy[base] = l
					}
					break
				}
				_, rest, ok := strings.Cut(name, ".")
				if !ok {
					break
				}
				name = rest
			}
		}
	}
}

// isMarker reports whether a name is that of ComfyUI's old marker, which has no values.
func isMarker(name string) bool {
	return name == "scaled_fp8" || strings.HasSuffix(name, ".scaled_fp8")
}

func newLayer(values object, t *tensor.Tensor, err error) layer {
	l := layer{"?", values, t, err}
	if format, ok, e := get[string](values, "format"); err == nil && ok && e == nil &&
		format != "" {
		l.format = format
	} else if err == nil {
		l.err = errJSON
	}
	return l
}

// comfyLayer is for a weight of which ComfyUI says the format.
func (f *finder) comfyLayer(t *tensor.Tensor, base string) {
	l := f.comfy[base]
	scale, scale2 := f.stored[base+".weight_scale"], f.stored[base+".weight_scale_2"]
	w := f.add(f.add(f.weight(t.Name, l.format, t), "scale", scale), "global-scale", scale2)
	f.add(w, "marker", l.marker)
	w.Tensor.Shape = t.Shape
	isDType := map[string]tensor.DType{"float8_e4m3fn": tensor.F8E4M3FN,
		"float8_e5m2": tensor.F8E5M2,
		"mxfp8":       tensor.F8E4M3FN, "nvfp4": tensor.U8, "int8_tensorwise": tensor.I8,
		"int8_rowwise": tensor.I8, "int8_blockwise": tensor.I8}
	due, ok := isDType[l.format]
	switch {
	case l.err != nil:
		w.Scheme = "comfy"
		f.refuse(w, QuantizationState, "what ComfyUI says of it: %v", l.err)
	case !ok:
		f.refuse(w, UnknownQuantization, "ComfyUI says format %q", l.format)
	case optional[bool](l.values, "convrot") || optional[bool](l.values.object("params"),
		"convrot"):
		f.refuse(w, UnknownQuantization, "ComfyUI says convrot: the weight is rotated")
	case t.DType != due || len(t.Shape) < 1:
		f.refuse(w, QuantizationConfig, "ComfyUI says %s, the weight is %v", l.format, t.DType)
	case scale == nil:
		f.refuse(w, MissingScale, "no scale, %s", base+".weight_scale")
	case f.refuseExtra(w, base):
	case l.format == "nvfp4":
		f.comfyNVFP4(w, t, scale, scale2)
	case scale2 != nil:
		f.refuse(w, QuantizationConfig, "weight_scale_2 is not part of %s", l.format)
	case l.format == "mxfp8":
		w.Scheme = "mxfp8"
		if len(t.Shape) != 2 || !isExponent(scale.DType) {
			f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
		} else if t.Shape[1]%32 != 0 {
			f.refuse(w, ScaleShape, "mxfp8 of %v", t.Shape)
		} else {
			m := table(t, 1, t.Shape[0], t.Shape[1])
			if f.swizzle(w, m, scale, 32, true) {
				f.complete("comfy", w, t.Shape, m, false, nil)
			}
		}
	case strings.HasPrefix(l.format, "float8"):
		if f.get(scale.Name) == nil || !isFloatScale(scale.DType) {
			f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
			return
		}
		f.comfyScaled(w, "fp8", t, scale, 0)
	default:
		if f.get(scale.Name) == nil || !isFloatScale(scale.DType) {
			f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
			return
		}
		size := int64(0)
		if l.format == "int8_blockwise" {
			var ok bool
			var err error
			if size, ok, err = groupSize(l.values, -1); !ok {
				size, ok, err = groupSize(l.values.object("params"), -1)
			}
			if !ok || err != nil {
				f.refuse(w, QuantizationState, "ComfyUI says %s, and no group_size: %v",
					l.format, err)
				return
			}
		}
		f.comfyScaled(w, "int8", t, scale, size)
	}
}

// comfyScaled is for bytes with one scale, or one for each row or square block.
func (f *finder) comfyScaled(w *Weight, kind string, t, scale *tensor.Tensor, size int64) {
	batch, rows, cols, ok := matrixOf(t.Shape)
	n, _ := scale.Shape.Elements()
	bm, bn := rows, cols
	switch {
	case !ok:
		f.refuse(w, ScaleShape, "a weight of %v", t.Shape)
		return
	case size > 0:
		w.Scheme, bm, bn = kind+"-block", size, size
		if len(t.Shape) != 2 || !scale.Shape.Equal(tensor.Shape{ceil(rows, size), ceil(cols,
			size)}) {
			f.refuse(w, ScaleShape, "a scale of %v for %v in blocks of %d", scale.Shape, t.Shape,
				size)
			return
		}
	case n == 1 && len(scale.Shape) <= 1:
		w.Scheme = kind + "-tensor"
	case len(t.Shape) >= 2 && batch == 1 && n == rows &&
		(len(scale.Shape) == 1 || isColumn(scale.Shape, rows, len(t.Shape))):
		w.Scheme, bm = kind+"-channel", 1
	default:
		f.refuse(w, ScaleShape, "a scale of %v for %v", scale.Shape, t.Shape)
		return
	}
	m := table(t, batch, rows, cols)
	m.ops = []operation{each(multiply, scaleGrid(scale, batch, rows, cols, bm, bn), max(bm, 1),
		max(bn, 1))}
	f.complete("comfy", w, t.Shape, m, false, nil)
}

// comfyNVFP4 has the high nibble first, and scales that are swizzled.
func (f *finder) comfyNVFP4(w *Weight, t, scale, scale2 *tensor.Tensor) {
	switch {
	case len(t.Shape) != 2 || t.Shape[1]%8 != 0:
		f.refuse(w, ScaleShape, "nvfp4 of %v", t.Shape)
		return
	case scale.DType != tensor.F8E4M3FN:
		f.refuse(w, ScaleDType, "the scale is %v", scale.DType)
		return
	case scale2 == nil:
		f.refuse(w, MissingScale, "no scale of the tensor")
		return
	}
	w.Tensor.Shape = unpackedShape(t.Shape)
	rows, half := t.Shape[0], t.Shape[1]
	m := &matrix{batch: 1, rows: rows, cols: 2 * half,
		codes: nibblesOf(t.Data, rows, half, true, e2m1)}
	if f.swizzle(w, m, scale, 16, true) && f.globalScale(w, m, scale2, multiply) {
		f.complete("comfy", w, w.Tensor.Shape, m, false, nil)
	}
}

// swizzle multiplies by scales for size columns in the order of cuBLAS. exact asks for
// the shape, not only the number of scales.
func (f *finder) swizzle(w *Weight, m *matrix, scale *tensor.Tensor, size int64,
	exact bool) bool {
	rows, cols := swizzledShape(m.rows, m.cols/size)
	if n, _ := scale.Shape.Elements(); f.get(scale.Name) == nil || n != rows*cols ||
		exact && !scale.Shape.Equal(tensor.Shape{rows, cols}) {
		f.refuse(w, ScaleShape, "a swizzled scale of %v, where %v is due", scale.Shape,
			tensor.Shape{rows, cols})
		return false
	}
	s := &swizzled{input: input{scale.Data}, cols: cols, values: e4m3}
	if isExponent(scale.DType) {
		s.values = e8m0
	}
	m.ops = []operation{each(multiply,
		&matrix{batch: 1, rows: m.rows, cols: m.cols / size, codes: s}, 1, size)}
	return true
}

// readTorchAO makes the weights that the header of torchao describes.
func (f *finder) readTorchAO() {
	top, err := parseObject([]byte(`{"names":` + f.attributes["tensor_names"] + `}`))
	names, ok, err2 := get[[]string](top, "names")
	if err != nil || !ok || err2 != nil {
		return
	}
	for _, name := range names {
		o, err := parseObject([]byte(f.attributes[name]))
		kind := optional[string](o, "_type")
		if err != nil || kind == "Tensor" || kind == "torch.Tensor" {
			continue
		}
		base, last := "", name
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			base, last = name[:i+1], name[i+1:]
		}
		f.torchAO(name, base+"_"+last+"_", kind, o)
	}
}

// torchAO makes one weight of parts whose names begin with prefix.
func (f *finder) torchAO(name, prefix, kind string, o object) {
	var w *Weight
	missing := ""
	parts := map[string]*tensor.Tensor{}
	for _, part := range append([]string{"qdata"}, optional[[]string](o,
		"_tensor_data_names")...) {
		t := f.stored[prefix+part]
		switch {
		case parts[part] != nil:
		case t == nil || f.part[t]:
			missing = prefix + part
		case w == nil:
			w = f.weight(name, "torchao", t)
		default:
			role, ok := map[string]string{"scale": "scale", "zero_point": "zero-point",
				"per_tensor_scale": "global-scale"}[part]
			if !ok {
				role = part
			}
			f.add(w, role, t)
		}
		parts[part] = t
	}
	if w == nil || f.stored[name] != nil {
		f.note(MissingScale, tensor.SeverityError, name,
			errorf(tensor.ErrMalformed, name, "the header says %s; its parts are not there",
				kind))
		return
	}
	q, scale, zero, global := parts["qdata"], parts["scale"], parts["zero_point"],
		parts["per_tensor_scale"]
	data := o.object("_data")
	switch {
	case missing != "" || q == nil || scale == nil:
		f.refuse(w, MissingScale, "no %s", missing)
		return
	case f.get(q.Name) == nil || f.get(scale.Name) == nil || len(q.Shape) < 2:
		f.refuse(w, ScaleShape, "codes of %v, a scale of %v", q.Shape, scale.Shape)
		return
	case parts["act_pre_scale"] != nil:
		f.refuse(w, UnknownQuantization, "act_pre_scale changes what the layer computes")
		return
	}
	w.Tensor.Shape = q.Shape
	isSwizzled := optional[bool](data, "is_swizzled_scales")
	switch kind {
	case "Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor":
		f.torchAOBlocks(w, kind, data, q, scale, zero)
	case "NVFP4Tensor":
		w.Scheme, w.Tensor.Shape = "nvfp4", unpackedShape(q.Shape)
		if size, err := block(data, "block_size", nil); err != nil || size != 16 ||
			q.DType != tensor.U8 || scale.DType != tensor.F8E4M3FN {
			f.refuse(w, QuantizationState, "blocks of %d, codes of %v, scales of %v: %v", size,
				q.DType,
				scale.DType, err)
		} else if m := f.torchAOFP4(w, q, scale, 16, isSwizzled); m != nil &&
			f.globalScale(w, m, global, multiply) {
			f.complete("torchao", w, w.Tensor.Shape, m, false, nil)
		}
	case "MXTensor":
		size, err := block(data, "block_size", nil)
		elements := optional[string](data.object("elem_dtype"), "_data")
		switch {
		case err != nil || !isExponent(scale.DType):
			f.refuse(w, QuantizationState, "scales of %v: %v", scale.DType, err)
		case elements == "float4_e2m1fn_x2" && q.DType == tensor.U8:
			w.Scheme, w.Tensor.Shape = "mxfp4", unpackedShape(q.Shape)
			if m := f.torchAOFP4(w, q, scale, size, isSwizzled); m != nil {
				f.complete("torchao", w, w.Tensor.Shape, m, false, nil)
			}
		case elements == q.DType.String() && isFloat8(q.DType):
			w.Scheme = "mxfp8"
			_, rows, cols := leading(q.Shape)
			m := table(q, 1, rows, cols)
			if f.blockScales(w, m, scale, size, isSwizzled) {
				f.complete("torchao", w, w.Tensor.Shape, m, false, nil)
			}
		default:
			f.refuse(w, UnknownQuantization, "elements of %q in %v", elements, q.DType)
		}
	default:
		f.refuse(w, UnknownQuantization, "the header says %q", kind)
	}
	for _, key := range []string{"dtype", "orig_dtype"} {
		if d, err := tensor.ParseDType(optional[string](data.object(key), "_data")); err == nil {
			w.DType = d
		}
	}
}

func (f *finder) torchAOFP4(w *Weight, q, scale *tensor.Tensor, size int64,
	isSwizzled bool) *matrix {
	_, rows, half := leading(q.Shape)
	m := &matrix{batch: 1, rows: rows, cols: 2 * half,
		codes: nibblesOf(q.Data, rows, half, false, e2m1)}
	if !f.blockScales(w, m, scale, size, isSwizzled) {
		return nil
	}
	return m
}

// blockScales multiplies by scales for size columns, in the order of the weight or
// swizzled.
func (f *finder) blockScales(w *Weight, m *matrix, scale *tensor.Tensor, size int64,
	isSwizzled bool) bool {
	if isSwizzled {
		if m.cols%size != 0 {
			f.refuse(w, ScaleShape, "%v in blocks of %d", w.Tensor.Shape, size)
			return false
		}
		return f.swizzle(w, m, scale, size, false)
	}
	if !f.gridOf(w, scale, m.cols, size) {
		return false
	}
	m.ops = []operation{each(multiply, scaleGrid(scale, 1, m.rows, m.cols, 1, size), 1, size)}
	return true
}

// torchAOBlocks is for bytes with a scale for each block of a size.
func (f *finder) torchAOBlocks(w *Weight, kind string, data object, q, scale,
	zero *tensor.Tensor) {
	size, _, err := get[[]int64](data, "block_size")
	isFloat := kind == "Float8Tensor"
	if err != nil || len(size) != 2 || len(q.Shape) != 2 || min(size[0], size[1]) < 1 ||
		q.Shape[0]%size[0] != 0 || q.Shape[1]%size[1] != 0 {
		f.refuse(w, QuantizationState, "block_size %v of %v", size, q.Shape)
		return
	}
	if isFloat != isFloat8(q.DType) || !isFloat && q.DType != tensor.I8 ||
		!isFloatScale(scale.DType) {
		f.refuse(w, ScaleDType, "the header says %s: codes of %v, scales of %v", kind, q.DType,
			scale.DType)
		return
	}
	rows, cols := q.Shape[0]/size[0], q.Shape[1]/size[1]
	if n, _ := scale.Shape.Elements(); n != rows*cols || len(scale.Shape) > 2 {
		f.refuse(w, ScaleShape, "a scale of %v for %v in blocks of %v", scale.Shape, q.Shape,
			size)
		return
	}
	m := table(q, 1, q.Shape[0], q.Shape[1])
	form := "block"
	switch {
	case rows == 1 && cols == 1:
		form = "tensor"
	case size[0] == 1 && cols == 1:
		form = "channel"
	case size[0] == 1:
		form = "group"
	}
	if zero != nil {
		if n, _ := zero.Shape.Elements(); n != rows*cols || f.get(zero.Name) == nil ||
			!isFloatScale(zero.DType) && zero.DType != tensor.I8 && zero.DType != tensor.I32 {
			f.refuse(w, ScaleShape, "a zero point of %v %v, a scale of %v", zero.Shape,
				zero.DType,
				scale.Shape)
			return
		}
		m.ops = append(m.ops, each(subtract, table(zero, 1, rows, cols), size[0], size[1]))
	}
	m.ops = append(m.ops, each(multiply, table(scale, 1, rows, cols), size[0], size[1]))
	w.Scheme = map[bool]string{true: "fp8-", false: "int8-"}[isFloat] + form
	f.complete("torchao", w, q.Shape, m, false, nil)
}

// blockScale is for .scale of GGUF, next to blocks of ggml or plain weights of a model:
// one number, or one for each expert.
func (f *finder) blockScale(t *tensor.Tensor, base string) bool {
	scale := f.get(base + ".scale")
	if scale == nil || scale.DType != tensor.F32 {
		return false
	}
	rows, cols := int64(1), int64(1)
	if len(t.Shape) > 0 {
		_, rows, cols = leading(t.Shape)
	}
	m := &matrix{batch: 1, rows: rows, cols: cols}
	scheme := "gguf-scale"
	if t.Dense() {
		if !f.gguf || !strings.HasPrefix(t.Name, "blk.") || f.get(t.Name) == nil ||
			!isFloatScale(t.DType) {
			return false
		}
		m.codes = table(t, 1, rows, cols).codes
	} else {
		if len(t.Parts) != 1 || t.External {
			return false
		}
		kind, ok := ggml.OfScheme(t.Scheme, t.Parts[0].Role)
		data := t.Parts[0].Data
		if !ok || cols%kind.Elements != 0 || data.Size() != rows*cols/kind.Elements*kind.Bytes {
			return false
		}
		m.codes = blocksOf(data, rows, cols/kind.Elements*kind.Bytes, kind)
		if kind.Name == "NVFP4" {
			scheme = "nvfp4"
		}
	}
	w := f.add(f.weight(t.Name, scheme, t), "scale", scale)
	w.Tensor.Shape = t.Shape
	n, _ := scale.Shape.Elements()
	switch {
	case n == 1 && len(scale.Shape) <= 1:
		m.ops = []operation{all(multiply, number(scale), rows, cols)}
	case len(scale.Shape) == 1 && len(t.Shape) == 3 && n == t.Shape[0]:
		m.ops = []operation{each(multiply, table(scale, 1, n, 1), max(t.Shape[1], 1), max(cols,
			1))}
	default:
		f.refuse(w, ScaleShape, "%s has the shape %v; one number is due, or one an expert",
			scale.Name,
			scale.Shape)
		return true
	}
	f.complete("gguf", w, t.Shape, m, false, nil)
	return true
}
