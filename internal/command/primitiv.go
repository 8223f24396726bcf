package command

import (
	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/tensor"
)

// primitivFacts are the facts of a primitiv file.
type primitivFacts struct {
	Kind       string         `json:"kind"`
	Parameters int            `json:"parameters"`
	Optimizer  *optimizerFact `json:"optimizer"`
	Shape      *tensor.Shape  `json:"shape,omitempty"`
	Batch      *int64         `json:"batch,omitempty"`
}

type optimizerFact struct {
	Name     *string    `json:"name"` // null where the settings do not show it
	Settings pairs[any] `json:"settings"`
}

func primitivView(r *primitiv.Reader) view {
	return view{
		facts: func() any { return factsOfPrimitiv(r) },
		row: func(i int, t *tensor.Tensor, row *row) {
			if o, ok := primitiv.OriginOf(t); ok {
				row.path = o.Path
			}
		},
	}
}

func factsOfPrimitiv(r *primitiv.Reader) primitivFacts {
	f := primitivFacts{Kind: r.Kind().String(), Parameters: r.NumParameters()}
	if r.Kind() == primitiv.KindShape {
		s := r.Shape()
		shape, batch := s.Tensor(), int64(s.Batch)
		f.Shape, f.Batch = &shape, &batch
	}
	if opt := r.Optimizer(); opt != nil {
		f.Optimizer = &optimizerFact{Settings: primitivSettings(opt)}
		if n := opt.Name(); n != "" {
			f.Optimizer.Name = &n
		}
	}
	return f
}

// primitivSettings are those of an optimizer, which may be nil.
func primitivSettings(opt *primitiv.Optimizer) pairs[any] {
	var settings pairs[any]
	if opt == nil {
		return settings
	}
	for _, s := range opt.Uints {
		settings.add(s.Name, s.Value)
	}
	for _, s := range opt.Floats {
		settings.add(s.Name, finiteOf(s.Value))
	}
	return settings
}

// finiteOf is a float32 with its own digits, where JSON has it.
func finiteOf(v float32) any {
	if v-v != 0 {
		return inspect.Float(v)
	}
	return v
}
