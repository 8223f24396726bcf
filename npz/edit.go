package npz

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to an archive, with the methods of every Edit: Rename,
// Remove, RenameBlob, RemoveBlob and Replace. Names are the names in the Reader, and all
// changes apply at once, so that two names can be swapped. Members that are not replaced
// are copied as they are stored, also members that are not arrays or hold no numbers.
// Archives have no attributes. The Reader must stay open until the archive is written.
type Edit struct {
	format.Edit
	format.NoAttributes
	order   []int         // of the members: array i, or blob -1-i
	members map[int]*file // by the same numbers
}

// NewEdit begins a list of changes to the archive of r.
func NewEdit(r *Reader) *Edit {
	e := &Edit{Edit: format.NewEdit(errs, &r.Base,
		func(t *tensor.Tensor) error { return numpy.Check(errs, t) }),
		NoAttributes: format.NoAttributes{Format: errs}, members: map[int]*file{}}
	for i := range r.files {
		f := &r.files[i]
		e.order = append(e.order, f.index)
		e.members[f.index] = f
	}
	return e
}

// Write writes the changed archive to w. opts are for the arrays that are replaced, which
// are compressed as well if the replaced ones were. It fails with tensor.ErrDuplicate if
// two arrays have the same name.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	out := format.NewWriter(w, e.encoding(opts))
	return format.Apply(ctx, &e.Edit, &out, e.order, e.carry)
}

// WriteFile writes the changed archive as the named file, which appears whole or not at
// all.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	out, err := format.Create(name, e.encoding(opts))
	if err != nil {
		return err
	}
	return format.Apply(ctx, &e.Edit, &out, e.order, e.carry)
}

// encoding compresses what takes the place of a compressed array.
func (e *Edit) encoding(opts *WriterOptions) *format.Encoding[member] {
	deflated := map[string]bool{} // by their new names
	for i, f := range e.members {
		if c, err := format.ChangeOf(&e.Edit, i, f.name); err == nil && f.zip.Method != zip.Store {
			deflated[c.Name] = true
		}
	}
	return opts.encoding(func(name string) bool { return deflated[name] })
}

// carry returns the member of array i, or of blob -1-i, as it is stored.
func (e *Edit) carry(i int, name string) (member, error) {
	if i < 0 && strings.HasSuffix(name, numpy.Suffix) {
		return member{}, errs.Tensor(name, errors.ErrUnsupported,
			"a blob cannot have the name of an array")
	}
	m := member{zip: e.members[i].zip, name: name}
	if i >= 0 {
		m.name += numpy.Suffix
	}
	return m, nil
}
