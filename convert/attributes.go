package convert

import (
	"errors"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/bridge/safetensors"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/ztensor"
)

// typed reports whether attributes may have values other than strings.
func (p *Plan) typed() bool {
	return p.target == tensorfile.ZTensor && (p.version == "1.2" || p.version == "2")
}

func sharded(f *tensorfile.File) bool {
	if r, ok := f.Sys().(*safetensors.Reader); ok {
		for range r.Shards() {
			return true
		}
	}
	return false
}

func (p *Plan) planAttributes(src *tensorfile.File) {
	if p.kind != 0 {
		return
	}
	skip := sharded(src)
	values := map[string]ztensor.Value{}
	if z, ok := src.Sys().(*ztensor.Reader); ok {
		for k, v := range z.AttributeValues() {
			values[k] = v
		}
	}
	for k, v := range src.Attributes() {
		if skip && k == "total_size" {
			continue // it is about the shards
		}
		field := "attributes[" + quote.Name(k) + "]"
		value, ok := values[k]
		if err := p.checkAttribute(k, v, value, ok); err != nil {
			p.lose(LossAttributes, field, "%v", err)
			continue
		}
		if i, taken := p.keys[k]; taken {
			if p.attributes[i][1] != v {
				p.lose(LossAttributes, field, "another source has another value")
			}
			continue
		}
		if _, isString := value.Text(); ok && !p.typed() {
			switch {
			case !isString:
				p.lose(LossAttributes, field, "the value, which is no string, becomes JSON text")
			case value.HasTag():
				p.lose(LossAttributes, field, "the value loses its CBOR tag")
			}
		}
		p.keys[k] = len(p.attributes)
		p.attributes = append(p.attributes, [2]string{k, v})
	}
}

// checkAttribute reports why the target cannot represent an attribute.
func (p *Plan) checkAttribute(key, text string, value ztensor.Value, isValue bool) error {
	switch {
	case !p.caps.Attributes:
		return errors.New("attributes cannot be represented in " + p.target.String())
	case !utf8.ValidString(key) || !utf8.ValidString(text):
		return errors.New("it is not UTF-8")
	case isValue && p.typed():
		return p.checker.checkAttribute(key, value, false)
	}
	return p.checker.checkAttribute(key, text, false)
}

// planOwnAttributes plans the attributes that a tensor has in a .zt.
func (p *Plan) planOwnAttributes(it *item) {
	z, ok := it.owner.Sys().(*ztensor.Reader)
	if !ok {
		return
	}
	for k, v := range z.TensorAttributes(it.src) {
		field := fieldOf(it.src) + ".attributes[" + quote.Name(k) + "]"
		if p.target != tensorfile.ZTensor || p.version == "1.0" {
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
