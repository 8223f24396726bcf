package command

import (
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

func primitivView(r *primitiv.Reader) view {
	return view{
		facts: func() object { return primitivFacts(r) },
		row: func(i int, t *tensor.Tensor, row *row) {
			if o, ok := primitiv.OriginOf(t); ok && len(o.Path) > 0 {
				row.extra.set("path", o.Path)
			}
		},
	}
}

func primitivFacts(r *primitiv.Reader) object {
	o := object{{"kind", r.Kind().String()}, {"parameters", r.NumParameters()}, {"optimizer", nil}}
	if r.Kind() == primitiv.KindShape {
		s := r.Shape()
		o.set("shape", s.Tensor())
		o.set("batch", s.Batch)
	}
	opt := r.Optimizer()
	if opt == nil {
		return o
	}
	var name any // null where the settings do not tell
	if n := opt.Name(); n != "" {
		name = n
	}
	o[2].value = object{{"name", name}, {"settings", primitivSettings(opt)}}
	return o
}

// primitivSettings are those of an optimizer, which may be nil.
func primitivSettings(opt *primitiv.Optimizer) object {
	settings := object{}
	if opt == nil {
		return settings
	}
	for _, s := range opt.Uints {
		settings.set(s.Name, s.Value)
	}
	for _, s := range opt.Floats {
		settings.set(s.Name, s.Value)
	}
	return settings
}
