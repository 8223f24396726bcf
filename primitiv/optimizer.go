package primitiv

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/quote"
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

// rules are the optimizers of the reference: their own settings with the defaults, and
// its four common ones, in the order in which it writes them.
var rules = []struct {
	name   string
	floats []Setting[float32]
}{
	{"SGD", []Setting[float32]{{"SGD.eta", 0.1}, clipThreshold, l2Strength, lrScale}},
	{"MomentumSGD", []Setting[float32]{{"MomentumSGD.momentum", 0.9}, {"MomentumSGD.eta", 0.01},
		clipThreshold, l2Strength, lrScale}},
	{"AdaGrad", []Setting[float32]{clipThreshold, l2Strength, {"AdaGrad.eps", 1e-8},
		{"AdaGrad.eta", 0.001}, lrScale}},
	{"RMSProp", []Setting[float32]{{"RMSProp.eps", 1e-8}, {"RMSProp.eta", 0.01}, clipThreshold,
		l2Strength, {"RMSProp.alpha", 0.9}, lrScale}},
	{"AdaDelta", []Setting[float32]{{"AdaDelta.eps", 1e-6}, {"AdaDelta.rho", 0.95}, clipThreshold,
		l2Strength, lrScale}},
	{"Adam", []Setting[float32]{{"Adam.beta2", 0.999}, {"Adam.beta1", 0.9}, clipThreshold,
		{"Adam.eps", 1e-8}, {"Adam.alpha", 0.001}, l2Strength, lrScale}},
}

var (
	clipThreshold = Setting[float32]{"Optimizer.clip_threshold", 0}
	l2Strength    = Setting[float32]{"Optimizer.l2_strength", 0}
	lrScale       = Setting[float32]{"Optimizer.lr_scale", 1}
)

// NewOptimizer returns the settings of a new optimizer of that name as the reference has
// them: SGD, MomentumSGD, AdaGrad, RMSProp, AdaDelta or Adam.
func NewOptimizer(name string) (*Optimizer, error) {
	for _, r := range rules {
		if r.name == name {
			return &Optimizer{[]Setting[uint32]{{Epoch, 0}}, slices.Clone(r.floats)}, nil
		}
	}
	return nil, fmt.Errorf("%s: no optimizer is named %s", format, quote.Name(name))
}

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

// Uint returns an integer setting.
func (o *Optimizer) Uint(name string) (uint32, bool) { return get(o.Uints, name) }

// Float returns a floating point setting.
func (o *Optimizer) Float(name string) (float32, bool) { return get(o.Floats, name) }

// SetUint changes an integer setting, or adds it.
func (o *Optimizer) SetUint(name string, v uint32) { o.Uints = set(o.Uints, name, v) }

// SetFloat changes a floating point setting, or adds it.
func (o *Optimizer) SetFloat(name string, v float32) { o.Floats = set(o.Floats, name, v) }

// Set changes a setting, or adds it, to a number that is given as text. Where neither map
// has the name it becomes a floating point setting, but for [Epoch]. A text that is not
// such a number is tensor.ErrDType.
func (o *Optimizer) Set(name, value string) error {
	_, isFloat := o.Float(name)
	if _, isUint := o.Uint(name); isUint || name == Epoch && !isFloat {
		v, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return fmt.Errorf("%s: %w: %s is an integer of 32 bits, not %q", format,
				tensor.ErrDType, name, value)
		}
		o.SetUint(name, uint32(v))
		return nil
	}
	v, err := strconv.ParseFloat(value, 32)
	if err != nil {
		return fmt.Errorf("%s: %w: %s is a number of 32 bits, not %q", format, tensor.ErrDType,
			name, value)
	}
	o.SetFloat(name, float32(v))
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
	again := repeated(len(list), func(i int) string { return list[i].Name })
	if again == nil {
		return nil
	}
	return fmt.Errorf("%s: two settings %s: %w",
		format, quote.Name(list[again[0]].Name), tensor.ErrDuplicate)
}

func get[T uint32 | float32](list []Setting[T], name string) (v T, ok bool) {
	for _, s := range list {
		if s.Name == name {
			return s.Value, true
		}
	}
	return v, false
}

func set[T uint32 | float32](list []Setting[T], name string, v T) []Setting[T] {
	for i := range list {
		if list[i].Name == name {
			list[i].Value = v
			return list
		}
	}
	return append(list, Setting[T]{name, v})
}

func formatFloat(v float32) string {
	if math.IsNaN(float64(v)) {
		return "nan"
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 32)
}
