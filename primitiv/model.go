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

// A Statistic is a tensor that an optimizer keeps for a value, such as Adam.m1.
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

// A Model is a list of parameters, to be searched, bound and written. See [Edit] for
// changes.
type Model []Parameter

// Check reports what keeps the model out of a file: a path that is empty, duplicate
// (tensor.ErrDuplicate) or below that of another parameter (tensor.ErrDuplicate), or a
// parameter that the format cannot hold. A Writer checks the same.
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

// disjoint reports which of the paths, whose keys are in order, cannot be in one model.
// The paths below one follow it directly.
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
		return fmt.Errorf("%s: two parameters %s: %w",
			format, quotePath(keyPath(a)), tensor.ErrDuplicate)
	case keyBelow(b, a):
		return fmt.Errorf("%s: %s is below the parameter %s: %w", format,
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
