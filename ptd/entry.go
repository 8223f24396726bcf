package ptd

import (
	"encoding/binary"
	"reflect"
	"strings"
	"unicode/utf8"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// runtimeRank is ExecuTorch's kTensorDimensionLimit.
const runtimeRank = 16

// An entry is a name and what it stands for.
type entry struct {
	tensor.Tensor // of a blob Name and Data alone
	segment       uint32
	isTensor      bool
}

// A payload is the bytes of a tensor.
type payload struct {
	source.Extent
	scalar ScalarType
}

// Stored returns where the data is, and its type in the file's word where it has no
// other.
func (l *payload) Stored() (tensor.Stored, bool) {
	s := tensor.Stored{Offset: l.Offset(), Size: l.Size(), Encoding: "raw"}
	if l.scalar.DType() == tensor.Unknown {
		s.Type = l.scalar.String()
	}
	return s, true
}

// A row is an entry in the tables of a file: where its fields are, for errors.
type row struct {
	vector               string
	index                int
	table                flatbuffers.Table
	key, segment         int    // slots
	keyName              string // of the field
	layout               flatbuffers.Table
	layoutName           string // of the field; "" if the layout is in the table itself
	scalar, sizes, order int    // slots of the layout
}

// field returns the path of a field of the entry.
func (x *row) field(name string) string { return element(x.vector, x.index) + name }

// named checks the name and the segment of entry i, and returns the segment. A duplicate
// name is an error: ExecuTorch's readers disagree about which of the two it means.
func (p *parser) named(i int, x *row, key []byte, segment uint32) (*source.Extent, error) {
	r, e := p.r, &p.r.entries[i]
	fail := func(class error, text string, args ...any) (*source.Extent, error) {
		return nil, errs.At(p.at(x.table, x.key), x.field(x.keyName), class, text, args...)
	}
	p.names += int64(len(key))
	switch {
	case key == nil:
		return fail(tensor.ErrMalformed, "absent")
	case int64(len(key)) > p.limits.MaxName:
		return fail(tensor.ErrLimit, "a name of %d bytes, the limit is %d", len(key),
			p.limits.MaxName)
	case p.names > r.header.flatbufferSize:
		return fail(tensor.ErrLimit,
			"the names share their bytes: together they are longer than the metadata")
	}
	e.Name = le.String(key)
	if strings.IndexByte(e.Name, 0) >= 0 || !utf8.ValidString(e.Name) {
		return fail(tensor.ErrMalformed, "the name %s has a NUL or is not UTF-8",
			naming.Quote(e.Name))
	}
	if !r.table.Add(i) {
		first := row{vector: "tensors", index: r.table.Lookup(e.Name)} // of 0.6, unless
		name := ".fully_qualified_name"
		if start := i - x.index; first.index >= start {
			first, name = row{vector: x.vector, index: first.index - start}, x.keyName
		}
		return fail(tensor.ErrMalformed, "duplicate name %s, first in %s", naming.Quote(e.Name),
			first.field(name))
	}
	if n := len(r.segments); uint64(segment) >= uint64(n) {
		return nil, errs.Malformed(p.at(x.table, x.segment), x.field(".segment_index"),
			"%d, there are %d segments", segment, n)
	}
	e.segment = segment
	return &r.segments[segment], nil
}

// tensor makes entry i a tensor, whose data begins at an offset of its segment.
func (p *parser) tensor(i int, x *row, scalar ScalarType, segment *source.Extent,
	offset int64) error {
	sizes, hasSizes := fb.FieldBytes(x.layout, x.sizes, 4)
	dims, hasDims := fb.FieldBytes(x.layout, x.order, 1)
	fail := func(slot int, name string, class error, text string, args ...any) error {
		return errs.At(p.at(x.layout, slot), x.field(x.layoutName+name), class, text, args...)
	}
	rank := len(sizes) / 4
	switch {
	case !hasSizes:
		return fail(x.sizes, ".sizes", tensor.ErrMalformed, "absent")
	case !hasDims:
		return fail(x.order, ".dim_order", tensor.ErrMalformed, "absent")
	case int64(rank) > p.limits.MaxRank:
		return fail(x.sizes, ".sizes", tensor.ErrLimit, "%d dimensions, the limit is %d", rank,
			p.limits.MaxRank)
	}
	if err := p.take(sizeOf[payload]() + 16*int64(rank)); err != nil { // with shape and order
		return err
	}
	shape := tensor.Shape(p.dims.Take(rank))
	for d := range shape {
		shape[d] = int64(int32(binary.LittleEndian.Uint32(sizes[4*d:])))
	}
	order, size, field, err := checkLayout(scalar, shape, dims, segment.Size()-offset,
		p.orders.Take)
	if err != nil {
		slot := x.sizes
		if field == fieldOrder {
			slot = x.order
		}
		return errs.Wrap(p.at(x.layout, slot), x.field(x.layoutName+"."+field), err)
	}
	if scalar.DType() == tensor.Unknown {
		p.warn(p.at(x.layout, x.scalar), x.field(x.layoutName+".scalar_type"),
			"%d stands for no type", int8(scalar))
	}
	if rank > runtimeRank {
		p.warn(p.at(x.layout, x.sizes), x.field(x.layoutName+".sizes"),
			"%d dimensions, the runtime makes no tensor of more than %d", rank, runtimeRank)
	}
	data := &p.payloads.Take(1)[0]
	data.scalar = scalar
	e := &p.r.entries[i]
	e.DType, e.Shape, e.Order, e.isTensor = scalar.DType(), shape, order, true
	e.Data = tensor.NewBlob(data)
	data.Extent, err = p.in.Extent(segment.Offset()+offset, size)
	return err
}

func sizeOf[T any]() int64 { return int64(reflect.TypeFor[T]().Size()) }
