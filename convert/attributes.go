package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

// An attribute is an attribute of the target: as text, and, if the target has types, as a
// value for its writer.
type attribute struct {
	key, text string
	value     any
}

// formatKey is the key of safetensors metadata that names the library whose layout of
// tensors a file has. Hugging Face's transformers requires one that it knows.
const formatKey = "format"

func sharded(f *tensorfile.File) bool {
	if r, ok := f.Sys().(*safetensors.Reader); ok {
		for range r.Shards() {
			return true
		}
	}
	return false
}

// stale reports whether an attribute is not true of the target: it describes the shards
// or the quantisation of src, or the library that has read the file.
func (p *Plan) stale(src *tensorfile.File, key string) bool {
	switch {
	case key == "total_size":
		return sharded(src)
	case key == formatKey && src.Format() == tensorfile.Safetensors:
		_, taken := p.keys[key]
		return !p.caps.Attributes || taken
	case p.opts.Dequantize != tensor.Unknown && p.find().Attributes[key]:
		return true
	case src.Format() != tensorfile.GGUF:
		return false
	case strings.HasPrefix(key, "split."):
		_, _, isShard := splitOf(src)
		return len(p.files) > 1 || isShard
	}
	return (p.opts.Dequantize != tensor.Unknown || p.opts.Quantize != nil) &&
		(key == "general.file_type" || key == "general.quantization_version")
}

// valuesOf returns the attributes of a file that are not strings, or have tags.
func valuesOf(f *tensorfile.File) map[string]any {
	values := map[string]any{}
	switch r := f.Sys().(type) {
	case *ztensor.Reader:
		for k, v := range r.AttributeValues() {
			values[k] = v
		}
	case *gguf.Reader:
		for k, v := range r.Metadata() {
			values[k] = v
		}
	case interface{ Files() []*tensorfile.File }: // the shards of a model
		for _, shard := range slices.Backward(r.Files()) {
			maps.Copy(values, valuesOf(shard))
		}
	}
	return values
}

// isWanted reports whether an attribute is to be converted.
func (p *Plan) isWanted(key string) bool {
	return p.opts.Attributes == nil || p.opts.Attributes(key)
}

func (p *Plan) planAttributes(src *tensorfile.File) {
	if p.kind != 0 {
		return
	}
	values := valuesOf(src)
	for k, text := range src.Attributes() {
		if p.stale(src, k) || !p.isWanted(k) {
			continue
		}
		field := "attributes[" + naming.Quote(k) + "]"
		value, lost := p.valueFor(text, values[k])
		if err := p.attributeError(k, text, values[k], value); err != nil {
			p.lose(LossAttributes, field, "%v", err)
			continue
		}
		if i, taken := p.keys[k]; taken {
			if p.attributes[i].text != text {
				p.lose(LossAttributes, field, "another source has another value")
			}
			continue
		}
		if err := p.checker.checkAttribute(k, value, false); err != nil {
			p.lose(LossAttributes, field, "%v", err)
			continue
		}
		if lost != "" {
			p.lose(LossAttributes, field, "%s", lost)
		}
		p.keys[k] = len(p.attributes)
		p.attributes = append(p.attributes, attribute{k, text, value})
	}
}

// attributeError reports why the target cannot represent an attribute that was was in the
// source, whatever the type of its value. Strings of a .gguf are any bytes.
func (p *Plan) attributeError(key, text string, was, value any) error {
	_, fromGGUF := was.(gguf.Value)
	_, isGGUF := value.(gguf.Value)
	switch {
	case !p.caps.Attributes:
		return errors.New("attributes cannot be represented in " + p.target.String())
	case !(fromGGUF && isGGUF) && (!utf8.ValidString(key) || !utf8.ValidString(text)):
		return errors.New("it is not UTF-8")
	}
	return nil
}

// valueFor returns what the target's writer takes for a value of the source, which is nil
// for a string of a format without types, and what is lost of it.
func (p *Plan) valueFor(text string, v any) (value any, lost string) {
	if p.row.value != nil {
		return p.row.value(p, text, v)
	}
	return textOf(text, v)
}

// textOf returns the value for a format whose attributes are text.
func textOf(text string, v any) (value any, lost string) {
	switch v := v.(type) {
	case gguf.Value:
		if v.Type() != gguf.TypeString {
			lost = fmt.Sprintf("the value, of type %s, becomes text", v.TypeName())
		}
	case ztensor.Value:
		lost = lostAsText(v)
	}
	return text, lost
}

// lostAsText says what the text of a value does not have.
func lostAsText(v ztensor.Value) string {
	switch _, isString := v.Text(); {
	case !isString:
		return "the value, which is no string, becomes JSON text"
	case v.HasTag():
		return "the value loses its CBOR tag"
	}
	return ""
}

// planOwnAttributes plans the attributes that a tensor has in a .zt.
func (p *Plan) planOwnAttributes(it *item) {
	z, ok := it.owner.Sys().(*ztensor.Reader)
	if !ok {
		return
	}
	for _, part := range it.weight.Parts {
		for k := range z.TensorAttributes(part.Tensor) {
			p.lose(LossAttributes, fieldOf(part.Tensor)+".attributes["+naming.Quote(k)+"]",
				"the tensor is part of %s", naming.Quote(it.src.Name))
		}
	}
	_, isBlocks := format.BlocksOf(it.src)
	for k, v := range z.TensorAttributes(it.src) {
		if isBlocks && !p.caps.Sparse &&
			(k == "elems_per_block" || k == "block_bytes") {
			continue // the type says it
		}
		field := fieldOf(it.src) + ".attributes[" + naming.Quote(k) + "]"
		if !p.caps.TensorAttributes {
			p.lose(LossAttributes, field, "attributes of tensors cannot be represented in %v",
				p.describeTarget())
			continue
		}
		if err := p.checker.checkAttribute(k, v, true); err != nil {
			p.lose(LossAttributes, field, "%v", err)
			continue
		}
		if it.own == nil {
			it.own = map[string]any{}
		}
		it.own[k] = v
	}
}
