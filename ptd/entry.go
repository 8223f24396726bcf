package ptd

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

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
func (l *payload) Stored() tensor.Stored {
	s := tensor.Stored{Offset: l.Offset(), Size: l.Size(), Encoding: "raw"}
	if l.scalar.DType() == tensor.Unknown {
		s.Type = l.scalar.String()
	}
	return s
}

// A vector is a list of entries in the tables of a file.
type vector struct {
	name, key, layout string // of the vector, and of fields of its entries
	slots             slots
	n                 int
	read              func(i int, x *row)
}

// slots are those of fields of entries and their layouts.
type slots struct{ key, segment, scalar, sizes, order int }

// field returns the path of a field of entry i.
func (v *vector) field(i int, name string) string { return element(v.name, i) + name }

// A row is what a file says of an entry.
type row struct {
	table    flatbuffers.Table
	key      []byte // nil: absent
	segment  uint32
	offset   uint64 // in the segment, of a tensor of 0.6
	isTensor bool
	layout   flatbuffers.Table // of a tensor: a table of its own, or that of the entry
	scalar   ScalarType
}

// entry makes entry i of a vector.
func (p *parser) entry(e *entry, v *vector, i int, x *row) error {
	if err := p.name(e, v, i, x); err != nil {
		return err
	}
	if n := len(p.r.segments); uint64(x.segment) >= uint64(n) {
		return malformed(p.at(x.table, v.slots.segment), v.field(i, ".segment_index"),
			"%d, there are %d segments", x.segment, n)
	}
	segment := &p.r.segments[x.segment]
	if x.offset > uint64(segment.Size()) {
		return malformed(p.at(x.table, ptdfb.SlotTensorMetadataOffset), v.field(i, ".offset"),
			"%d, in a segment of %d bytes", x.offset, segment.Size())
	}
	e.segment = x.segment
	if !x.isTensor {
		e.Data = tensor.NewBlob(segment)
		return nil
	}
	size, err := p.tensor(e, v, i, x, segment.Size()-int64(x.offset))
	if err != nil {
		return err
	}
	data := &p.payloads.Take(1)[0]
	e.Data = tensor.NewBlob(data)
	if e.isTensor {
		data.scalar = x.scalar
	}
	data.Extent, err = p.r.src.Extent(segment.Offset()+int64(x.offset), size)
	return err
}

// name checks the name of an entry.
func (p *parser) name(e *entry, v *vector, i int, x *row) error {
	fault := func(class error, format string, args ...any) error {
		return fail(class, p.at(x.table, v.slots.key), v.field(i, v.key), format, args...)
	}
	if x.key == nil {
		return fault(tensor.ErrMalformed, "absent")
	}
	p.names += int64(len(x.key))
	if int64(len(x.key)) > p.limits.MaxName {
		return fault(tensor.ErrLimit, "a name of %d bytes, the limit is %d", len(x.key),
			p.limits.MaxName)
	}
	e.Name = le.String(x.key)
	if strings.IndexByte(e.Name, 0) >= 0 || !utf8.ValidString(e.Name) {
		return fault(tensor.ErrMalformed, "the name %s has a NUL or is not UTF-8",
			naming.Quote(e.Name))
	}
	return nil
}

// tensor makes e a tensor of size bytes, and returns how many of them are its own: all
// where its type is unknown, or where its layout is invalid and that is tolerated.
func (p *parser) tensor(e *entry, v *vector, i int, x *row, size int64) (int64, error) {
	sizes, hasSizes := fb.FieldBytes(x.layout, v.slots.sizes, 4)
	dims, hasDims := fb.FieldBytes(x.layout, v.slots.order, 1)
	field := func(name string) string { return v.field(i, v.layout+name) }
	invalid := func(slot int, name, format string, args ...any) (int64, error) {
		return 0, malformed(p.at(x.layout, slot), field(name), format, args...)
	}
	rank := len(sizes) / 4
	switch {
	case !hasSizes:
		return invalid(v.slots.sizes, ".sizes", "absent")
	case !hasDims:
		return invalid(v.slots.order, ".dim_order", "absent")
	case int64(rank) > p.limits.MaxRank:
		return 0, fail(tensor.ErrLimit, p.at(x.layout, v.slots.sizes), field(".sizes"),
			"%d dimensions, the limit is %d", rank, p.limits.MaxRank)
	case len(dims) != rank:
		return invalid(v.slots.order, ".dim_order", "%d dimensions for %d sizes", len(dims), rank)
	}
	if err := p.take(sizeOf[payload]() + 16*int64(rank)); err != nil { // with shape and order
		return 0, err
	}
	shape := tensor.Shape(p.dims.Take(rank))
	for d := range shape {
		shape[d] = int64(int32(binary.LittleEndian.Uint32(sizes[4*d:])))
		if shape[d] < 0 {
			return invalid(v.slots.sizes, element(".sizes", d), "%d", shape[d])
		}
	}
	order, ok := executorch.Order(dims, rank, p.orders.Take)
	if !ok {
		return invalid(v.slots.order, ".dim_order", "%v is not a permutation", dims)
	}
	dtype := x.scalar.DType()
	n, ok := elements(shape)
	if ok && dtype != tensor.Unknown {
		n, ok = dtype.Bytes(n)
	}
	var err error
	switch {
	case !ok:
		return invalid(v.slots.sizes, ".sizes", "%v of %v is beyond 2^63 bytes", shape, dtype)
	case dtype == tensor.Unknown:
		n = size
		err = p.warn(p.at(x.layout, v.slots.scalar), field(".scalar_type"),
			"%d stands for no type", int8(x.scalar))
	case n > size:
		return invalid(v.slots.sizes, ".sizes", "%v of %v takes %d bytes, and there are %d",
			shape, dtype, n, size)
	}
	if err == nil && rank > runtimeRank {
		err = p.warn(p.at(x.layout, v.slots.sizes), field(".sizes"),
			"%d dimensions, the runtime makes no tensor of more than %d", rank, runtimeRank)
	}
	e.DType, e.Shape, e.Order, e.isTensor = dtype, shape, order, true
	return n, err
}

// runtimeRank is ExecuTorch's kTensorDimensionLimit.
const runtimeRank = 16
