package quant

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// readTorchAO makes the weights that the header of torchao describes.
func (f *finder) readTorchAO() {
	top, _ := parseObject([]byte(`{"names":` + f.attributes["tensor_names"] + `}`))
	for _, name := range optional[[]string](top, "names") {
		f.keys["tensor_names"], f.keys[name] = true, true
		o, err := parseObject([]byte(f.attributes[name]))
		kind := optional[string](o, "_type")
		if err != nil || kind == "Tensor" || kind == "torch.Tensor" {
			continue
		}
		i := strings.LastIndexByte(name, '.') + 1
		f.torchAO(name, name[:i]+"_"+name[i:]+"_", kind, o)
	}
}

// torchAO makes one weight of parts whose names begin with prefix.
func (f *finder) torchAO(name, prefix, kind string, o object) {
	names := append([]string{"qdata"}, optional[[]string](o, "_tensor_data_names")...)
	var b *build
	missing, parts := "", map[string]*tensor.Tensor{}
	for _, part := range names {
		t := f.stored[prefix+part]
		switch {
		case parts[part] != nil:
		case t == nil || f.part[t]:
			missing = part
		case b == nil:
			b = f.begin("torchao", "torchao", name, prefix, t, t.Shape)
		default:
			role, ok := map[string]string{"zero_point": "zero-point",
				"per_tensor_scale": "global-scale"}[part]
			if !ok {
				role = part
			}
			f.add(b.Weight, role, t)
		}
		parts[part] = t
	}
	if b == nil || f.stored[name] != nil {
		f.note(MissingScale, tensor.SeverityError, name,
			errorf(tensor.ErrMalformed, name, "the header says %s; its parts are not there",
				kind))
		return
	}
	b.due = true
	q, scale := parts["qdata"], parts["scale"]
	if missing != "" {
		f.refuse(b.Weight, MissingScale, "no %s", prefix+missing)
		return
	}
	if parts["act_pre_scale"] != nil {
		b.refuse(UnknownQuantization, "act_pre_scale changes what the layer computes")
	}
	if len(q.Shape) < 2 {
		b.refuse(QuantizationState, "codes of %v", q.Shape)
	}
	if !b.needs(q, "qdata", []tensor.DType{tensor.U8, tensor.I8, tensor.F8E4M3FN,
		tensor.F8E5M2}) ||
		!b.needs(scale, "scale", append(scales8[:5:5], tensor.F8E4M3FN)) {
		return
	}
	data := o.object("_data")
	switch kind {
	case "Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor":
		b.torchAOBlocks(kind, data, q, scale, parts["zero_point"])
	case "NVFP4Tensor", "MXTensor":
		b.torchAOMX(kind == "NVFP4Tensor", data, q, scale, parts["per_tensor_scale"])
	default:
		b.refuse(UnknownQuantization, "the header says %q", kind)
	}
	for _, key := range []string{"dtype", "orig_dtype"} {
		if d, err := tensor.ParseDType(optional[string](data.object(key), "_data")); err == nil {
			b.DType = d
		}
	}
}

// torchAOMX is for NVFP4 and MX, whose scales may be swizzled.
func (b *build) torchAOMX(isNVFP4 bool, data object, q, scale, global *tensor.Tensor) {
	size := optional[int64](data, "block_size")
	elements := optional[string](data.object("elem_dtype"), "_data")
	b.Scheme = "mxfp8"
	dtypes := exponents
	rows, cols := flat(q.Shape)
	m := table(q, 1, rows, cols)
	switch {
	case isNVFP4 && q.DType == tensor.U8 && size == 16:
		b.Scheme, dtypes, m = "nvfp4", onlyE4M3, fp4Of(q, false)
	case !isNVFP4 && elements == "float4_e2m1fn_x2" && q.DType == tensor.U8 && size > 0:
		b.Scheme, m = "mxfp4", fp4Of(q, false)
	case !isNVFP4 && elements == q.DType.String() && isFloat8(q.DType) && size > 0:
	default:
		b.refuse(QuantizationState, "elements of %q in %v, blocks of %d", elements, q.DType,
			size)
		return
	}
	b.Tensor.Shape = last(q.Shape, m.cols)
	if optional[bool](data, "is_swizzled_scales") {
		if !b.swizzle(m, scale, dtypes, size, false) {
			return
		}
	} else if !b.fp4Scale(scale, dtypes, size) {
		return
	} else {
		m.scaled(scale, 1, size)
	}
	if global != nil && b.needsNumber(global, "per_tensor_scale") {
		m.by(multiply, global)
	}
	b.complete(m, false, nil)
}

// torchAOBlocks is for bytes with a scale for each block of a size.
func (b *build) torchAOBlocks(kind string, data object, q, scale, zero *tensor.Tensor) {
	size := optional[[]int64](data, "block_size")
	isFloat := kind == "Float8Tensor"
	if len(size) != 2 || len(q.Shape) != 2 || min(size[0], size[1]) < 1 ||
		q.Shape[0]%size[0] != 0 || q.Shape[1]%size[1] != 0 ||
		isFloat != isFloat8(q.DType) || !isFloat && q.DType != tensor.I8 {
		b.refuse(QuantizationState, "%s: block_size %v of %v %v", kind, size, q.Shape, q.DType)
		return
	}
	rows, cols := q.Shape[0]/size[0], q.Shape[1]/size[1]
	shapes := []tensor.Shape{{rows, cols}}
	if cols == 1 {
		shapes = append(shapes, tensor.Shape{rows})
	}
	if rows*cols == 1 {
		shapes = append(shapes, tensor.Shape{})
	}
	if !b.needs(scale, "scale", floatScales, shapes...) || zero != nil && !b.needs(zero,
		"zero_point", append(floatScales[:3:3], tensor.I8, tensor.I32), shapes...) {
		return
	}
	m := table(q, 1, q.Shape[0], q.Shape[1])
	if zero != nil {
		m.ops = append(m.ops, each(subtract, table(zero, 1, rows, cols), size[0], size[1]))
	}
	form := "block"
	switch {
	case rows*cols == 1:
		form = "tensor"
	case size[0] == 1 && cols == 1:
		form = "channel"
	case size[0] == 1:
		form = "group"
	}
	b.Scheme = fmt.Sprintf("%s-%s", map[bool]string{true: "fp8", false: "int8"}[isFloat], form)
	b.complete(m.scaled(scale, size[0], size[1]), false, nil)
}

// blockScale is for .scale of GGUF, next to blocks of ggml or plain weights of a model:
// one number, or one for each expert.
func (f *finder) blockScale(t *tensor.Tensor, base string) bool {
	scale := f.get(base + ".scale")
	if scale == nil || scale.DType != tensor.F32 || t.External || len(t.Shape) == 0 {
		return false
	}
	rows, cols := flat(t.Shape)
	m := &matrix{batch: 1, rows: rows, cols: cols}
	scheme := "gguf-scale"
	if t.Dense() {
		if !f.gguf || !strings.HasPrefix(t.Name, "blk.") || f.get(t.Name) == nil ||
			!isFloatScale(t.DType) {
			return false
		}
		m.codes = table(t, 1, rows, cols).codes
	} else {
		if len(t.Parts) != 1 {
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
	b := f.begin("gguf", scheme, t.Name, base, t, t.Shape)
	b.part("scale", ".scale")
	shapes := []tensor.Shape{{1}, {}}
	if len(t.Shape) == 3 {
		shapes = append(shapes, t.Shape[:1])
	}
	if b.needs(scale, ".scale", []tensor.DType{tensor.F32}, shapes...) {
		height := rows
		if n, _ := scale.Shape.Elements(); n > 1 {
			height = t.Shape[1]
		}
		b.complete(m.scaled(scale, height, cols), false, nil)
	}
	return true
}
