package format

import (
	"cmp"
	"context"
	"errors"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit collects changes to the tensors and blobs of a file. Names are the names in the
// original, and all changes apply at once. A later change to the same tensor replaces an
// earlier one: a tensor that is removed and then replaced or renamed is in the file. An
// Edit is for one goroutine at a time.
type Edit struct {
	format  Errors
	base    *Base
	check   func(t *tensor.Tensor) error
	changes map[int]*Change // by the index of a tensor; -1-i is blob i
}

// A Change is what becomes of one tensor or blob of the original.
type Change struct {
	Removed bool
	Renamed bool
	Name    string         // in the changed file
	Tensor  *tensor.Tensor // what replaces it; nil if the data stays
	sums    Checksums      // of Tensor
}

// NewEdit returns an Edit of the tensors and blobs of a Base. check refuses a tensor that
// no file can have under any name.
func NewEdit(f Errors, b *Base, check func(t *tensor.Tensor) error) Edit {
	return Edit{format: f, base: b, check: check, changes: map[int]*Change{}}
}

// ofTensor returns the change of the tensor of that name, or of the blob if no tensor has
// the name.
func (e *Edit) ofTensor(name string) (*Change, error) {
	i := Index(e.base, name)
	if i < 0 {
		if i = -1 - BlobIndex(e.base, name); i == 0 {
			return nil, e.format.New(tensor.ErrNoTensor, "%s", naming.Quote(name))
		}
	}
	return e.change(i), nil
}

// ofBlob returns the change of the blob of that name.
func (e *Edit) ofBlob(name string) (*Change, error) {
	i := BlobIndex(e.base, name)
	if i < 0 {
		return nil, e.format.New(tensor.ErrNoTensor, "blob %s", naming.Quote(name))
	}
	return e.change(-1 - i), nil
}

func (e *Edit) change(i int) *Change {
	if e.changes[i] == nil {
		e.changes[i] = new(Change)
	}
	return e.changes[i]
}

func (c *Change) rename(new string) { c.Removed, c.Renamed, c.Name = false, true, new }

func (c *Change) remove() { *c = Change{Removed: true} }

// Rename gives a tensor another name, or a blob if no tensor has the name. It fails with
// tensor.ErrNoTensor if the original has neither. If the new name is taken, Write fails
// with tensor.ErrDuplicate.
func (e *Edit) Rename(old, new string) error {
	c, err := e.ofTensor(old)
	if err == nil {
		c.rename(new)
	}
	return err
}

// Remove leaves a tensor out, or a blob if no tensor has the name. It fails with
// tensor.ErrNoTensor if the original has neither.
func (e *Edit) Remove(name string) error {
	c, err := e.ofTensor(name)
	if err == nil {
		c.remove()
	}
	return err
}

// RenameBlob gives a blob another name. It fails with tensor.ErrNoTensor if the original
// has no such blob.
func (e *Edit) RenameBlob(old, new string) error {
	c, err := e.ofBlob(old)
	if err == nil {
		c.rename(new)
	}
	return err
}

// RemoveBlob leaves a blob out. It fails with tensor.ErrNoTensor if the original has no
// such blob.
func (e *Edit) RemoveBlob(name string) error {
	c, err := e.ofBlob(name)
	if err == nil {
		c.remove()
	}
	return err
}

// Replace stores the dtype, shape and data of t in place of a tensor, which keeps its
// name. The data must stay readable and unchanged until the file is written; Write fails
// with tensor.ErrChecksum if memory has changed. Replace fails with tensor.ErrNoTensor if
// the original has no such tensor, and as Check of a Writer does.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	if Index(e.base, name) < 0 {
		return e.format.New(tensor.ErrNoTensor, "%s", naming.Quote(name))
	}
	return ReplaceEntry(e, name, t)
}

// ReplaceEntry is Replace for a format in which a tensor can take the place of a blob.
func ReplaceEntry(e *Edit, name string, t *tensor.Tensor) error {
	err := e.format.Wrap(-1, "", t.Check())
	if err == nil {
		named := *t
		named.Name = name
		err = e.check(&named)
	}
	var c *Change
	if err == nil {
		c, err = e.ofTensor(name)
	}
	if err == nil {
		c.Removed, c.Tensor, c.sums = false, t, ChecksumsOf(name, t)
	}
	return err
}

// NoAttributes is the SetAttribute and RemoveAttribute of a format without attributes; an
// Edit embeds it.
type NoAttributes struct{ Format Errors }

// SetAttribute fails with errors.ErrUnsupported: the format has no attributes.
func (n NoAttributes) SetAttribute(key, value string) error {
	return n.Format.New(errors.ErrUnsupported, "the format has no attributes")
}

// RemoveAttribute fails with errors.ErrUnsupported: the format has no attributes.
func (n NoAttributes) RemoveAttribute(key string) error { return n.SetAttribute(key, "") }

// ChangeOf returns what becomes of tensor i of the original, or of blob -1-i, which has
// that name. If Tensor is not nil, it has the new Name. ChangeOf fails with
// tensor.ErrChecksum if memory has changed since Replace.
func ChangeOf(e *Edit, i int, name string) (c Change, err error) {
	if e.changes[i] != nil {
		c = *e.changes[i]
	}
	if !c.Renamed {
		c.Name = name
	}
	if c.Tensor != nil {
		if err := c.sums.Check(); err != nil {
			return c, e.format.Wrap(-1, "", err)
		}
		t := *c.Tensor
		t.Name = c.Name
		c.Tensor = &t
	}
	return c, nil
}

// Apply writes the changed file by w, and completes it. order lists tensors by their
// index, and blob i as -1-i; nil is all tensors. carry returns the item of a tensor or
// blob that keeps its data, under its new name. Changes must pass the checks of the
// Writer. Tensors that do not change have only their names checked.
func Apply[I any](ctx context.Context, e *Edit, w *Writer[I], order []int,
	carry func(i int, name string) (I, error)) error {
	defer w.Abort()
	w.out.ctx = ctx
	if order == nil {
		for i := range e.base.n {
			order = append(order, i)
		}
	}
	if w.enc.Equivalents != nil {
		w.original = map[string]bool{}
		for _, i := range order {
			name := nameOf(e.base, i)
			item, err := carry(i, name)
			if err != nil {
				return err
			}
			w.original[w.key(name, &item)] = true
		}
	}
	for _, i := range order {
		err := context.Cause(ctx)
		if err == nil {
			err = apply(e, w, i, carry)
		}
		if err != nil {
			return err
		}
	}
	return Finish(ctx, w)
}

// nameOf returns the name of tensor i of the original, or of blob -1-i.
func nameOf(b *Base, i int) string {
	if i >= 0 {
		return b.name(i)
	}
	return b.blobName(-1 - i)
}

// apply adds tensor i of the original, or blob -1-i, as the Edit changes it.
func apply[I any](e *Edit, w *Writer[I], i int, carry func(i int, name string) (I, error)) error {
	c, err := ChangeOf(e, i, nameOf(e.base, i))
	switch {
	case err != nil || c.Removed:
		return err
	case c.Tensor != nil:
		return w.Add(c.Tensor)
	}
	item, err := carry(i, c.Name)
	switch {
	case err != nil:
		return err
	case c.Renamed:
		return Register(w, c.Name, item)
	}
	key := w.key(c.Name, &item)
	if err := cmp.Or(w.usable(), w.checkTaken(c.Name, key)); err != nil {
		return err
	}
	return w.register(key, item)
}
