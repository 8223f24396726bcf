package primitiv

import (
	"bytes"
	"io"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// An encoder makes a file. All items gather in a buffer, which does not fail, so that
// errors of the msgpack.Encoder are ignored; payloads are read when the file is written.
type encoder struct {
	*msgpack.Encoder
	items    bytes.Buffer
	payloads []payload
}

// A payload is the data of a tensor, and how many bytes of items are before it.
type payload struct {
	format.Section
	after int
}

// encode writes a file of these items.
func (o *WriterOptions) encode(out *format.Output, items []item) error {
	e := new(encoder)
	e.Encoder = msgpack.NewEncoder(&e.items)
	e.EncodeUint32(0)
	e.EncodeUint32(1)
	e.EncodeUint32(o.Kind.dataType())
	if len(items) == 0 && o.Kind != KindModel {
		return errs.New(tensor.ErrNoTensor, "there is no %v to write", o.Kind)
	}
	var err error
	switch o.Kind {
	case KindShape:
		e.shape(items[0].shape)
	case KindTensor:
		err = e.tensor(items[0].t.Name, items[0].t, items[0].Batch)
	case KindParameter, KindModel:
		err = e.parameters(o, items)
	case KindOptimizer:
		writeSettings(e, items[0].optimizer.Uints, e.EncodeUint32)
		writeSettings(e, items[0].optimizer.Floats, e.EncodeFloat32)
	}
	if err != nil {
		return err
	}
	return e.write(out)
}

// write writes items and payloads in turn.
func (e *encoder) write(out *format.Output) error {
	var all []format.Section
	var from int
	var size int64
	add := func(s format.Section) {
		s.Off = size
		size += s.Size
		all = append(all, s)
	}
	items := e.items.Bytes()
	for _, p := range append(e.payloads, payload{after: len(items)}) {
		head := tensor.BlobOf(items[from:p.after])
		add(format.Section{Name: "items", Size: head.Size(), Data: head})
		add(p.Section)
		from = p.after
	}
	return format.WriteSections(out, nil, all, size)
}

func (e *encoder) shape(s Shape) {
	dims := s.stripped()
	e.EncodeArrayLen(len(dims))
	for _, d := range dims {
		e.EncodeUint32(d)
	}
	e.EncodeUint32(max(s.Batch, 1))
}

func (e *encoder) tensor(name string, t *tensor.Tensor, batch uint32) error {
	s, err := shapeOf(t.Shape, batch)
	if err != nil {
		return errs.Wrap(-1, format.Field(name), err)
	}
	e.shape(s)
	data, size := t.Data, t.Data.Size()
	e.EncodeBytesLen(int(size))
	if !columnMajor(t) {
		data = tensor.BlobFunc(size, func() (io.ReadCloser, error) {
			t, err := tensor.Reordered(t, tensor.ColumnMajor(len(t.Shape)))
			if err != nil {
				return nil, err
			}
			return t.Data.Open()
		})
	}
	e.payloads = append(e.payloads, payload{
		format.Section{Name: name, Size: size, Data: data}, e.items.Len()})
	return nil
}

func (e *encoder) parameter(p *Parameter) error {
	if err := e.tensor(p.Name(), p.Value, 1); err != nil {
		return err
	}
	e.EncodeUint32(uint32(len(p.Stats)))
	for _, s := range p.Stats {
		e.EncodeString(s.Name)
		if err := e.tensor(p.Name()+":"+s.Name, s.Tensor, s.Batch); err != nil {
			return err
		}
	}
	return nil
}

// parameters writes one parameter, or the parameters of a model in the order of their
// paths.
func (e *encoder) parameters(o *WriterOptions, items []item) error {
	all, err := o.parameters(items)
	switch n := len(all); {
	case err != nil:
		return err
	case o.Kind == KindParameter && n > 1:
		return errs.New(tensor.ErrDuplicate, "a parameter file has one parameter, not %d", n)
	case o.Kind == KindParameter:
		return e.parameter(all[0])
	case int64(n) > math.MaxUint32:
		return errs.New(tensor.ErrLimit, "%d parameters", n)
	}
	slices.SortFunc(all, func(a, b *Parameter) int { return comparePath(a.Path, b.Path) })
	e.EncodeUint32(uint32(len(all)))
	for i, p := range all {
		if i > 0 { // the paths below one follow it directly
			if err := clash(all[i-1].Path, p.Path); err != nil {
				return err
			}
		}
		e.EncodeArrayLen(len(p.Path))
		for _, name := range p.Path {
			e.EncodeString(name)
		}
		if err := e.parameter(p); err != nil {
			return err
		}
	}
	return nil
}

// writeSettings writes one of the two maps of an optimizer.
func writeSettings[T uint32 | float32](e *encoder, list []Setting[T], value func(T) error) {
	e.EncodeMapLen(len(list))
	for _, s := range list {
		e.EncodeString(s.Name)
		value(s.Value)
	}
}
