package quant

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A subclass is a tensor whose class, of torchao or quanto, is a subclass of
// torch.Tensor. A header or a checkpoint describes it.
type subclass struct {
	name, kind string
	method     string       // "torchao", or "quanto", whose layouts are not supported
	prefix     string       // begins the names of its parts
	parts      []string     // the rest of their names
	data       object       // other fields, in the form of torchao's headers
	shape      tensor.Shape // nil if it is not known
	err        error        // of reading the description
}

// subclasses are the kinds of subclasses whose layout is supported.
var subclasses = []string{"Int8Tensor", "IntxUnpackedToInt8Tensor", "Float8Tensor",
	"NVFP4Tensor", "MXTensor"}

func (s *subclass) isKnown() bool {
	return s.method == "torchao" && slices.Contains(subclasses, s.kind)
}

// readTorchAO makes the weights that torchao's header of a safetensors file describes, or
// that a checkpoint has.
func (f *finder) readTorchAO() {
	for _, name := range f.tensorNames() {
		f.keys["tensor_names"], f.keys[name] = true, true
		o, err := parseObject([]byte(f.attributes[name]))
		kind := optional[string](o, "_type")
		if kind == "Tensor" || kind == "torch.Tensor" || err != nil && f.stored[name] != nil {
			continue
		}
		i := strings.LastIndexByte(name, '.') + 1
		f.torchAO(&subclass{name: name, kind: kind, method: "torchao", err: err,
			prefix: name[:i] + "_" + name[i:] + "_",
			parts:  append([]string{"qdata"}, optional[[]string](o, "_tensor_data_names")...),
			data:   o.object("_data")})
	}
	f.readSubclasses()
}

// tensorNames returns the names of the tensors of a header of torchao. A list that cannot
// be read is a finding if another attribute shows that there is one.
func (f *finder) tensorNames() []string {
	text := f.attributes["tensor_names"]
	top, _ := parseObject([]byte(`{"names":` + text + `}`))
	names, ok, err := get[[]string](top, "names")
	if text == "" || ok && err == nil {
		return names
	}
	names = nil
	for key, text := range f.attributes {
		if strings.Contains(text, `"_tensor_data_names"`) {
			names = append(names, key)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		f.note(QuantizationState, tensor.SeverityError, "",
			errorf(tensor.ErrMalformed, "tensor_names", "not a list of names"))
	}
	return names
}

// readSubclasses makes weights of the subclasses in a checkpoint. Their parts are tensors
// and attributes, such as NAME.qdata and NAME.class.
func (f *finder) readSubclasses() {
	all := map[string]*subclass{}
	for key, class := range f.attributes {
		name, ok := strings.CutSuffix(key, ".class")
		method, _, _ := strings.Cut(strings.TrimPrefix(class, "optimum."), ".")
		if ok && (method == "torchao" || method == "quanto") && len(key) <= maxModule &&
			f.stored[name] == nil {
			all[name] = &subclass{name: name, kind: class[strings.LastIndexByte(class, '.')+1:],
				method: method, prefix: name + "."}
		}
	}
	if len(all) == 0 {
		return
	}
	// of returns the outermost subclass that a name is part of.
	of := func(name string) *subclass {
		for i := range min(len(name), maxModule) {
			if name[i] == '.' && all[name[:i]] != nil {
				return all[name[:i]]
			}
		}
		return nil
	}
	quantised := map[*subclass]bool{}
	for _, t := range f.order {
		if s := of(t.Name); s != nil {
			s.parts = append(s.parts, t.Name[len(s.prefix):])
			quantised[s] = quantised[s] || !isFloatScale(t.DType) && t.DType != tensor.F64
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		isKnown := s.isKnown()
		if of(name) != nil || !isKnown && !quantised[s] {
			continue // part of another, or a wrapper of a tensor that is not quantised
		}
		f.describe(s, isKnown)
		f.torchAO(s)
	}
	for key := range f.attributes {
		if s := of(key); s != nil && f.modules[module(s.name)] {
			f.keys[key] = true
		}
	}
}

// describe sets data, shape and parts of a subclass by the attributes of a checkpoint.
func (f *finder) describe(s *subclass, isKnown bool) {
	s.data = object{}
	for _, key := range []string{"block_size", "is_swizzled_scales"} {
		if text := f.attributes[s.prefix+key]; json.Valid([]byte(text)) {
			s.data[key] = json.RawMessage(text)
		}
	}
	for _, key := range []string{"dtype", "orig_dtype", "elem_dtype"} {
		text := strings.TrimPrefix(strings.Trim(f.attributes[s.prefix+key], `"`), "torch.")
		s.data[key], _ = json.Marshal(map[string]string{"_data": text})
	}
	err := json.Unmarshal([]byte(f.attributes[s.prefix+"shape"]), &s.shape)
	if _, ok := s.shape.Elements(); err != nil || !ok || len(s.shape) > maxRank {
		s.shape = nil
	}
	if !isKnown {
		return
	}
	s.parts = append([]string{"qdata", "scale"}, s.parts...)
	if s.kind == "NVFP4Tensor" && f.attributes[s.prefix+"per_tensor_scale"] != "null" {
		s.parts = append(s.parts, "per_tensor_scale")
	}
}

// torchAORoles has the roles of parts by their names in torchao's classes; others have
// the role state.
var torchAORoles = map[string]string{"scale": "scale", "zero_point": "zero-point",
	"per_tensor_scale": "global-scale"}

// torchAOParts begins the weight of a subclass, and adds its parts. It returns the parts
// by their names in the class, and the name of one that is missing. Without any part, b
// is nil.
func (f *finder) torchAOParts(s *subclass) (b *builder, parts map[string]*tensor.Tensor,
	missing string) {
	parts = map[string]*tensor.Tensor{}
	if s.err != nil {
		s.parts = []string{"qdata", "scale", "zero_point", "per_tensor_scale"}
	}
	for _, part := range s.parts {
		t := f.stored[s.prefix+part]
		switch {
		case parts[part] != nil:
		case t == nil || f.isPart[t]:
			missing = part
		case b == nil:
			b = f.begin("torchao", s.method, s.name, s.prefix, t, s.shape)
		default:
			role, ok := torchAORoles[part]
			if !ok {
				role = "state"
			}
			f.add(b.Weight, role, t)
		}
		parts[part] = t
	}
	return b, parts, missing
}

// torchAO makes the weight of a subclass.
func (f *finder) torchAO(s *subclass) {
	b, parts, missing := f.torchAOParts(s)
	if b == nil || f.stored[s.name] != nil {
		f.note(MissingScale, tensor.SeverityError, s.name,
			errorf(tensor.ErrMalformed, s.name, "a %s; its parts are not there", s.kind))
		return
	}
	b.expected = true
	q, scale := parts["qdata"], parts["scale"]
	switch {
	case s.err != nil:
		b.refuse(QuantizationState, "what the header says of it: %v", s.err)
	case !s.isKnown():
		b.refuse(UnknownQuantization, "the layout of class %q is not known", s.kind)
	case missing != "":
		b.refuse(MissingScale, "no %s", s.prefix+missing)
	case parts["act_pre_scale"] != nil:
		b.refuse(UnknownQuantization, "act_pre_scale changes what the layer computes")
	case len(q.Shape) < 2:
		b.refuse(QuantizationState, "codes of %v", q.Shape)
	}
	if b.ended || !b.needs(q, "qdata", []tensor.DType{tensor.U8, tensor.I8, tensor.F8E4M3FN,
		tensor.F8E5M2}) || !b.needs(scale, "scale", append(scales8[:5:5], tensor.F8E4M3FN)) {
		return
	}
	if s.kind == "NVFP4Tensor" || s.kind == "MXTensor" {
		b.torchAOMX(s, q, scale, parts["per_tensor_scale"])
	} else {
		b.torchAOBlocks(s, q, scale, parts["zero_point"])
	}
	for _, key := range []string{"dtype", "orig_dtype"} {
		if d, err := tensor.ParseDType(optional[string](s.data.object(key), "_data")); err == nil {
			b.DType = d
		}
	}
}

// hasShapeOf refuses a weight whose codes do not have the shape of the subclass, if it is
// known.
func (b *builder) hasShapeOf(s *subclass) bool {
	if s.shape != nil && !s.shape.Equal(b.Tensor.Shape) {
		b.refuse(QuantizationState, "its shape is %v, its codes are %v", s.shape, b.Tensor.Shape)
	}
	return !b.ended
}

// torchAOMX completes a weight of NVFP4 or MX, whose scales may be swizzled.
func (b *builder) torchAOMX(s *subclass, q, scale, global *tensor.Tensor) {
	isNVFP4 := s.kind == "NVFP4Tensor"
	size := optional[int64](s.data, "block_size")
	elements := optional[string](s.data.object("elem_dtype"), "_data")
	b.Scheme = "mxfp8"
	dtypes := exponents
	rows, cols := flatten(q.Shape)
	m := table(q, 1, rows, cols)
	switch {
	case isNVFP4 && q.DType == tensor.U8 && size == 16:
		b.Scheme, dtypes, m = "nvfp4", onlyE4M3, fp4Of(q, false)
	case !isNVFP4 && elements == "float4_e2m1fn_x2" && q.DType == tensor.U8 && size > 0:
		b.Scheme, m = "mxfp4", fp4Of(q, false)
	case !isNVFP4 && elements == q.DType.String() && isFloat8(q.DType) && size > 0:
	default:
		b.refuse(QuantizationState, "elements of %q in %v, blocks of %d", elements, q.DType, size)
		return
	}
	b.Tensor.Shape = withLast(q.Shape, m.cols)
	if !b.hasShapeOf(s) {
		return
	}
	if optional[bool](s.data, "is_swizzled_scales") {
		if !b.swizzle(m, scale, dtypes, size, false) {
			return
		}
	} else if !b.fp4Scale(scale, dtypes, size) {
		return
	} else {
		m.scaled(scale, 1, size)
	}
	if global != nil && b.needsNumber(global, "per_tensor_scale") {
		m.withGlobal(multiply, global)
	}
	b.complete(m, false, nil)
}

// torchAOBlocks completes a weight of bytes with a scale for each block, also of experts.
func (b *builder) torchAOBlocks(s *subclass, q, scale, zero *tensor.Tensor) {
	size := optional[[]int64](s.data, "block_size")
	isFloat := s.kind == "Float8Tensor"
	rank := len(q.Shape)
	isSized := len(size) == rank && rank <= 3
	grid, blocks := tensor.Shape{}, int64(1)
	for i := 0; i < rank && isSized; i++ {
		if isSized = size[i] > 0 && q.Shape[i]%size[i] == 0; isSized {
			grid = append(grid, q.Shape[i]/size[i])
			blocks *= grid[i]
		}
	}
	if !isSized || isFloat != isFloat8(q.DType) || !isFloat && q.DType != tensor.I8 {
		b.refuse(QuantizationState, "%s: block_size %v of %v %v", s.kind, size, q.Shape, q.DType)
		return
	}
	b.Tensor.Shape = q.Shape
	if !b.hasShapeOf(s) {
		return
	}
	batch, rows, cols := matrixOf(q.Shape)
	bm, bn := size[rank-2], size[rank-1]
	if rank == 3 && blocks != 1 && size[0] != 1 {
		b.refuse(UnknownQuantization, "%s: block_size %v of %v", s.kind, size, q.Shape)
		return
	}
	shapes := []tensor.Shape{grid}
	if rank == 2 && cols == bn {
		shapes = append(shapes, grid[:1])
	}
	if blocks == 1 {
		shapes = append(shapes, tensor.Shape{})
	}
	if !b.needs(scale, "scale", floatScales, shapes...) || zero != nil && !b.needs(zero,
		"zero_point", append(floatScales[:3:3], tensor.I8, tensor.I32), shapes...) {
		return
	}
	m := table(q, batch, rows, cols)
	if zero != nil {
		if blocks == 1 {
			batch = 1
		}
		m.ops = append(m.ops, each(subtract, table(zero, batch, rows/bm, cols/bn), bm, bn))
	}
	form := "block"
	switch {
	case blocks == 1:
		form = "tensor"
	case bm == 1 && cols == bn:
		form = "channel"
	case bm == 1:
		form = "group"
	}
	b.Scheme = fmt.Sprintf("%s-%s", map[bool]string{true: "fp8", false: "int8"}[isFloat], form)
	b.complete(m.scaled(scale, bm, bn), false, nil)
}
