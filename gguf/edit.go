package gguf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/format"
)

// An Edit is a list of changes to a file, with the methods of every Edit: Rename, Remove
// and Replace, which also accepts quantised blocks. Names are the names in the Reader,
// and all changes apply at once, so that two names can be swapped. Data that is not
// replaced, and its order, stay as they are. The Reader must stay open until the file is
// written.
type Edit struct {
	format.Edit
	r        *Reader
	metadata []KeyValue
}

// NewEdit begins a list of changes to the file of r.
func NewEdit(r *Reader) *Edit {
	e := &Edit{Edit: format.NewEdit(errs, &r.Base, checkTensor), r: r}
	for k, v := range r.Metadata() {
		e.metadata = append(e.metadata, KeyValue{k, v})
	}
	return e
}

// SetAttribute changes a metadata value to the value of text in the type of the old value
// ([ParseValue]). If the key is new, it adds a string, or a uint32 for general.alignment.
// It fails with tensor.ErrDType if the type cannot hold the value.
func (e *Edit) SetAttribute(key, text string) error {
	typeName := TypeString.String()
	if i := e.index(key); i >= 0 {
		typeName = e.metadata[i].Value.TypeName()
	} else if key == alignmentKey {
		typeName = TypeUint32.String()
	}
	v, err := parseValue(typeName, text)
	if err != nil {
		return errs.Wrap(-1, keyField(key), err)
	}
	return e.SetValue(key, v)
}

// SetValue changes or adds a metadata value of any type. It fails as [KeyValue.Check]
// does.
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

// RemoveAttribute removes a metadata entry. It does not fail if there is none.
func (e *Edit) RemoveAttribute(key string) error {
	if i := e.index(key); i >= 0 {
		e.metadata = slices.Delete(e.metadata, i, i+1)
	}
	return nil
}

func (e *Edit) index(key string) int {
	return slices.IndexFunc(e.metadata, func(kv KeyValue) bool { return kv.Key == key })
}

// Write writes the changed file to w as version 3, without bytes that belong to no
// tensor. opts may be nil; its Metadata must be empty. Write fails with
// tensor.ErrDuplicate if two tensors have the same name.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	out := format.NewWriter(w, e.encoding(opts))
	return format.Apply(ctx, &e.Edit, &out, nil, e.carry)
}

// WriteFile writes the changed file as Write does, under a name. The file appears whole
// or not at all. It may replace the file that the Reader has open.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	out, err := format.Create(name, e.encoding(opts))
	if err != nil {
		return err
	}
	return format.Apply(ctx, &e.Edit, &out, nil, e.carry)
}

// encoding returns how Write and WriteFile write files.
func (e *Edit) encoding(opts *WriterOptions) *format.Encoding[info] {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	given := len(o.Metadata) > 0
	o.Metadata = e.metadata
	enc := o.encoding(e.carries)
	if given {
		enc.Err = errs.New(fs.ErrInvalid, "WriterOptions.Metadata of an Edit (SetValue)")
	}
	return enc
}

// carries reports whether the original file has the entry.
func (e *Edit) carries(kv KeyValue) bool {
	v, ok := e.r.Value(kv.Key)
	return ok && v.a.t == kv.Value.a.t && v.version == kv.Value.version &&
		bytes.Equal(v.a.raw, kv.Value.a.raw)
}

// carry returns the header entry of tensor i of the original, with its offset there. Data
// of an unknown type includes all bytes up to the next tensor.
func (e *Edit) carry(i int, name string) (info, error) {
	x, t := &e.r.extents[i], &e.r.tensors[i]
	data := t.Data
	if !t.Dense() {
		data = t.Parts[0].Data
	}
	return info{name: name, shape: t.Shape, kind: x.kind,
		offset: x.Offset() - e.r.dataAt, size: x.Size(), data: data}, nil
}

// WriteHeader overwrites the header of the file of that name, which the Reader has open.
// It fails with errors.ErrUnsupported if tensors were removed or replaced, if the file is
// big-endian, or if the new header would move the data. The Reader does not see the
// changes. If the write is interrupted, the file is damaged.
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
		err = e.checkSame(old)
	}
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close())
}

// checkSame fails if b is not the beginning of the file that the Reader has open.
func (e *Edit) checkSame(b []byte) error {
	read := make([]byte, len(b))
	if _, err := format.InputOf(&e.r.Base).ReadAt(read, 0); err != nil {
		return err
	}
	if string(read) != string(b) {
		return errs.New(errors.ErrUnsupported,
			"the file is not the one that is open, or has changed")
	}
	return nil
}

// headerInPlace returns the changed header and zeros up to the data. It fails if the data
// would move.
func (e *Edit) headerInPlace() ([]byte, error) {
	metadata, alignment, err := (&WriterOptions{Metadata: e.metadata}).metadata(e.carries)
	if err != nil {
		return nil, err
	}
	moved := func(why string) error {
		return errs.New(errors.ErrUnsupported, "the data cannot stay where it is: %s", why)
	}
	if alignment != e.r.h.alignment {
		return nil, moved("another alignment")
	}
	if e.r.h.big {
		return nil, moved("it is big-endian")
	}
	for i := range e.r.tensors {
		c, err := format.ChangeOf(&e.Edit, i, "")
		if err == nil && (c.Removed || c.Tensor != nil) {
			err = moved("a tensor is removed or replaced")
		}
		if err != nil {
			return nil, err
		}
	}
	var infos []info
	enc := e.encoding(nil)
	enc.Encode = func(_ *format.Output, all []info) error {
		infos = all
		return nil
	}
	w := format.NewWriter(io.Discard, enc)
	if err := format.Apply(context.Background(), &e.Edit, &w, nil, e.carry); err != nil {
		return nil, err
	}
	b, err := encodeHeader(metadata, infos)
	if err != nil {
		return nil, err
	}
	end := e.r.dataAt
	if len(infos) == 0 {
		end = e.r.Size()
	}
	if at, ok := align.Up(int64(len(b)), alignment); !ok || at != end && int64(len(b)) != end {
		return nil, moved(fmt.Sprintf("the header ends at %d, the data begins at %d", len(b), end))
	}
	return append(b, make([]byte, end-int64(len(b)))...), nil
}
