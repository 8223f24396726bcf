package format

import (
	"context"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit collects changes to the tensors of a file. Names are those of the original, all
// changes apply at once, and of several changes to one tensor the last counts: a tensor
// that is removed and then replaced or renamed is there. It is for one goroutine at a
// time.
type Edit struct {
	format  Errors
	find    func(name string) []int
	changes map[int]*Change
}

// A Change is what becomes of one tensor of the original.
type Change struct {
	Removed bool
	Renamed bool
	Name    string         // if Renamed
	Tensor  *tensor.Tensor // what replaces it; nil: nothing
	sums    Checksums      // of Tensor
}

// NewEdit returns an Edit of a file. find returns the indices of the tensors of a name.
func NewEdit(f Errors, find func(name string) []int) Edit {
	return Edit{format: f, find: find, changes: map[int]*Change{}}
}

// Find returns the indices of the tensors of that name, at least one, or an error that
// wraps tensor.ErrNoTensor.
func Find(e *Edit, name string) ([]int, error) {
	all := e.find(name)
	if len(all) == 0 {
		return nil, e.format.New(tensor.ErrNoTensor, "%s", naming.Quote(name))
	}
	return all, nil
}

func (e *Edit) change(name string, f func(c *Change)) error {
	all, err := Find(e, name)
	for _, i := range all {
		if e.changes[i] == nil {
			e.changes[i] = new(Change)
		}
		f(e.changes[i])
	}
	return err
}

// Rename gives a tensor another name. It fails with tensor.ErrNoTensor if the original
// has no such tensor. A new name that is taken is tensor.ErrDuplicate of Write.
func (e *Edit) Rename(old, new string) error {
	return e.change(old, func(c *Change) { c.Removed, c.Renamed, c.Name = false, true, new })
}

// Remove leaves a tensor out. It fails with tensor.ErrNoTensor if the original has no
// such tensor.
func (e *Edit) Remove(name string) error {
	return e.change(name, func(c *Change) { *c = Change{Removed: true} })
}

// Replace stores the dtype, shape and data of t, whose name is not used, in place of a
// tensor. Its data must stay readable until the file is written, and its memory
// unchanged: tensor.ErrChecksum. It fails with tensor.ErrNoTensor if the original has no
// such tensor.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return e.format.Wrap("", err)
	}
	return e.change(name, func(c *Change) {
		c.Removed, c.Tensor, c.sums = false, t, Checksums{}
		c.sums.AddTensor(t)
	})
}

// ChangeOf returns what becomes of tensor i of the original, which has that name. Its
// Name is always set, and Tensor has the name.
func ChangeOf(e *Edit, i int, name string) (c Change, err error) {
	if e.changes[i] != nil {
		c = *e.changes[i]
	}
	if !c.Renamed {
		c.Name = name
	}
	if c.Tensor != nil {
		if err := c.sums.Check(); err != nil {
			return c, e.format.Wrap("", err)
		}
		t := *c.Tensor
		t.Name = c.Name
		c.Tensor = &t
	}
	return c, nil
}

// Apply adds what an Edit makes of the tensors 0 to n-1 of the original to w, and
// completes the file. carry returns the name of tensor i, and its item as it is in the
// original.
func Apply[I any](ctx context.Context, e *Edit, w *Writer[I], n int,
	carry func(i int) (name string, item I, err error)) error {
	defer w.Abort()
	w.out.ctx = ctx
	for i := range n {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		name, item, err := carry(i)
		if err != nil {
			return err
		}
		c, err := ChangeOf(e, i, name)
		switch {
		case err != nil || c.Removed:
		case c.Tensor != nil:
			err = w.Add(c.Tensor)
		default:
			err = Register(w, c.Name, item)
		}
		if err != nil {
			return err
		}
	}
	return Finish(ctx, w)
}
