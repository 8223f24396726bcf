package primitiv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to a file. Names are those that its tensors have in the
// Reader, whatever was changed before, and all changes apply at once, so that two names
// can be swapped. Remove drops the changes of a tensor before it, and a later change
// brings the tensor back. The Reader must stay open until the file is written. An Edit is
// not safe for concurrent use.
type Edit struct {
	r         *Reader
	changes   map[int]*change // by entry
	optimizer *Optimizer      // nil for other kinds
}

// A change is that of one tensor.
type change struct {
	removed bool
	name    *string          // nil for its own
	tensor  *tensor.Tensor   // nil for its own
	kept    format.Checksums // of tensor
}

// NewEdit begins a list of changes to the file of r.
func NewEdit(r *Reader) *Edit {
	return &Edit{r: r, changes: map[int]*change{}, optimizer: r.Optimizer()}
}

// change returns the change of the tensor of that name, to be filled in.
func (e *Edit) change(name string) (i int, c *change, err error) {
	if i = e.r.byName().Lookup(name); i < 0 {
		return i, nil, fmt.Errorf("%s: tensor %s: %w",
			formatName, naming.Quote(name), tensor.ErrNoTensor)
	}
	if e.changes[i] == nil {
		e.changes[i] = new(change)
	}
	return i, e.changes[i], nil
}

// Rename gives a tensor of a model another name. That of a value makes its path, cut at
// dots; its statistics follow it. That of a statistic is VALUE:STATISTIC with the old or
// the new name of its value. The value of a parameter or tensor file has no name in it:
// errors.ErrUnsupported.
func (e *Edit) Rename(old, new string) error {
	i, c, err := e.change(old)
	if err != nil {
		return err
	}
	if !e.r.entries[i].IsStatistic && e.r.kind != KindModel {
		return fmt.Errorf("%s: a %v file has no name for its tensor: %w",
			formatName, e.r.kind, errors.ErrUnsupported)
	}
	c.removed, c.name = false, &new
	return nil
}

// Remove removes a tensor, a value with its statistics.
func (e *Edit) Remove(name string) error {
	_, c, err := e.change(name)
	if err == nil {
		*c = change{removed: true}
	}
	return err
}

// Replace gives a tensor the dtype, shape and data of t, whose name is not used. The last
// dimension is the batch where the replaced tensor has the same shape and a batch. The
// memory of t must not change until the file is written: tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	_, c, err := e.change(name)
	if err == nil {
		err = t.Check()
	}
	if err == nil {
		c.removed, c.tensor, c.kept = false, t, format.ChecksumsOf(name, t)
	}
	return err
}

// SetAttribute changes or adds a setting of an optimizer file, see [Optimizer.Set]. Other
// kinds have no attributes: errors.ErrUnsupported.
func (e *Edit) SetAttribute(key, value string) error {
	if e.optimizer == nil {
		return e.noAttributes()
	}
	return e.optimizer.Set(key, value)
}

// RemoveAttribute removes a setting of an optimizer file; one that is absent is no error.
func (e *Edit) RemoveAttribute(key string) error {
	if e.optimizer == nil {
		return e.noAttributes()
	}
	e.optimizer.Remove(key)
	return nil
}

func (e *Edit) noAttributes() error {
	return fmt.Errorf("%s: a %v file has no attributes: %w",
		formatName, e.r.kind, errors.ErrUnsupported)
}

// Write writes the changed file to w. Its kind is that of the Reader, whatever opts says.
// A name that another tensor has is tensor.ErrDuplicate.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return e.write(ctx, NewWriter(w, e.options(opts)))
}

// WriteFile writes the changed file to the named file, which appears whole or not
// at all.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	w, err := Create(name, e.options(opts))
	if err != nil {
		return err
	}
	defer w.Abort()
	return e.write(ctx, w)
}

func (e *Edit) options(opts *WriterOptions) *WriterOptions {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	o.Kind = e.r.kind
	return &o
}

func (e *Edit) write(ctx context.Context, w *Writer) error {
	w.out = format.Until(ctx, w.out)
	if err := e.fill(w); err != nil {
		return err
	}
	return w.Close()
}

// fill gives w the content of the changed file.
func (e *Edit) fill(w *Writer) error {
	for _, i := range slices.Sorted(maps.Keys(e.changes)) {
		if c := e.changes[i]; !c.removed {
			if err := c.kept.Check(); err != nil {
				return fmt.Errorf("%s: %w", formatName, err)
			}
		}
	}
	switch e.r.kind {
	case KindShape:
		return w.SetShape(e.r.Shape())
	case KindOptimizer:
		return w.SetOptimizer(e.optimizer)
	case KindTensor:
		p := e.r.parameter(0)
		c := e.changes[0]
		if c != nil && c.removed {
			return nil // Close reports that there is nothing
		}
		if c != nil && c.tensor != nil {
			if w.opts.Batch == 0 && c.tensor.Shape.Equal(p.Value.Shape) {
				w.opts.Batch = e.r.shape.Batch
			}
			p.Value = c.tensor
		}
		return w.Add(p.Value)
	}
	for i := range e.r.entries {
		if e.r.entries[i].IsStatistic {
			continue
		}
		p, err := e.parameter(i)
		if err == nil && p != nil {
			err = w.AddParameter(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parameter returns the changed parameter whose value is entry i, nil if it was removed.
func (e *Edit) parameter(i int) (*Parameter, error) {
	p := e.r.parameter(i)
	old := p.Name()
	if c := e.changes[i]; c != nil {
		if c.removed {
			return nil, nil
		}
		if c.tensor != nil {
			p.Value = c.tensor
		}
		if c.name != nil {
			p.Path = strings.Split(*c.name, ".")
		}
	}
	stats := p.Stats
	p.Stats = nil
	for j, s := range stats {
		if c := e.changes[i+1+j]; c != nil {
			if c.removed {
				continue
			}
			if c.tensor != nil {
				if !c.tensor.Shape.Equal(s.Tensor.Shape) {
					s.Batch = place(c.tensor).Batch
				}
				s.Tensor = c.tensor
			}
			if c.name != nil {
				name, ok := strings.CutPrefix(*c.name, p.Name()+":")
				if !ok {
					name, ok = strings.CutPrefix(*c.name, old+":")
				}
				if !ok {
					return nil, fmt.Errorf("%s: statistic %s:%s: %s is not of the same value: %w",
						formatName, old, s.Name, naming.Quote(*c.name), errors.ErrUnsupported)
				}
				s.Name = name
			}
		}
		p.Stats = append(p.Stats, s)
	}
	return p, nil
}
