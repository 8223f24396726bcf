package ztensor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// An Edit is a new edition of a file of version 1.0 or 2. Stored bytes,
// digests and attributes that it does not change stay as they are, and so does
// what this library does not know of the manifest. Names are those of the
// original, and all changes apply at once, when it is written: two tensors can
// swap their names. Remove drops the changes of a tensor before it, and a later change
// brings the tensor back. An Edit is for one goroutine at a time.
type Edit struct {
	r          *Reader
	changes    map[string]tensorChange
	order      []string           // of the tensors that are replaced
	attributes map[string]*string // nil for those that are left out
}

// A tensorChange is what becomes of a tensor of the original.
type tensorChange struct {
	removed bool
	renamed bool
	name    string           // if renamed
	tensor  *tensor.Tensor   // that replaces it
	kept    format.Checksums // of tensor
}

// NewEdit begins an edition of the file of r, which must stay open until it is written.
func NewEdit(r *Reader) *Edit {
	return &Edit{r: r, changes: map[string]tensorChange{}, attributes: map[string]*string{}}
}

func (e *Edit) update(name string, f func(c *tensorChange)) error {
	if e.r.Tensor(name) == nil {
		return fmt.Errorf("ztensor: %w: %s", tensor.ErrNoTensor, naming.Quote(name))
	}
	c := e.changes[name]
	f(&c)
	e.changes[name] = c
	return nil
}

// Rename gives a tensor another name. It fails with tensor.ErrNoTensor where the original
// has no such tensor. Write refuses a new name as [Writer.Add] does:
// errors.ErrUnsupported, or tensor.ErrDuplicate if it is taken.
func (e *Edit) Rename(old, new string) error {
	return e.update(old, func(c *tensorChange) { c.removed, c.renamed, c.name = false, true, new })
}

// Remove leaves a tensor out.
func (e *Edit) Remove(name string) error {
	return e.update(name, func(c *tensorChange) {
		if c.tensor != nil {
			e.order = slices.DeleteFunc(e.order, func(s string) bool { return s == name })
		}
		*c = tensorChange{removed: true}
	})
}

// Replace stores t, whose Name does not matter, in place of a tensor, which keeps
// its attributes. Its Data must stay readable until Write, and its memory unchanged:
// tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	return e.update(name, func(c *tensorChange) {
		if c.tensor == nil {
			e.order = append(e.order, name)
		}
		c.removed, c.tensor, c.kept = false, t, format.ChecksumsOf(name, t)
	})
}

// SetAttribute sets an attribute of the file to a text.
func (e *Edit) SetAttribute(key, value string) error {
	e.attributes[key] = &value
	return nil
}

// RemoveAttribute leaves out an attribute of the file; one that is absent is no error.
func (e *Edit) RemoveAttribute(key string) error {
	e.attributes[key] = nil
	return nil
}

// Write writes the edition to w, which it neither seeks nor closes. opts may be nil; its
// Version must be that of the file or "", its Attributes are set in addition, and the
// others are for tensors that are replaced. The result is not in canonical form.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	return e.write(ctx, NewWriter(w, &o).w, opts)
}

// WriteFile writes the edition as a file, atomically as [Create] does. name may be
// that of the original. Data in shards stays there, and shards are next to their root:
// in another directory an edition that needs them is an error, errors.ErrUnsupported.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if err := e.CheckFile(name); err != nil {
		return err
	}
	f, err := atomicfile.Create(name)
	if err != nil {
		return err
	}
	return e.write(ctx, fileWriter(f, &o).w, opts)
}

// CheckFile reports why WriteFile refuses to write the edition as a file of that name:
// it would not find the shards of its tensors.
func (e *Edit) CheckFile(name string) error {
	from, err := os.Stat(filepath.Dir(e.r.f.Path))
	if e.r.f.Path == "" || err != nil {
		return nil // not a file of a directory: the caller finds the shards
	}
	if to, err := os.Stat(filepath.Dir(name)); err != nil || os.SameFile(from, to) {
		return nil
	}
	for t := range e.r.Tensors() {
		if c := e.changes[t.Name]; c.removed || c.tensor != nil {
			continue
		}
		for b := range format.Blobs(t) {
			if stored, _ := b.Stored(); stored.File != "" {
				return core.OfTensor(t.Name, core.Unsupported("its data is in %s, not next to %s",
					naming.Quote(stored.File), naming.Quote(name)))
			}
		}
	}
	return nil
}

// options returns those of the new file.
func (e *Edit) options(opts *WriterOptions) (WriterOptions, error) {
	o, err := e.r.newEdition(opts)
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

// write fills and closes w.
func (e *Edit) write(ctx context.Context, w *core.Writer, opts *WriterOptions) error {
	defer w.Abort()
	if err := w.Usable(); err != nil {
		return err
	}
	names, err := e.names(w)
	if err != nil {
		return err
	}
	if err := w.Layout.Carry(ctx, w, &e.r.f, names); err != nil {
		return err
	}
	for _, name := range e.order {
		c := e.changes[name]
		if c.tensor == nil {
			continue
		}
		if err := c.kept.Check(); err != nil {
			return fmt.Errorf("ztensor: %w", err)
		}
		t := *c.tensor
		t.Name = e.newName(name)
		if own := e.r.f.Own[e.r.Tensor(name)]; own != nil {
			w.Own[t.Name] = own
		}
		if opts == nil || opts.Digest == NoDigest {
			w.Digest = e.r.f.DigestOf(name)
		}
		if err := w.AddAll(ctx, tensor.Of(&t)); err != nil {
			return err
		}
	}
	return w.Close()
}

// newName returns the name that a tensor of the original has in the edition.
func (e *Edit) newName(name string) string {
	if c := e.changes[name]; c.renamed {
		return c.name
	}
	return name
}

// names checks the new names, and returns those of the tensors that are kept as they are.
func (e *Edit) names(w *core.Writer) (map[string]string, error) {
	kept, taken := map[string]string{}, map[string]bool{}
	for t := range e.r.Tensors() {
		c := e.changes[t.Name]
		if c.removed {
			continue
		}
		as := e.newName(t.Name)
		if taken[as] {
			return nil, fmt.Errorf("ztensor: %w: %s", tensor.ErrDuplicate, naming.Quote(as))
		}
		taken[as] = true
		if as != t.Name { // an old name stays whatever it is: the original was opened with it
			if err := w.CheckName(as); err != nil {
				return nil, err
			}
		}
		if c.tensor == nil {
			kept[t.Name] = as
		}
	}
	return kept, nil
}

// Append begins a new edition of the file of that name, with its tensors and attributes
// and those that are added. opts.Version must be that of the file or "",
// opts.Attributes are set in addition. 0.1 is errors.ErrUnsupported.
//
// Of version 1 the data is copied, and the new edition replaces the file when Close
// succeeds. To a file of version 2 data is added after its end, so that who has it open
// can go on reading. From the first Add until Close succeeds it cannot be opened; after
// an error, or Abort, it is what it was, and after a crash [Recover] makes it so. There
// must be one writer at a time. The result is never canonical. opts.Alignment is that
// of the file unless it is given.
func Append(name string, opts *WriterOptions) (*Writer, error) {
	r, err := Open(name, &ReaderOptions{NoMap: true})
	if err != nil {
		return nil, err
	}
	o, err := r.newEdition(opts)
	if err == nil {
		err = o.Check()
	}
	var w *core.Writer
	if err == nil {
		w, err = r.f.Generation.Extend(name, core.Settings(o))
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return &Writer{w}, nil
}

// newEdition returns the options of a new edition of the file.
func (r *Reader) newEdition(opts *WriterOptions) (WriterOptions, error) {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	if o.Version != "" && o.Version != r.Version() {
		return o, fmt.Errorf("ztensor: %w: an edition as version %s of a file of version %s",
			errors.ErrUnsupported, o.Version, r.Version())
	}
	all := map[string]any{}
	for k, v := range r.AttributeValues() {
		all[k] = v
	}
	maps.Copy(all, o.Attributes)
	o.Version, o.Canonical, o.Attributes = r.Version(), false, all
	set := core.Settings(o)
	err := r.f.Generation.Edition(&set)
	return WriterOptions(set), err
}

// Recover undoes an append to a file of version 2 that was interrupted: it cuts off what
// follows the last edition that is complete, and returns how many bytes that was. A file
// that can be opened stays as it is. It is an error if there is no complete edition.
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

// Recoverable returns how many bytes Recover would cut off, and changes nothing.
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
	size, e := v2.LastEdition(f, fi.Size())
	if e != nil {
		return 0, e
	}
	if size == 0 {
		return 0, err
	}
	return fi.Size() - size, nil
}
