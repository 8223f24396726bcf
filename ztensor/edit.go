package ztensor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v1"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// An Edit is a list of changes to a file of version 1.0 or 2, with the methods of every
// Edit: Rename, Remove and Replace. Stored bytes, digests, attributes and unknown fields
// of the manifest that it does not change stay as they are. A tensor that is replaced
// keeps its attributes. Names are the names in the original, and all changes apply at
// once, so that two tensors can swap their names.
type Edit struct {
	format.Edit
	r          *Reader
	attributes map[string]*string // of the file; nil: removed
}

// NewEdit begins a list of changes to the file of r, which must stay open until they are
// written. For a version other than 1.0 and 2, writing fails with errors.ErrUnsupported.
func NewEdit(r *Reader) *Edit {
	trial := NewWriter(io.Discard, &WriterOptions{Version: r.Version()})
	return &Edit{format.NewEdit(core.Errs, &r.Base, func(t *tensor.Tensor) error {
		if layouts.HasAttributes(t.Scheme) { // Write checks it, with its attributes
			return nil
		}
		return cmp.Or(r.editable(), trial.Check(t))
	}), r, map[string]*string{}}
}

// editable reports why this package cannot write a new revision of the file.
func (r *Reader) editable() error {
	switch r.Version() {
	case Version10:
		return nil
	case Version2:
		return r.f.Generation.(*v2.Container).Editable()
	}
	return core.Errs.New(errors.ErrUnsupported, "version %s is only read: convert the file to 2 "+
		"or 1.0 (package convert, or tensorfile convert)", r.Version())
}

// SetAttribute sets an attribute of the file to a string.
func (e *Edit) SetAttribute(key, value string) error {
	e.attributes[key] = &value
	return nil
}

// RemoveAttribute removes an attribute of the file. It does not fail if there is none.
func (e *Edit) RemoveAttribute(key string) error {
	e.attributes[key] = nil
	return nil
}

// Write writes the changed file to w, which it neither seeks nor closes. opts may be nil;
// its Version must be the version of the file or "", its Attributes are added to the
// attributes of the file, and its other fields apply to tensors that are replaced. The
// result is not in canonical form. Write fails with tensor.ErrDuplicate if two tensors
// have the same name.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	return NewWriter(w, &o).Apply(ctx, &e.r.f, &e.Edit)
}

// WriteFile writes the changed file atomically, as [Create] does. name may be the name of
// the original. Data in shards stays there: WriteFile fails with errors.ErrUnsupported if
// name is in another directory and a tensor has data in a shard.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err == nil {
		err = e.CheckFile(name)
	}
	if err != nil {
		return err
	}
	w, err := Create(name, &o)
	if err != nil {
		return err
	}
	return w.Apply(ctx, &e.r.f, &e.Edit)
}

// CheckFile fails as WriteFile does, with errors.ErrUnsupported, if the version of the
// file cannot be written, or if a file of that name would not find the shards of its
// tensors. It writes nothing.
func (e *Edit) CheckFile(name string) error {
	if err := e.r.editable(); err != nil {
		return err
	}
	from, err := os.Stat(filepath.Dir(e.r.f.Path))
	if e.r.f.Path == "" || err != nil {
		return nil // not opened by name: ReaderOptions.Companion finds the shards
	}
	if to, err := os.Stat(filepath.Dir(name)); err != nil || os.SameFile(from, to) {
		return nil
	}
	for i, t := range e.r.f.Tensors {
		if c, err := format.ChangeOf(&e.Edit, i, t.Name); err != nil || c.Removed ||
			c.Tensor != nil {
			continue
		}
		for b := range format.Blobs(t) {
			if stored, _ := b.Stored(); stored.File != "" {
				return core.Errs.Tensor(t.Name, errors.ErrUnsupported,
					"its data is in %s, not next to %s", naming.Quote(stored.File),
					naming.Quote(name))
			}
		}
	}
	return nil
}

// options returns the options of the new file.
func (e *Edit) options(opts *WriterOptions) (WriterOptions, error) {
	o, err := e.r.newRevision(opts)
	if err != nil {
		return o, err
	}
	for k, v := range e.attributes {
		if v == nil {
			delete(o.Attributes, k)
		} else {
			o.Attributes[k] = *v
		}
	}
	return o, nil
}

// Append returns a Writer that adds tensors to the file of that name. opts.Version must
// be "" or the version of the file, opts.Attributes are added to the attributes of the
// file, and opts.Alignment 0 is the alignment of the file. It fails with
// errors.ErrUnsupported for versions 0.1, 1.1 and 1.2. The result is not in canonical
// form. There must be one writer of a file at a time.
//
// For version 1.0 the data is copied, and a new file replaces the old one when Close
// succeeds. For version 2 data is added after the end of the file. Readers that have the
// file open can go on; opening it fails from the first Add until Close succeeds. An error
// or Abort restores the file. After a crash [Recover] restores it.
func Append(name string, opts *WriterOptions) (*Writer, error) {
	r, err := Open(name, &ReaderOptions{NoMap: true})
	if err != nil {
		return nil, err
	}
	w, err := r.extend(name, opts)
	if err != nil {
		r.Close()
		return nil, err
	}
	return w, nil
}

func (r *Reader) extend(name string, opts *WriterOptions) (*Writer, error) {
	o, err := r.newRevision(opts)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return nil, err
	}
	if r.Version() == Version2 {
		w, err := v2.Continue(&r.f, name, o.settings())
		return &Writer{w, r}, err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return nil, err
	}
	w, err := v1.Continue(&r.f, f, o.settings())
	if err == nil {
		err = r.Close() // before the file is replaced: Windows requires it
	}
	return &Writer{generation: w}, err
}

// newRevision returns the options of a new revision of the file.
func (r *Reader) newRevision(opts *WriterOptions) (WriterOptions, error) {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	if err := r.editable(); err != nil {
		return o, err
	}
	if o.Version != "" && o.Version != r.Version() {
		return o, core.Errs.New(errors.ErrUnsupported,
			"a revision as version %s of a file of version %s", o.Version, r.Version())
	}
	all := map[string]any{}
	for k, v := range r.AttributeValues() {
		all[k] = v
	}
	maps.Copy(all, o.Attributes)
	o.Version, o.Canonical, o.Attributes = r.Version(), false, all
	if o.Version == Version10 {
		o.Generator = cmp.Or(o.Generator, r.Generator())
	} else if o.Alignment == 0 {
		o.Alignment = v2.AlignmentOf(&r.f)
	}
	return o, nil
}

// Recover undoes an append to a file of version 2 that was interrupted: it cuts off the
// bytes after the last complete revision, and returns how many bytes it cut. A file that
// can be opened stays as it is. Recover fails as [Open] does if there is no complete
// revision.
func Recover(name string) (cut int64, err error) {
	cut, err = Recoverable(name)
	if cut == 0 || err != nil {
		return 0, err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err == nil {
		err = f.Truncate(fi.Size() - cut)
	}
	if err == nil {
		err = f.Sync()
	}
	return cut, err
}

// Recoverable returns how many bytes Recover would cut off. It changes nothing, and fails
// as Recover does.
func Recoverable(name string) (cut int64, err error) {
	r, err := Open(name, nil)
	if err == nil {
		return 0, r.Close()
	}
	var broken *rule.Error
	if !errors.As(err, &broken) || broken.Rule != rule.FooterMagic {
		return 0, err
	}
	f, e := os.Open(name)
	if e != nil {
		return 0, e
	}
	defer f.Close()
	fi, e := f.Stat()
	if e != nil {
		return 0, e
	}
	size, e := v2.LastRevision(f, fi.Size())
	if e != nil {
		return 0, e
	}
	if size == 0 {
		return 0, err
	}
	return fi.Size() - size, nil
}
