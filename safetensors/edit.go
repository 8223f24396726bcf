package safetensors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to a file. Names are those that its tensors have in
// the Reader, whatever was changed before, and all changes apply at once, so that
// two names can be swapped. Remove drops the changes of a tensor before it, and a later
// change brings the tensor back. The Reader must stay open until the file is written.
// An Edit is not safe for concurrent use.
type Edit struct {
	r        *Reader
	changes  map[string]*change
	metadata map[string]string
}

// A change is that of one tensor.
type change struct {
	removed bool
	name    *string          // nil for its own
	tensor  *tensor.Tensor   // nil for its own
	kept    format.Checksums // of tensor
}

// NewEdit begins a list of changes to the file of r. Those to a sharded model are
// written as one file.
func NewEdit(r *Reader) *Edit {
	e := &Edit{r: r, changes: map[string]*change{}, metadata: map[string]string{}}
	for k, v := range r.Attributes() {
		e.metadata[k] = v
	}
	if len(r.files) > 0 {
		delete(e.metadata, "total_size") // of the shards
	}
	return e
}

func (e *Edit) change(name string) (*change, error) {
	if e.r.Tensor(name) == nil {
		return nil, fmt.Errorf("safetensors: tensor %s: %w", naming.Quote(name),
			tensor.ErrNoTensor)
	}
	if e.changes[name] == nil {
		e.changes[name] = new(change)
	}
	return e.changes[name], nil
}

// Rename gives a tensor another name. Whether the name is taken shows in Write.
func (e *Edit) Rename(old, new string) error {
	c, err := e.change(old)
	if err == nil {
		c.removed, c.name = false, &new
	}
	return err
}

// Remove removes a tensor.
func (e *Edit) Remove(name string) error {
	c, err := e.change(name)
	if err == nil {
		*c = change{removed: true}
	}
	return err
}

// Replace gives a tensor the dtype, shape and data of t, whose name is not used. The
// memory of t must not change until the file is written: tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	c, err := e.change(name)
	if err == nil {
		err = t.Check()
	}
	if err == nil {
		c.removed, c.tensor, c.kept = false, t, format.ChecksumsOf(name, t)
	}
	return err
}

// SetAttribute changes or adds a key of __metadata__.
func (e *Edit) SetAttribute(key, value string) error {
	e.metadata[key] = value
	return nil
}

// RemoveAttribute removes a key of __metadata__; one that is absent is no error.
func (e *Edit) RemoveAttribute(key string) error {
	delete(e.metadata, key)
	return nil
}

// Write writes the changed file to w, its tensors in the order that they have. A
// name that another tensor has is tensor.ErrDuplicate. The Metadata of opts must be
// empty: attributes are those of the file, with the changes.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	return NewWriter(w, o).writeAll(ctx, e.tensors())
}

// WriteFile writes the changed file to the file of that name, which appears whole
// or not at all, and may be the one that the Reader has open.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	return WriteFile(ctx, name, e.tensors(), o)
}

func (e *Edit) options(opts *WriterOptions) (*WriterOptions, error) {
	if opts != nil && len(opts.Metadata) > 0 {
		return nil, fmt.Errorf("safetensors: WriterOptions.Metadata of an Edit (SetAttribute): %w",
			errors.ErrUnsupported)
	}
	return &WriterOptions{Metadata: e.metadata, KeepOrder: true}, nil
}

func (e *Edit) tensors() iter.Seq2[*tensor.Tensor, error] {
	return func(yield func(*tensor.Tensor, error) bool) {
		for t := range e.r.Tensors() {
			if c := e.changes[t.Name]; c != nil {
				if c.removed {
					continue
				}
				changed := *t
				if c.tensor != nil {
					if err := c.kept.Check(); err != nil {
						yield(nil, fmt.Errorf("safetensors: %w", err))
						return
					}
					changed = *c.tensor
					changed.Name = t.Name
				}
				if c.name != nil {
					changed.Name = *c.name
				}
				t = &changed
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}
