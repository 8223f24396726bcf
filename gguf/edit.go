package gguf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to a file. Names are those that its tensors have in the
// Reader, whatever was changed before, and all changes apply at once, so that two names
// can be swapped. Remove drops the changes of a tensor before it, and a later change
// brings the tensor back. Types of metadata, data and its order stay as they are. The
// Reader must stay open until the file is written. An Edit is not safe for concurrent
// use.
type Edit struct {
	r        *Reader
	changes  map[string]*change
	metadata []KeyValue
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
	e := &Edit{r: r, changes: map[string]*change{}}
	for k, v := range r.Metadata() {
		e.metadata = append(e.metadata, KeyValue{k, v})
	}
	return e
}

func (e *Edit) change(name string) (*change, error) {
	if e.r.Tensor(name) == nil {
		return nil, fmt.Errorf("gguf: tensor %s: %w", naming.Quote(name), tensor.ErrNoTensor)
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

// Replace gives a tensor the dtype, shape and data of t, or its quantised blocks. The
// name of t is not used. Its memory must not change until the file is written:
// tensor.ErrChecksum.
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

// SetAttribute changes a metadata value to what text stands for in the type that it has
// ([ParseValue]), or adds a string. What the type does not hold is tensor.ErrDType.
func (e *Edit) SetAttribute(key, text string) error {
	typeName := TypeString.String()
	if i := e.index(key); i >= 0 {
		typeName = e.metadata[i].Value.TypeName()
	} else if key == alignmentKey {
		typeName = TypeUint32.String()
	}
	v, err := parseValue(typeName, text)
	if err != nil {
		return &tensor.FormatError{Format: "gguf", Offset: -1, Field: keyField(key), Err: err}
	}
	return e.SetValue(key, v)
}

// SetValue changes or adds a metadata value, of whatever type.
func (e *Edit) SetValue(key string, v Value) error {
	if err := (KeyValue{key, v}).Check(); err != nil {
		return err
	}
	if i := e.index(key); i >= 0 {
		e.metadata[i].Value = v
	} else {
		e.metadata = append(e.metadata, KeyValue{key, v})
	}
	return nil
}

// RemoveAttribute removes a metadata entry; one that is absent is no error.
func (e *Edit) RemoveAttribute(key string) error {
	if i := e.index(key); i >= 0 {
		e.metadata = slices.Delete(e.metadata, i, i+1)
	}
	return nil
}

func (e *Edit) index(key string) int {
	return slices.IndexFunc(e.metadata, func(kv KeyValue) bool { return kv.Key == key })
}

// Write writes the changed file to w, as version 3, with its data packed: what belongs
// to no tensor is left out. A name that another tensor has is tensor.ErrDuplicate. The
// Metadata of opts must be empty: entries are those of the file, with the changes.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	return e.write(ctx, NewWriter(w, o))
}

// carries reports whether the file has the entry.
func (e *Edit) carries(kv KeyValue) bool {
	v, ok := e.r.Value(kv.Key)
	return ok && v.a.t == kv.Value.a.t && v.version == kv.Value.version &&
		bytes.Equal(v.a.raw, kv.Value.a.raw)
}

// WriteFile writes the changed file to the file of that name, which appears whole or
// not at all, and may be the one that the Reader has open.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	o, err := e.options(opts)
	if err != nil {
		return err
	}
	w, err := Create(name, o)
	if err != nil {
		return err
	}
	return e.write(ctx, w)
}

func (e *Edit) options(opts *WriterOptions) (*WriterOptions, error) {
	o := &WriterOptions{Metadata: e.metadata}
	if opts != nil {
		o.Alignment = opts.Alignment
		if len(opts.Metadata) > 0 {
			return nil, fmt.Errorf("gguf: WriterOptions.Metadata of an Edit (SetValue): %w",
				errors.ErrUnsupported)
		}
	}
	return o, nil
}

func (e *Edit) write(ctx context.Context, w *Writer) error {
	defer w.Abort()
	w.carries = e.carries
	for i := range e.r.tensors {
		x, removed, err := e.info(i)
		if err == nil && !removed {
			err = w.add(x)
		}
		if err != nil {
			return err
		}
	}
	return w.close(ctx)
}

// info returns what becomes of tensor i, with the offset that it has in the file. Data
// of a type that the package does not know is kept up to the next tensor.
func (e *Edit) info(i int) (x info, removed bool, err error) {
	t := &e.r.tensors[i]
	c := e.changes[t.Name]
	if c == nil {
		c = new(change)
	}
	name := t.Name
	if c.name != nil {
		name = *c.name
	}
	switch {
	case c.removed:
		return info{}, true, nil
	case c.tensor != nil:
		if err := c.kept.Check(); err != nil {
			return x, false, fmt.Errorf("gguf: %w", err)
		}
		changed := *c.tensor
		changed.Name = name
		x, err = infoOf(&changed)
		return x, false, err
	case c.name != nil:
		if problem := checkName(name); problem != "" {
			return x, false, refuse(name, errors.ErrUnsupported, "%s", problem)
		}
	}
	s := &e.r.extents[i]
	return info{name: name, shape: t.Shape, kind: s.kind, offset: s.Offset() - e.r.dataAt,
		size: s.Size(), data: tensor.NewBlob(s)}, false, nil
}

// WriteHeader makes the changes in the file of that name, which the Reader has open, by
// writing over its header alone. It is errors.ErrUnsupported where the data would have
// to move, which is where the changed header does not end in the same step of the
// alignment, and for tensors that were removed or replaced. The Reader keeps what it
// had; the file is damaged if the write is interrupted.
func (e *Edit) WriteHeader(name string) error {
	b, err := e.headerInPlace()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	old := make([]byte, len(b))
	if _, err = f.ReadAt(old, 0); err == nil {
		err = e.sameHeader(old)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close())
}

// sameHeader reports a file that is not the one that the Reader has open.
func (e *Edit) sameHeader(b []byte) error {
	read := make([]byte, len(b))
	if _, err := e.r.src.ReadAt(read, 0); err != nil {
		return err
	}
	if string(read) != string(b) {
		return fmt.Errorf("gguf: the file is not the one that is open, or has changed: %w",
			errors.ErrUnsupported)
	}
	return nil
}

// headerInPlace returns the changed header and zeros up to the data, which stays.
func (e *Edit) headerInPlace() ([]byte, error) {
	metadata, alignment, err := (&WriterOptions{Metadata: e.metadata}).metadata(e.carries)
	if err != nil {
		return nil, err
	}
	moved := func(why string) error {
		return fmt.Errorf("gguf: the data cannot stay where it is: %s: %w", why,
			errors.ErrUnsupported)
	}
	if alignment != e.r.h.alignment {
		return nil, moved("another alignment")
	}
	names := map[string]struct{}{}
	infos := make([]info, 0, len(e.r.tensors))
	for i := range e.r.tensors {
		x, removed, err := e.info(i)
		if err != nil {
			return nil, err
		}
		if c := e.changes[e.r.tensors[i].Name]; removed || c != nil && c.tensor != nil {
			return nil, moved("a tensor is removed or replaced")
		}
		if _, dup := names[x.name]; dup {
			return nil, refuse(x.name, tensor.ErrDuplicate, "a second tensor of that name")
		}
		names[x.name] = struct{}{}
		infos = append(infos, x)
	}
	b, err := encodeHeader(metadata, infos)
	if err != nil {
		return nil, err
	}
	end := e.r.dataAt
	if len(infos) == 0 {
		end = e.r.src.Size()
	}
	if at, ok := align.Up(int64(len(b)), alignment); !ok || at != end && int64(len(b)) != end {
		return nil, moved(fmt.Sprintf("the header ends at %d, the data begins at %d", len(b), end))
	}
	return append(b, make([]byte, end-int64(len(b)))...), nil
}
