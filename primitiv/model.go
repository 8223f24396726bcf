package primitiv

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A Parameter is a trainable array: its value, and what optimizers keep for it.
type Parameter struct {
	Path  []string // names from the root of the model down; empty in a parameter file
	Value *tensor.Tensor
	Stats []Statistic
}

// A Statistic is a tensor that an optimizer keeps beside a value, such as Adam.m1.
type Statistic struct {
	Name   string
	Tensor *tensor.Tensor
	Batch  uint32 // above 1, the last dimension of the tensor is the batch
}

// Name is the path joined with dots; value for the parameter of a parameter file.
func (p *Parameter) Name() string {
	if len(p.Path) == 0 {
		return "value"
	}
	return strings.Join(p.Path, ".")
}

// Stat returns the statistic of that name, nil if there is none.
func (p *Parameter) Stat(name string) *tensor.Tensor {
	for _, s := range p.Stats {
		if s.Name == name {
			return s.Tensor
		}
	}
	return nil
}

// A Model is a list of parameters, to be looked through, edited and written. Editing moves no payload.
type Model []Parameter

// Find returns the parameter of that path, nil if there is none. It points into m.
func (m Model) Find(path ...string) *Parameter {
	for i := range m {
		if slices.Equal(m[i].Path, path) {
			return &m[i]
		}
	}
	return nil
}

// Rename gives a parameter another path, or all parameters of a submodel if from is the path of one. It is an error
// that wraps tensor.ErrNoTensor if there is neither, and one that wraps tensor.ErrDuplicate if something is at to already; m is
// then as before.
func (m Model) Rename(from, to []string) error {
	if len(to) == 0 {
		return fmt.Errorf("%s: a path without a name: %w", format, fs.ErrInvalid)
	}
	var moved []int
	for i := range m {
		if below(m[i].Path, from) {
			moved = append(moved, i)
		}
	}
	if len(moved) == 0 {
		return fmt.Errorf("%s: no parameter or submodel %s: %w", format, quotePath(from), tensor.ErrNoTensor)
	}
	fitted := m.checkPaths() == nil
	old := make([][]string, len(moved))
	for j, i := range moved {
		old[j] = m[i].Path
		m[i].Path = slices.Concat(to, m[i].Path[len(from):])
	}
	if err := m.checkPaths(); err != nil && fitted {
		for j, i := range moved {
			m[i].Path = old[j]
		}
		return err
	}
	return nil
}

// Drop takes a parameter out, or all of a submodel, and returns how many.
func (m *Model) Drop(path ...string) int {
	n := len(*m)
	*m = slices.DeleteFunc(*m, func(p Parameter) bool { return below(p.Path, path) })
	return n - len(*m)
}

// DropStats takes the statistics of these names out of all parameters, every one if none is named.
func (m Model) DropStats(names ...string) {
	for i := range m {
		var keep []Statistic
		for _, s := range m[i].Stats {
			if len(names) > 0 && !slices.Contains(names, s.Name) {
				keep = append(keep, s)
			}
		}
		m[i].Stats = keep
	}
}

// Merge adds the parameters of another model, as the submodel under if it is not empty. It is an error that wraps
// tensor.ErrDuplicate if one of them would be in the place of another; m is then as before.
func (m *Model) Merge(other Model, under ...string) error {
	all := slices.Clone(*m)
	for _, p := range other {
		p.Path = slices.Concat(under, p.Path)
		all = append(all, p)
	}
	if err := all.checkPaths(); err != nil {
		return err
	}
	*m = all
	return nil
}

// Check reports what keeps the model out of a file: a path that is empty, there twice (tensor.ErrDuplicate) or below that of
// another parameter (tensor.ErrDuplicate), or a parameter that the format cannot hold. A Writer checks the same.
func (m Model) Check() error {
	if err := m.checkPaths(); err != nil {
		return err
	}
	for i := range m {
		if err := m[i].check(&WriterOptions{Reorder: true}); err != nil {
			return err
		}
	}
	return nil
}

func (m Model) checkPaths() error {
	keys := make([]string, len(m))
	for i := range m {
		if len(m[i].Path) == 0 {
			return fmt.Errorf("%s: a parameter without a path: %w", format, fs.ErrInvalid)
		}
		keys[i] = pathKey(m[i].Path)
	}
	slices.Sort(keys)
	return disjoint(keys)
}

// disjoint reports which of the paths, whose keys are in order, cannot be in one model. The
// paths below one follow it directly.
func disjoint(sorted []string) error {
	for i := 1; i < len(sorted); i++ {
		if err := clash(sorted[i-1], sorted[i]); err != nil {
			return err
		}
	}
	return nil
}

// clash reports why two paths, the first not after the second, cannot be in one model.
func clash(a, b string) error {
	switch {
	case a == b:
		return fmt.Errorf("%s: two parameters %s: %w", format, quotePath(keyPath(a)), tensor.ErrDuplicate)
	case keyBelow(b, a):
		return fmt.Errorf("%s: %s lies below the parameter %s: %w", format,
			quotePath(keyPath(b)), quotePath(keyPath(a)), tensor.ErrDuplicate)
	}
	return nil
}

// WriteFile writes the model to the file called name, which appears whole or not at all.
func (m Model) WriteFile(name string, opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	return m.writeTo(w)
}

// Write writes the model to w.
func (m Model) Write(w io.Writer, opts *WriterOptions) error {
	return m.writeTo(NewWriter(w, opts))
}

func (m Model) writeTo(w *Writer) error {
	for i := range m {
		if err := w.AddParameter(&m[i]); err != nil {
			return err
		}
	}
	return w.Close()
}

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

// PartialErr is nil if the reference would load the file into a model with these slots: each parameter has a slot.
// It keeps what the file lacks as it is, and takes over shapes.
func (b *Binding) PartialErr() error { return b.report(b.extra()) }

func (b *Binding) extra() []string {
	var all []string
	for _, p := range b.Extra {
		all = append(all, quotePath(p.Path)+" is not expected")
	}
	return all
}

func (b *Binding) report(all []string) error {
	const most = 10
	switch n := len(all); {
	case n == 0:
		return nil
	case n > most:
		all = append(all[:most], fmt.Sprintf("and %d more", n-most))
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
