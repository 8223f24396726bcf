package npz

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to an archive. Names are those that its arrays have in
// the Reader, whatever was changed before, and all changes apply at once, so that two
// names can be swapped. Remove drops the changes of a member before it, and a later
// change brings the member back. Members that are not replaced are copied as they are
// stored, also those that are not arrays or hold no numbers. The Reader must stay open
// until the archive is written. An Edit is not safe for concurrent use.
type Edit struct {
	r       *Reader
	changes map[int]*change // by file.index
	blobs   *naming.Table   // nil until needed
}

type change struct {
	removed bool
	renamed bool
	name    string
	tensor  *tensor.Tensor   // nil for its own
	kept    format.Checksums // of tensor
}

// NewEdit begins a list of changes to the archive of r.
func NewEdit(r *Reader) *Edit { return &Edit{r: r, changes: map[int]*change{}} }

// change returns the change of the array of that name, to be filled in.
func (e *Edit) change(name string) (*change, error) {
	i := e.r.index(name)
	if i < 0 {
		return nil, fmt.Errorf("npz: tensor %s: %w", naming.Quote(name), tensor.ErrNoTensor)
	}
	return e.at(i), nil
}

// blob returns the change of the blob of that name, to be filled in.
func (e *Edit) blob(name string) (*change, error) {
	if i := e.blobIndex(name); i >= 0 {
		return e.at(-1 - i), nil
	}
	return nil, fmt.Errorf("npz: blob %s: %w", naming.Quote(name), tensor.ErrNoTensor)
}

func (e *Edit) blobIndex(name string) int {
	if e.blobs == nil {
		e.blobs, _ = naming.Build(len(e.r.blobs), func(i int) string { return e.r.blobs[i].name })
	}
	return e.blobs.Lookup(name)
}

// hasMember reports whether the archive has a member of that name.
func (e *Edit) hasMember(name string) bool {
	if array, ok := strings.CutSuffix(name, numpy.Suffix); ok {
		return e.r.index(array) >= 0
	}
	return e.blobIndex(name) >= 0
}

func (e *Edit) at(index int) *change {
	if e.changes[index] == nil {
		e.changes[index] = new(change)
	}
	return e.changes[index]
}

// Rename gives an array another name.
func (e *Edit) Rename(old, new string) error {
	c, err := e.change(old)
	if err == nil {
		c.removed, c.renamed, c.name = false, true, new
	}
	return err
}

// Remove removes an array.
func (e *Edit) Remove(name string) error {
	c, err := e.change(name)
	if err == nil {
		*c = change{removed: true}
	}
	return err
}

// RenameBlob gives a member that is not an array another name, which does not end in
// .npy.
func (e *Edit) RenameBlob(old, new string) error {
	c, err := e.blob(old)
	if err == nil && strings.HasSuffix(new, numpy.Suffix) {
		err = fmt.Errorf("npz: blob %s: %s is the name of an array: %w", naming.Quote(old),
			naming.Quote(new), errors.ErrUnsupported)
	}
	if err == nil {
		c.removed, c.renamed, c.name = false, true, new
	}
	return err
}

// RemoveBlob removes a member that is not an array.
func (e *Edit) RemoveBlob(name string) error {
	c, err := e.blob(name)
	if err == nil {
		*c = change{removed: true}
	}
	return err
}

// Replace gives an array the dtype, shape and data of t, whose name is not used. The
// memory of t must not change until the archive is written: tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	c, err := e.change(name)
	if err == nil {
		err = numpy.Check(t)
	}
	if err == nil {
		c.removed, c.tensor, c.kept = false, t, format.ChecksumsOf(name, t)
	}
	return err
}

// SetAttribute returns errors.ErrUnsupported: archives have no attributes.
func (e *Edit) SetAttribute(key, value string) error { return errNoAttributes }

// RemoveAttribute returns errors.ErrUnsupported: archives have no attributes.
func (e *Edit) RemoveAttribute(key string) error { return errNoAttributes }

var errNoAttributes = fmt.Errorf("npz: archives have no attributes: %w", errors.ErrUnsupported)

// Write writes the changed archive to w. opts are for the arrays that are replaced,
// which are compressed as well where the ones before them were. A name that another
// array has is tensor.ErrDuplicate.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return e.write(ctx, NewWriter(w, opts))
}

// WriteFile writes the changed archive to the named file, which appears whole or
// not at all.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	w, err := Create(name, opts)
	if err != nil {
		return err
	}
	defer w.Abort()
	return e.write(ctx, w)
}

func (e *Edit) write(ctx context.Context, w *Writer) error {
	w.original = e.hasMember
	for _, f := range e.r.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.file(ctx, w, f); err != nil {
			return err
		}
	}
	return w.Close()
}

// file writes one member with its changes.
func (e *Edit) file(ctx context.Context, w *Writer, f file) error {
	var c change
	if e.changes[f.index] != nil {
		c = *e.changes[f.index]
	}
	if !c.renamed {
		c.name = f.name
	}
	switch {
	case c.removed:
		return nil
	case c.tensor == nil:
		return w.copyMember(ctx, c.name, f)
	}
	if err := c.kept.Check(); err != nil {
		return fmt.Errorf("npz: %w", err)
	}
	t := *c.tensor
	t.Name = c.name
	compress := w.opts.Compress
	w.opts.Compress = compress || f.zip.Method != zip.Store
	err := w.Add(&t)
	w.opts.Compress = compress
	return err
}

// copyMember copies an array or blob as it is stored, under that name.
func (w *Writer) copyMember(ctx context.Context, name string, member file) error {
	if member.index >= 0 {
		name += numpy.Suffix
	}
	if err := w.checkName(name); err != nil {
		return err
	}
	f := member.zip
	in, err := f.OpenRaw()
	if err != nil {
		return err
	}
	w.names[name] = struct{}{}
	const utf8Name = 1 << 11
	h := &zip.FileHeader{
		Name: name, Method: f.Method, Flags: utf8Name, CRC32: f.CRC32,
		CompressedSize64: f.CompressedSize64, UncompressedSize64: f.UncompressedSize64,
		ModifiedTime: f.ModifiedTime, ModifiedDate: f.ModifiedDate,
		Comment: f.Comment, CreatorVersion: f.CreatorVersion, ExternalAttrs: f.ExternalAttrs,
	}
	if f.Method == zip.Store {
		if err := w.alignMember(h); err != nil {
			return err
		}
	}
	m, err := w.z.CreateRaw(h)
	if err == nil {
		_, err = io.Copy(m, &contextReader{ctx, in})
	}
	w.tail = 0 // the sizes precede the data
	w.err = err
	return err
}

// A contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
