package safetensors

import (
	"context"
	"io"
	"io/fs"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to a file, with the methods of every Edit: Rename, Remove
// and Replace. Names are the names in the Reader, and all changes apply at once, so that
// two names can be swapped. The Reader must stay open until the file is written.
type Edit struct {
	format.Edit
	r          *Reader
	attributes map[string]string
}

// NewEdit begins a list of changes to the file of r. A sharded model is written as one
// file.
func NewEdit(r *Reader) *Edit {
	e := &Edit{format.NewEdit(errs, &r.Base, checkTensor), r, map[string]string{}}
	for k, v := range r.Attributes() {
		e.attributes[k] = v
	}
	if len(r.files) > 0 {
		delete(e.attributes, totalSize) // describes the shards, not the new file
	}
	return e
}

// SetAttribute changes or adds a key of __metadata__.
func (e *Edit) SetAttribute(key, value string) error {
	e.attributes[key] = value
	return nil
}

// RemoveAttribute removes a key of __metadata__. A key that is absent is no error.
func (e *Edit) RemoveAttribute(key string) error {
	delete(e.attributes, key)
	return nil
}

// Write writes the changed file to w, its tensors in the order of the original. It fails
// with tensor.ErrDuplicate if two tensors have the same name, and with fs.ErrInvalid
// unless opts.Attributes is empty.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	out := format.NewWriter(w, e.encoding(opts))
	return format.Apply(ctx, &e.Edit, &out, nil, e.carry)
}

// WriteFile writes the changed file as the file of that name, which appears whole or not
// at all. It may be the file that the Reader has open. It fails as Write does.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	out, err := format.Create(name, e.encoding(opts))
	if err != nil {
		return err
	}
	return format.Apply(ctx, &e.Edit, &out, nil, e.carry)
}

func (e *Edit) encoding(opts *WriterOptions) *format.Encoding[*tensor.Tensor] {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	hasAttributes := len(o.Attributes) > 0
	o.Attributes, o.KeepOrder = e.attributes, true
	enc := o.encoding()
	if hasAttributes {
		enc.Err = errs.New(fs.ErrInvalid, "WriterOptions.Attributes of an Edit (SetAttribute)")
	}
	return enc
}

// carry returns tensor i of the original under another name.
func (e *Edit) carry(i int, name string) (*tensor.Tensor, error) {
	t := e.r.tensors[i]
	t.Name = name
	return &t, nil
}
