package primitiv

import (
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

// Name returns the name of the optimizer, inferred from its settings since the file does
// not have it: the part before the dot in the names of the floats, without the names that
// all optimizers have. It is empty where they disagree or there are none.
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

// Set changes or adds a setting. value is a number as text. If neither map has the name,
// it becomes a floating point setting, except [Epoch]. Set fails with tensor.ErrDType if
// value is not such a number.
func (o *Optimizer) Set(name, value string) error {
	if find(o.Uints, name) >= 0 || name == Epoch && find(o.Floats, name) < 0 {
		v, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return errs.New(tensor.ErrDType, "%s is an integer of 32 bits, not %q", name, value)
		}
		o.Uints = set(o.Uints, name, uint32(v))
		return nil
	}
	v, err := strconv.ParseFloat(value, 32)
	if err != nil {
		return errs.New(tensor.ErrDType, "%s is a number of 32 bits, not %q", name, value)
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
	if _, dup := naming.Build(len(list), func(i int) string { return list[i].Name }); dup >= 0 {
		return errs.New(tensor.ErrDuplicate, "two settings %s", naming.Quote(list[dup].Name))
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

// attributes are the settings as text, integers first.
func (o *Optimizer) attributes() (list [][2]string) {
	for _, s := range o.Uints {
		list = append(list, [2]string{s.Name, strconv.FormatUint(uint64(s.Value), 10)})
	}
	for _, s := range o.Floats {
		list = append(list, [2]string{s.Name, formatFloat(s.Value)})
	}
	return list
}

func formatFloat(v float32) string {
	if math.IsNaN(float64(v)) {
		return "nan"
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 32)
}
