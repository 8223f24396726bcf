package quant

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A finder finds the weights in a set of tensors.
type finder struct {
	cfg        *Config
	attributes map[string]string
	order      []*tensor.Tensor
	stored     map[string]*tensor.Tensor // by name
	weights    []*Weight
	findings   []Finding

	isPart     map[*tensor.Tensor]bool    // of a weight
	byCodes    map[*tensor.Tensor]*Weight // weights by their codes
	kinds      map[string]bool            // of weights that are whole or refused
	incomplete []incomplete
	ahead      map[*tensor.Tensor]tensor.Blob // data that was read ahead
	states     map[string]*tensor.Tensor      // of bitsandbytes, by the weight's name
	comfy      map[string]layer               // by the module's name
	modules    map[string]bool                // that have a quantised weight
	gguf       bool
	keys       map[string]bool // of attributes about quantisation
	isScaled   bool            // ComfyUI's old marker exists
}

// An incomplete is a weight that lacks a part. It is an error only if the configuration
// says that the weight is quantised, or if the file has another weight of its kind.
type incomplete struct {
	kind     string
	w        *Weight
	expected bool   // the configuration says that it is quantised
	missing  string // name of the part
}

func newFinder(src Source, cfg *Config) *finder {
	f := &finder{cfg: cfg, attributes: map[string]string{}, stored: map[string]*tensor.Tensor{},
		isPart: map[*tensor.Tensor]bool{}, byCodes: map[*tensor.Tensor]*Weight{},
		kinds: map[string]bool{}, states: map[string]*tensor.Tensor{}, comfy: map[string]layer{},
		modules: map[string]bool{}, keys: map[string]bool{},
		ahead: map[*tensor.Tensor]tensor.Blob{}}
	for k, v := range src.Attributes() {
		if _, ok := f.attributes[k]; !ok {
			f.attributes[k] = v
		}
	}
	for t := range src.Tensors() {
		f.order = append(f.order, t)
		if _, ok := f.stored[t.Name]; !ok {
			f.stored[t.Name] = t
		}
	}
	_, f.gguf = f.attributes["general.architecture"]
	return f
}

// find fills weights, findings and keys.
func (f *finder) find() {
	if f.cfg != nil {
		for _, err := range f.cfg.problems {
			f.note(QuantizationConfig, tensor.SeverityWarning, "", err)
		}
	}
	f.readAhead()
	f.readStates()
	f.readComfy()
	f.readTorchAO()
	for _, t := range f.order {
		if !f.isPart[t] && f.stored[t.Name] == t {
			f.recognize(t)
		}
	}
	f.refuseIncomplete()
	f.findOrphans()
	f.findUnknown()
	for _, t := range f.order {
		if w := f.byCodes[t]; w != nil {
			f.weights = append(f.weights, w)
		} else if !f.isPart[t] {
			f.weights = append(f.weights, &Weight{Name: t.Name, DType: t.DType, Tensor: t,
				Auxiliary: f.isAuxiliary(t)})
		}
	}
}

// recognize makes a weight of t and other parts, if t has the codes of a quantised
// weight.
func (f *finder) recognize(t *tensor.Tensor) {
	base, isWeight := strings.CutSuffix(t.Name, ".weight")
	switch {
	case f.states[t.Name] != nil:
		f.bitsAndBytes(t)
	case isWeight && f.blockScale(t, base):
	case !t.Dense() || t.External || !t.Order.RowMajor() || t.Check() != nil:
	case isWeight && f.comfy[base].format != "":
		f.comfyLayer(t, base)
	case len(t.Parts) > 0 && f.affine(t):
	case isFloat8(t.DType):
		f.float8(t)
	case isWeight && t.DType == tensor.U8:
		f.byteWeight(t, base)
	case isWeight && t.DType == tensor.I8:
		f.int8Weight(t, base)
	case isWeight && t.DType == tensor.U32:
		f.mlx(t, base)
	case strings.HasSuffix(t.Name, ".weight_packed"):
		f.packedWeight(t, strings.TrimSuffix(t.Name, ".weight_packed"))
	case strings.HasSuffix(t.Name, ".qweight"):
		f.wordWeight(t, strings.TrimSuffix(t.Name, ".qweight"))
	case strings.HasSuffix(t.Name, "_blocks"):
		f.expertBlocks(t, strings.TrimSuffix(t.Name, "_blocks"))
	}
}

// get returns the stored tensor of that name, or nil unless it is dense and row-major,
// with data of its shape in the file.
func (f *finder) get(name string) *tensor.Tensor {
	t := f.stored[name]
	if t == nil || !t.Dense() || t.External || !t.Order.RowMajor() || t.Check() != nil ||
		!t.DType.Known() {
		return nil
	}
	return t
}

// weight returns a new weight with its codes as the first part.
func (f *finder) weight(name, scheme string, codes *tensor.Tensor) *Weight {
	w := &Weight{Name: name, Scheme: scheme, DType: tensor.BF16,
		Tensor: &tensor.Tensor{Name: name, DType: tensor.F32}}
	return f.add(w, "codes", codes)
}

// add adds a part, unless it is nil.
func (f *finder) add(w *Weight, role string, t *tensor.Tensor) *Weight {
	if t != nil {
		w.Parts = append(w.Parts, Part{role, t})
	}
	return w
}

// claim adds a weight to the set. It takes the place of its codes.
func (f *finder) claim(w *Weight) {
	for _, p := range w.Parts {
		f.isPart[p.Tensor] = true
	}
	f.byCodes[w.Parts[0].Tensor] = w
	f.modules[module(w.Name)] = true
	if f.cfg != nil && f.cfg.dtype != tensor.Unknown {
		w.DType = f.cfg.dtype
	} else if s := w.part("scale"); s != nil && (s.DType == tensor.F16 ||
		s.DType == tensor.BF16) {
		w.DType = s.DType
	}
}

// module returns the name of the module that has the weight of that name.
func module(name string) string {
	if base, ok := strings.CutSuffix(name, ".weight"); ok {
		return base
	}
	return name
}

// note adds a finding.
func (f *finder) note(code Code, s tensor.Severity, name string, err error) {
	f.findings = append(f.findings, Finding{code, s, name, err})
}

// refuse adds w to the set with an error in place of numbers, and adds a finding.
func (f *finder) refuse(w *Weight, code Code, format string, args ...any) {
	class, severity := tensor.ErrMalformed, tensor.SeverityError
	if code == UnknownQuantization {
		class, severity = errors.ErrUnsupported, tensor.SeverityWarning
	}
	f.fail(w, errorf(class, w.Name, format, args...))
	f.note(code, severity, w.Name, w.Err)
}

// fail adds w to the set with an error in place of numbers.
func (f *finder) fail(w *Weight, err error) {
	f.claim(w)
	w.Err = err
	n, _ := w.Tensor.Shape.Elements()
	size, _ := tensor.F32.Bytes(n)
	w.Tensor.Data = tensor.NewBlob(&refused{size: size, err: err})
}

// refuseIncomplete refuses the incomplete weights that are errors.
func (f *finder) refuseIncomplete() {
	for _, l := range f.incomplete {
		if (l.expected || f.kinds[l.kind] && !f.cfg.excludes(module(l.w.Name))) &&
			!f.isPart[l.w.Parts[0].Tensor] {
			f.refuse(l.w, MissingScale, "no %s", naming.Quote(l.missing))
		}
	}
}

// complete adds w to the set, with the numbers of m.
func (f *finder) complete(kind string, w *Weight, m *matrix, transposed bool,
	prepare func() error) *values {
	n, ok := w.Tensor.Shape.Elements()
	size, fits := tensor.F32.Bytes(n)
	if !ok || !fits {
		f.refuse(w, ScaleShape, "%v of float32 is beyond 2^63 bytes", w.Tensor.Shape)
		return nil
	}
	f.claim(w)
	f.kinds[kind] = true
	v := newValues(m, transposed, w.Scheme, prepare)
	if size > 0 {
		w.Tensor.Data = tensor.NewBlob(v)
	}
	return v
}

// scaleSuffixes are the suffixes of the names of parts. A part without a weight is a
// finding if kinds is nil, or has a kind of weight in the set or the method of the
// configuration.
var scaleSuffixes = []struct {
	suffix string
	kinds  []string
}{
	{".weight_scale", nil}, {".weight_scale_inv", nil}, {".weight_scale_2", nil},
	{".weight_global_scale", nil}, {".weight_zero_point", nil}, {".weight_shape", nil},
	{".weight_g_idx", nil}, {".scale_weight", nil}, {".qscale_weight", nil},
	{".qzeros", nil}, {".g_idx", nil}, {"_scale_inv", nil}, {".comfy_quant", nil},
	{".weight.absmax", nil}, {".weight.quant_map", nil}, {".weight.nested_absmax", nil},
	{".weight.nested_quant_map", nil}, {".SCB", nil}, {"_scales", []string{"mxfp4"}},
	{".scales", []string{"mlx", "words", "gptq", "awq"}}, {".biases", []string{"mlx"}},
}

// findOrphans adds findings for parts without a weight, if the set has quantised weights,
// and their method is known.
func (f *finder) findOrphans() {
	if len(f.modules) == 0 && !f.cfg.quantised() && len(f.comfy) == 0 && !f.isScaled ||
		f.cfg.quantised() && !f.cfg.is(knownMethods...) {
		return
	}
	for _, t := range f.order {
		if f.isPart[t] {
			continue
		}
		for _, s := range scaleSuffixes {
			base, ok := strings.CutSuffix(t.Name, s.suffix)
			if !ok || s.kinds != nil && !f.cfg.is(s.kinds...) &&
				!slices.ContainsFunc(s.kinds, func(k string) bool { return f.kinds[k] }) {
				continue
			}
			what := "there is no weight for it"
			if w := f.stored[base+".weight"]; w != nil {
				if g := f.cfg.group(base); g != nil && g.format == "dense" {
					break // the weights were rounded, and are stored as floats
				}
				what = fmt.Sprintf("the weight is plain %v", w.DType)
			}
			f.note(OrphanScale, tensor.SeverityError, t.Name,
				errorf(tensor.ErrMalformed, t.Name, "a part of a quantised weight, but %s", what))
			break
		}
	}
}

// auxiliary has the last segments of the names of scales of activations and caches.
var auxiliary = []string{"input_scale", "scale_input", "input_global_scale",
	"activation_scale", "output_scale", "k_scale", "v_scale", "q_scale", "input_zero_point",
	"qscale_act"}

// isAuxiliary reports whether t is not a parameter of the model. In a set without
// quantised weights all tensors are parameters.
func (f *finder) isAuxiliary(t *tensor.Tensor) bool {
	if len(f.modules) == 0 && !f.cfg.quantised() {
		return false
	}
	base, last := "", t.Name
	if i := strings.LastIndexByte(t.Name, '.'); i >= 0 {
		base, last = t.Name[:i], t.Name[i+1:]
	}
	n, _ := t.Shape.Elements()
	return slices.Contains(auxiliary, last) && (n == 1 || f.modules[base]) ||
		isMarker(t.Name)
}

// knownMethods are the methods of configurations whose weights are supported.
var knownMethods = []string{"fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "mxfp4", "gptq",
	"awq", "mlx", "bitsandbytes", "torchao"}

// findUnknown refuses weights of methods that are not known, and for a known method the
// integers that are named as weights.
func (f *finder) findUnknown() {
	if !f.cfg.quantised() {
		return
	}
	isKnown := f.cfg.is(knownMethods...)
	var names []string
	for _, t := range f.order {
		integers := t.DType == tensor.I8 || t.DType == tensor.U8 || t.DType == tensor.I16 ||
			t.DType == tensor.U16 || t.DType == tensor.I32 || t.DType == tensor.U32
		name, _ := strings.CutPrefix(t.Name[strings.LastIndexByte(t.Name, '.')+1:], "q")
		if f.isPart[t] || len(t.Shape) < 2 || f.cfg.excludes(module(t.Name)) ||
			!(integers && (!isKnown || name == "weight" || name == "weight_packed") ||
				isFloat8(t.DType) && !isKnown) {
			continue
		}
		method := f.cfg.method
		if method == "" {
			method = "unknown"
		}
		f.fail(f.weight(t.Name, method, t), errorf(errors.ErrUnsupported, t.Name,
			"the configuration says %s; this weight is not understood", naming.Quote(method)))
		names = append(names, naming.Quote(t.Name))
	}
	switch {
	case len(names) > 0:
		const shown = 5
		list := strings.Join(names[:min(len(names), shown)], ", ")
		if len(names) > shown {
			list += fmt.Sprintf(" and %d more", len(names)-shown)
		}
		f.note(UnknownQuantization, tensor.SeverityWarning, "", fmt.Errorf(
			"%w: the configuration says %s; not understood: %s", errors.ErrUnsupported,
			naming.Quote(f.cfg.method), list))
	case len(f.modules) == 0 && len(f.order) > 0:
		f.note(QuantizationConfig, tensor.SeverityWarning, "", fmt.Errorf(
			"%w: the configuration says %s; no weight is quantised", tensor.ErrMalformed,
			naming.Quote(f.cfg.method)))
	}
}

func isFloat8(d tensor.DType) bool {
	return d == tensor.F8E4M3FN || d == tensor.F8E5M2 || d == tensor.F8E4M3FNUZ ||
		d == tensor.F8E5M2FNUZ
}

// isFloatScale reports whether d is a float dtype that scales may have.
func isFloatScale(d tensor.DType) bool {
	return d == tensor.F32 || d == tensor.BF16 || d == tensor.F16
}

// isExponent reports whether E8M0 exponents are stored as d.
func isExponent(d tensor.DType) bool { return d == tensor.U8 || d == tensor.F8E8M0FNU }

// ceil returns n/size, rounded up.
func ceil(n, size int64) int64 { return (n + size - 1) / size }
