package primitiv

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to a file, with the methods of every Edit: Rename, Remove
// and Replace. Names are the names in the Reader, and all changes apply at once, so that
// two names can be swapped. Remove of a value removes its statistics. Replace takes the
// last dimension for the batch if the replaced tensor has the same shape and a batch. The
// Reader must stay open until the file is written.
type Edit struct {
	format.Edit
	r         *Reader
	optimizer *Optimizer // nil for other kinds
}

// NewEdit begins a list of changes to the file of r.
func NewEdit(r *Reader) *Edit {
	check := func(t *tensor.Tensor) error { // in any order: Write knows the options
		return (&WriterOptions{Kind: r.kind, Reorder: true}).checkTensor(t, t.Name, 1)
	}
	return &Edit{format.NewEdit(errs, &r.Base, check), r, r.Optimizer()}
}

// Rename gives a tensor of a model another name. The name of a value makes its path, cut
// at dots; its statistics follow it. The name of a statistic is VALUE:STATISTIC with the
// old or the new name of its value. The value of a parameter or tensor file has no name
// in it: errors.ErrUnsupported.
func (e *Edit) Rename(old, new string) error {
	i := format.Index(&e.r.Base, old)
	if i >= 0 && !e.r.entries[i].IsStatistic && e.r.kind != KindModel {
		return errs.Tensor(old, errors.ErrUnsupported, "a %v file has no name for its tensor",
			e.r.kind)
	}
	return e.Edit.Rename(old, new)
}

// SetAttribute changes or adds a setting of an optimizer file, see [Optimizer.Set]. Other
// kinds have no attributes: errors.ErrUnsupported.
func (e *Edit) SetAttribute(key, value string) error {
	if e.optimizer == nil {
		return errs.New(errors.ErrUnsupported, "a %v file has no attributes", e.r.kind)
	}
	return e.optimizer.Set(key, value)
}

// RemoveAttribute removes a setting of an optimizer file; one that is absent is no error.
func (e *Edit) RemoveAttribute(key string) error {
	if e.optimizer == nil {
		return e.SetAttribute(key, "")
	}
	e.optimizer.Remove(key)
	return nil
}

// Write writes the changed file to w. Its kind is the kind of the Reader; opts does not
// change it. It fails with tensor.ErrDuplicate if two tensors have the same name.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return e.write(ctx, NewWriter(w, e.options(opts)))
}

// WriteFile writes the changed file as the file of that name, which appears whole or not
// at all. It may be the file that the Reader has open.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	w, err := Create(name, e.options(opts))
	if err != nil {
		return err
	}
	return e.write(ctx, w)
}

func (e *Edit) options(opts *WriterOptions) *WriterOptions {
	o := opts.complete()
	o.Kind = e.r.kind
	return o
}

func (e *Edit) write(ctx context.Context, w *Writer) error {
	defer w.Abort()
	if err := e.fill(ctx, w); err != nil {
		return err
	}
	return format.Finish(ctx, &w.Writer)
}

// fill gives w the content of the changed file.
func (e *Edit) fill(ctx context.Context, w *Writer) error {
	switch e.r.kind {
	case KindShape:
		return w.SetShape(e.r.Shape())
	case KindOptimizer:
		return w.SetOptimizer(e.optimizer)
	}
	for i, x := range e.r.entries {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if x.IsStatistic {
			continue
		}
		p, err := e.parameter(i)
		switch {
		case err == nil && p != nil && e.r.kind == KindTensor:
			if w.opts.Batch == 0 && p.Value.Shape.Equal(x.tensor.Shape) {
				w.opts.Batch = x.Batch
			}
			err = w.Add(p.Value)
		case err == nil && p != nil:
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
	old := p.Value.Name
	c, err := format.ChangeOf(&e.Edit, i, old)
	if err != nil || c.Removed {
		return nil, err
	}
	if c.Tensor != nil {
		p.Value = c.Tensor
	}
	if c.Renamed {
		p.Path = strings.Split(c.Name, ".")
	}
	stats := p.Stats
	p.Stats = nil
	for j, s := range stats {
		c, err := format.ChangeOf(&e.Edit, i+1+j, s.Tensor.Name)
		if err != nil {
			return nil, err
		}
		if c.Removed {
			continue
		}
		if c.Tensor != nil {
			if !c.Tensor.Shape.Equal(s.Tensor.Shape) {
				s.Batch = place(c.Tensor).Batch
			}
			s.Tensor = c.Tensor
		}
		if c.Renamed {
			name, ok := strings.CutPrefix(c.Name, p.Name()+":")
			if !ok {
				name, ok = strings.CutPrefix(c.Name, old+":")
			}
			if !ok {
				return nil, errs.Tensor(s.Tensor.Name, errors.ErrUnsupported,
					"%s is not a statistic of the same value", naming.Quote(c.Name))
			}
			s.Name = name
		}
		p.Stats = append(p.Stats, s)
	}
	return p, nil
}
