package primitiv

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Slot is a parameter that a program expects in a file.
type Slot struct {
	Path  []string
	Shape tensor.Shape // nil for any; trailing ones do not count
}

// A Binding is the outcome of Bind.
type Binding struct {
	Parameters []*Parameter // one a slot; nil where there is none of that path, or of another shape
	Missing    []Slot       // no parameter of that path
	Mismatched []Mismatch   // a parameter of that path, but of another shape
	Extra      []*Parameter // parameters that no slot asked for
}

// A Mismatch is a parameter whose shape is not the expected one.
type Mismatch struct {
	Slot      Slot
	Parameter *Parameter
}

// Bind finds a parameter for each slot.
func (m Model) Bind(slots []Slot) *Binding {
	b := &Binding{Parameters: make([]*Parameter, len(slots))}
	at := make(map[string]*Parameter, len(m))
	for i := range m {
		at[pathKey(m[i].Path)] = &m[i]
	}
	used := make(map[*Parameter]bool, len(slots))
	for i, s := range slots {
		p := at[pathKey(s.Path)]
		if p == nil {
			b.Missing = append(b.Missing, s)
			continue
		}
		used[p] = true
		if s.Shape != nil && !sameShape(s.Shape, p.Value.Shape) {
			b.Mismatched = append(b.Mismatched, Mismatch{s, p})
			continue
		}
		b.Parameters[i] = p
	}
	for i := range m {
		if !used[&m[i]] {
			b.Extra = append(b.Extra, &m[i])
		}
	}
	return b
}

// Err is nil if every slot has its parameter and no parameter is left over.
func (b *Binding) Err() error {
	var all []string
	for _, s := range b.Missing {
		all = append(all, "no "+quotePath(s.Path))
	}
	for _, s := range b.Mismatched {
		all = append(all, fmt.Sprintf("%s is %v, not %v", quotePath(s.Slot.Path), s.Parameter.Value.Shape, s.Slot.Shape))
	}
	return b.report(append(all, b.extra()...))
}

// PartialErr is nil if the reference would load the file into a model with these slots:
// each parameter has a slot. It keeps what the file lacks as it is, and takes over
// shapes.
func (b *Binding) PartialErr() error { return b.report(b.extra()) }

func (b *Binding) extra() []string {
	var all []string
	for _, p := range b.Extra {
		all = append(all, quotePath(p.Path)+" is not expected")
	}
	return all
}

func (b *Binding) report(all []string) error {
	const maxListed = 10
	switch n := len(all); {
	case n == 0:
		return nil
	case n > maxListed:
		all = append(all[:maxListed], fmt.Sprintf("and %d more", n-maxListed))
	}
	return fmt.Errorf("%s: the file does not fit the model: %s", format, strings.Join(all, "; "))
}

func sameShape(a, b tensor.Shape) bool {
	strip := func(s tensor.Shape) tensor.Shape {
		for len(s) > 0 && s[len(s)-1] == 1 {
			s = s[:len(s)-1]
		}
		return s
	}
	return strip(a).Equal(strip(b))
}
