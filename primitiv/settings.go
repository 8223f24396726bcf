package primitiv

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/quote"
)

func (p *parser) optimizer() error {
	err := settings(p, "uint_configs", &p.r.optimizer.Uints, p.uint32)
	if err != nil {
		return err
	}
	return settings(p, "float_configs", &p.r.optimizer.Floats, p.float32)
}

// settings reads one of the two maps of an optimizer.
func settings[T uint32 | float32](p *parser, field string, out *[]Setting[T],
	value func() (T, bool)) error {
	p.where = where{parameter: -1}
	off := p.offset()
	n, ok := p.length(familyMap)
	if !ok {
		return p.refused(field)
	}
	if err := p.plausible(off, field, n, minSetting); err != nil {
		return err
	}
	var starts []int64
	all := []Setting[T]{}
	for i := range n {
		starts = append(starts, p.offset())
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("%s[%d]", field, i))
		}
		name := string(b)
		v, ok := value()
		if !ok {
			return p.refused(fmt.Sprintf("%s[%s]", field, quote.Name(name)))
		}
		all = append(all, Setting[T]{name, v})
		if err := p.metadata(); err != nil {
			return err
		}
	}
	// The reference keeps the first of one name.
	again := repeated(len(all), func(i int) string { return all[i].Name })
	for _, i := range again {
		p.part = fmt.Sprintf("%s[%s]", field, quote.Name(all[i].Name))
		if err := p.duplicate(starts[i], "a second setting of that name"); err != nil {
			return err
		}
	}
	p.part = ""
	*out = without(all, again)
	return nil
}
