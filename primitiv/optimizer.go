package primitiv

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Setting is one entry of an optimizer's two maps.
type Setting[T uint32 | float32] struct {
	Name  string
	Value T
}

// An Optimizer is the content of an optimizer file: settings, in the order of the file,
// which means nothing. The tensors of an optimizer are statistics of the parameters, in
// the file of the model.
type Optimizer struct {
	Uints  []Setting[uint32]
	Floats []Setting[float32]
}

// Epoch is the setting, of every optimizer, that counts finished updates.
const Epoch = "Optimizer.epoch"

// Name is that of the optimizer, inferred from its settings since the file does not say:
// what precedes the dot in the names of the floats, leaving out those that all
// optimizers have. It is empty where they disagree or there are none.
func (o *Optimizer) Name() string {
	found := ""
	for _, s := range o.Floats {
		name, _, ok := strings.Cut(s.Name, ".")
		switch {
		case !ok || name == "Optimizer" || name == found:
		case found != "":
			return ""
		default:
			found = name
		}
	}
	return found
}

// Set changes a setting, or adds it, to a number that is given as text. Where neither map
// has the name it becomes a floating point setting, but for [Epoch]. A text that is not
// such a number is tensor.ErrDType.
func (o *Optimizer) Set(name, value string) error {
	if find(o.Uints, name) >= 0 || name == Epoch && find(o.Floats, name) < 0 {
		v, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return fmt.Errorf("%s: %w: %s is an integer of 32 bits, not %q", formatName,
				tensor.ErrDType, name, value)
		}
		o.Uints = set(o.Uints, name, uint32(v))
		return nil
	}
	v, err := strconv.ParseFloat(value, 32)
	if err != nil {
		return fmt.Errorf("%s: %w: %s is a number of 32 bits, not %q", formatName, tensor.ErrDType,
			name, value)
	}
	o.Floats = set(o.Floats, name, float32(v))
	return nil
}

// Remove drops a setting of either map. It reports whether there was one.
func (o *Optimizer) Remove(name string) bool {
	n := len(o.Uints) + len(o.Floats)
	o.Uints = slices.DeleteFunc(o.Uints, func(s Setting[uint32]) bool { return s.Name == name })
	o.Floats = slices.DeleteFunc(o.Floats, func(s Setting[float32]) bool { return s.Name == name })
	return len(o.Uints)+len(o.Floats) < n
}

func uniqueNames[T uint32 | float32](list []Setting[T]) error {
	if name, again := repeated(list, func(s *Setting[T]) string { return s.Name }); again {
		return fmt.Errorf("%s: two settings %s: %w", formatName, naming.Quote(name),
			tensor.ErrDuplicate)
	}
	return nil
}

// find returns the index of the first setting of that name, or -1.
func find[T uint32 | float32](list []Setting[T], name string) int {
	return slices.IndexFunc(list, func(s Setting[T]) bool { return s.Name == name })
}

func set[T uint32 | float32](list []Setting[T], name string, v T) []Setting[T] {
	i := find(list, name)
	if i < 0 {
		return append(list, Setting[T]{name, v})
	}
	list[i].Value = v
	return list
}

func formatFloat(v float32) string {
	if math.IsNaN(float64(v)) {
		return "nan"
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 32)
}

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
	off := p.offset()
	n, ok := p.number(familyMap)
	if !ok {
		return p.refused(field)
	}
	if err := p.plausible(off, field, n, minSetting); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i := range n {
		start := p.offset()
		b, ok := p.str(p.lim.MaxName)
		if !ok {
			return p.refused(fmt.Sprintf("%s[%d]", field, i))
		}
		name := string(b)
		v, ok := value()
		if !ok {
			return p.refused(fmt.Sprintf("%s[%s]", field, naming.Quote(name)))
		}
		if seen[name] {
			p.part = fmt.Sprintf("%s[%s]", field, naming.Quote(name))
			return p.duplicate(start, "a second setting of that name")
		}
		seen[name] = true
		*out = append(*out, Setting[T]{name, v})
		if err := p.metadata(); err != nil {
			return err
		}
	}
	return nil
}
