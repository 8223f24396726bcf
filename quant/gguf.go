package quant

import (
	"strings"

	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/tensor"
)

// blockScale makes a weight, and reports true, if t has a .scale of GGUF: one number, or
// one for each expert, for blocks of ggml or for floats.
func (f *finder) blockScale(t *tensor.Tensor, base string) bool {
	scale := f.get(base + ".scale")
	if scale == nil || scale.DType != tensor.F32 || t.External || len(t.Shape) == 0 {
		return false
	}
	rows, cols := flatten(t.Shape)
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
