package ptn

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sort"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// WriterOptions control how an Edit is written. nil is the zero value.
type WriterOptions struct {
	// Progress, if not nil, is called now and then with the bytes written and in all.
	Progress func(done, total int64)
}

// An Edit is a list of changes to the weights of a package, and to the names by which the
// package and its program know them. Names are the names in the Reader, and all changes
// apply at once. Aliases of a tensor that is replaced keep its old values, which are then
// stored under one of their names. The Reader must stay open until the file is written.
// An Edit is not safe for concurrent use.
type Edit struct {
	format.Edit
	r          *Reader
	references []reference
	fqns       map[string]bool // of buffers without stored values
}

// A reference is a place in the program where the name of a tensor is.
type reference struct {
	pos  int // of the offset that leads to the text, in the FlatBuffer
	name string
}

// NewEdit begins a list of changes to the file of r.
func NewEdit(r *Reader) *Edit {
	e := &Edit{r: r, fqns: map[string]bool{}}
	e.Edit = format.NewEdit(errs, &r.Base, func(*tensor.Tensor) error { return nil })
	for m := range r.Methods() {
		for _, fqn := range m.MutableBuffers() {
			e.fqns[fqn] = true
		}
	}
	tables := ptnfb.Schema.Tables
	buf := r.root.Table().Bytes
	fb.EachTable(buf, &ptnfb.Schema, ptnfb.TableProgram, func(v *fb.Visit) bool {
		add := func(slots ...int) {
			for _, slot := range slots {
				name, ok := fb.FieldBytes(v.Table, slot, 1)
				if ok && format.Index(&r.Base, le.String(name)) >= 0 {
					e.references = append(e.references,
						reference{fb.FieldPos(v.Table, slot), le.String(name)})
				}
			}
		}
		switch v.Type {
		case &tables[ptnfb.TableNamedTensorRef]:
			add(ptnfb.SlotNamedTensorRefDataKey)
		case &tables[ptnfb.TableAffineGroup]:
			add(ptnfb.SlotAffineGroupScaleDataKey, ptnfb.SlotAffineGroupZeroPointDataKey)
		case &tables[ptnfb.TableOutputSpec]:
			o := as[ptnfb.OutputSpec](v.Table)
			if o.Kind() == ptnfb.OutputKindBUFFER_MUTATION && !e.fqns[le.String(o.Target())] {
				add(ptnfb.SlotOutputSpecTarget)
			}
		}
		return true
	})
	return e
}

// Remove leaves a tensor out. It fails with errors.ErrUnsupported if the program refers
// to the tensor.
func (e *Edit) Remove(name string) error {
	for _, ref := range e.references {
		if ref.name == name {
			return errs.Tensor(name, errors.ErrUnsupported, "the program needs it")
		}
	}
	return e.Edit.Remove(name)
}

// Replace stores the data of t in place of a tensor, which keeps its name. It fails with
// errors.ErrUnsupported if t has another dtype or shape, and for a .ptg, which has no
// data. Memory of t must not change until the file is written; else Write fails with
// tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	if was := e.r.Tensor(name); was != nil && t != nil && (was.External ||
		t.DType != was.DType || !t.Shape.Equal(was.Shape) || !t.Order.RowMajor()) {
		return errs.Tensor(name, errors.ErrUnsupported,
			"only row-major data of %v %v can replace it, in a package", was.DType, was.Shape)
	}
	return e.Edit.Replace(name, t)
}

// SetAttribute returns errors.ErrUnsupported: packages have no attributes.
func (e *Edit) SetAttribute(key, value string) error {
	return errs.New(errors.ErrUnsupported, "packages have no attributes")
}

// RemoveAttribute returns errors.ErrUnsupported, unless there is no such attribute.
func (e *Edit) RemoveAttribute(key string) error {
	for _, kv := range e.r.metadata {
		if kv[0] == key {
			return e.SetAttribute(key, "")
		}
	}
	return nil
}

// Write writes the changed file to w. It fails with tensor.ErrDuplicate if a tensor has
// the name of another one, or of a buffer of the program.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	fw := format.NewWriter(w, e.encoding(opts))
	return format.Apply(ctx, &e.Edit, &fw, nil, e.carry)
}

// WriteFile writes the changed file to the file of that name, which appears whole or not
// at all. It may be the file that the Reader has open.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	fw, err := format.Create(name, e.encoding(opts))
	if err != nil {
		return err
	}
	return format.Apply(ctx, &e.Edit, &fw, nil, e.carry)
}

// An item is a name with its tensor. Items of one owner, an index of Reader.owners, share
// their bytes; -1 is a tensor that is new.
type item struct {
	name  string
	t     *tensor.Tensor
	owner int
}

func (e *Edit) carry(i int, name string) (item, error) {
	t, owner := &e.r.tensors()[i], i
	if n := len(e.r.owners); i >= n {
		owner = e.r.aliases[i-n].owner
	}
	return item{name: name, t: t, owner: owner}, nil
}

func (e *Edit) encoding(opts *WriterOptions) *format.Encoding[item] {
	enc := &format.Encoding[item]{Format: errs, Check: e.check, Encode: e.encode,
		Item: func(t *tensor.Tensor) (item, error) { return item{t: t, owner: -1}, nil }}
	if opts != nil {
		enc.Progress = opts.Progress
	}
	return enc
}

// check refuses names that a package cannot have, unless the original has them.
func (e *Edit) check(name string, it *item) error {
	it.name = name
	switch {
	case format.Index(&e.r.Base, name) >= 0:
		return nil
	case name == "" || name == jsonheader.MetadataKey || !utf8.ValidString(name):
		return errs.Tensor(name, errors.ErrUnsupported, "a package cannot have the name")
	case int64(len(name)) > format.DefaultLimits().MaxName:
		return errs.Tensor(name, tensor.ErrLimit, "a name of %d bytes", len(name))
	case e.fqns[name]:
		return errs.Tensor(name, tensor.ErrDuplicate, "a buffer of the program has the name")
	}
	return nil
}

func (e *Edit) encode(out *format.Output, items []item) error {
	program, err := e.program()
	if err != nil {
		return err
	}
	if e.r.archive == nil {
		_, err := format.Begin(out, int64(len(program))).Write(program)
		return err
	}
	// The first name of each owner in the order of names has the bytes.
	sort.Slice(items, func(i, j int) bool { return items[i].name < items[j].name })
	var stored []*tensor.Tensor
	var aliases []byte
	first := map[int]string{}
	for _, it := range items {
		if name, ok := first[it.owner]; ok && it.owner >= 0 {
			aliases = append(aliases, ",\n  "...)
			aliases = jsonheader.AppendString(aliases, it.name)
			aliases = jsonheader.AppendString(append(aliases, ": "...), name)
			continue
		}
		first[it.owner] = it.name
		t := *it.t
		t.Name = it.name
		stored = append(stored, &t)
	}
	header, size, err := jsonheader.Make(string(errs), e.r.metadata, stored)
	if err != nil {
		return err
	}
	z := zip.NewWriter(format.Begin(out, int64(len(program)+len(aliases))+size))
	add := func(name string, parts ...tensor.Blob) {
		var w io.Writer
		if err == nil {
			w, err = z.CreateHeader(&zip.FileHeader{Name: name})
		}
		for _, p := range parts {
			if err == nil {
				_, err = format.CopyBlob(w, p, p.Size())
			}
		}
	}
	add(programMember, tensor.BlobOf(program))
	if len(stored) > 0 {
		parts := []tensor.Blob{tensor.BlobOf(header)}
		for _, t := range stored {
			parts = append(parts, t.Data)
		}
		add(weightsMember, parts...)
	}
	if len(aliases) > 0 {
		add(aliasesMember, tensor.BlobOf(append(append([]byte{'{'}, aliases[1:]...), "\n}"...)))
	}
	for i := range e.r.archive.Members {
		if m := &e.r.archive.Members[i]; !isMember(m.File.Name) {
			add(m.File.Name, m.Blob(0, ""))
		}
	}
	if err == nil {
		err = z.Close()
	}
	return err
}

// program returns the program with the new names. They follow the old FlatBuffer, whose
// offsets to the old ones lead to them: nothing else of it changes, known or not.
func (e *Edit) program() ([]byte, error) {
	buf := bytes.Clone(e.r.root.Table().Bytes)
	at := map[string]int{}
	for _, ref := range e.references {
		c, err := format.ChangeOf(&e.Edit, format.Index(&e.r.Base, ref.name), ref.name)
		if err != nil {
			return nil, err
		}
		if c.Name == ref.name {
			continue
		}
		pos, ok := at[c.Name]
		if !ok {
			buf = append(buf, make([]byte, -len(buf)&3)...)
			pos, at[c.Name] = len(buf), len(buf)
			buf = binary.LittleEndian.AppendUint32(buf, uint32(len(c.Name)))
			buf = append(append(buf, c.Name...), 0)
		}
		if len(buf) > math.MaxInt32 {
			return nil, errs.New(tensor.ErrLimit, "a program of more than 2 GiB")
		}
		binary.LittleEndian.PutUint32(buf[ref.pos:], uint32(pos-ref.pos))
	}
	err := fb.Verify(buf, &ptnfb.Schema, ptnfb.TableProgram, fb.Limits{UTF8: true})
	if err != nil {
		err = executorch.Unverified(string(errs), err, 0)
	}
	return buf, err
}
