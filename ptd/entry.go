package ptd

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/quote"
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

// A payload is the bytes of a tensor, whose type may be one without a meaning.
type payload struct {
	source.Extent
	scalar ScalarType
}

// Stored says where the data is, and its type in the file's word where it has no other.
func (l *payload) Stored() tensor.Stored {
	s := tensor.Stored{Offset: l.Offset(), Size: l.Size(), Encoding: "raw"}
	if l.scalar.DType() == tensor.Unknown {
		s.Type = l.scalar.String()
	}
	return s
}

// payload gives e the n bytes at off, which are in the file.
func (p *parser) payload(e *entry, off, n int64, scalar ScalarType) {
	extent, err := p.r.src.Extent(off, n)
	if err != nil {
		panic(err) // they are in a segment that is
	}
	p.payloads = append(p.payloads, payload{extent, scalar})
	e.Data = tensor.NewBlob(&p.payloads[len(p.payloads)-1])
}

// A place names an entry in errors.
type place struct {
	vector, key string
	below       string // the field of the layout, or nothing where the entry is one
	i           int
}

func (w place) entry() string              { return at1(w.vector, w.i) }
func (w place) layout(field string) string { return w.entry() + w.below + field }

// name checks the name of an entry, nil for absent, whose offset in the file is at.
func (p *parser) name(e *entry, key []byte, where place, at int64) error {
	if key == nil {
		return malformed(at, where.entry()+where.key, "absent")
	}
	p.names += int64(len(key))
	if int64(len(key)) > p.limits.MaxName {
		return failure(at, where.entry()+where.key, fmt.Errorf("%w: a name of %d bytes, Limits.MaxName is %d", tensor.ErrLimit, len(key), p.limits.MaxName))
	}
	e.Name = le.String(key)
	if strings.IndexByte(e.Name, 0) >= 0 || !utf8.ValidString(e.Name) {
		return malformed(at, where.entry()+where.key, "the name %s has a NUL or is not UTF-8", quote.Name(e.Name))
	}
	return nil
}

func (p *parser) segmentOf(e *entry, s uint32, where place, at int64) error {
	if uint64(s) >= uint64(len(p.r.segments)) {
		return malformed(at, where.entry()+".segment_index", "%d, there are %d segments", s, len(p.r.segments))
	}
	e.segment = s
	return nil
}

// A layout is what a file says of a tensor, in a table of its own or in that of the
// entry.
type layout struct {
	table                   flatbuffers.Table
	scalar                  ScalarType
	sizes, order            []byte // nil: absent
	scalarAt, sizeAt, ordAt int    // slots
}

func layoutOf(l *ptdfb.TensorLayout) layout {
	return readLayout(l.Table(), ScalarType(l.ScalarType()), ptdfb.SlotTensorLayoutScalarType, ptdfb.SlotTensorLayoutSizes, ptdfb.SlotTensorLayoutDimOrder)
}

func readLayout(t flatbuffers.Table, scalar ScalarType, scalarAt, sizesAt, orderAt int) layout {
	l := layout{table: t, scalar: scalar, scalarAt: scalarAt, sizeAt: sizesAt, ordAt: orderAt}
	l.sizes, _ = fb.FieldBytes(t, sizesAt, 4)
	l.order, _ = fb.FieldBytes(t, orderAt, 1)
	return l
}

// tensor makes e a tensor of the layout l, which has size bytes, and returns how many
// of them are its own: all where its type has no meaning. It is false for a layout that
// makes no sense, where the caller of Open tolerates that.
func (p *parser) tensor(e *entry, l layout, where place, size int64) (n int64, ok bool, err error) {
	bad := func(slot int, field, format string, args ...any) (int64, bool, error) {
		if p.opts.Lenient && p.silent() {
			return 0, false, nil
		}
		err := malformed(p.at(l.table, slot), where.layout(field), format, args...)
		if p.opts.Lenient {
			err = p.tolerate(err)
		}
		return 0, false, err
	}
	rank := len(l.sizes) / 4
	switch {
	case l.sizes == nil:
		return bad(l.sizeAt, ".sizes", "absent")
	case l.order == nil:
		return bad(l.ordAt, ".dim_order", "absent")
	case int64(rank) > p.limits.MaxRank:
		return 0, false, failure(p.at(l.table, l.sizeAt), where.layout(".sizes"),
			fmt.Errorf("%w: %d dimensions, Limits.MaxRank is %d", tensor.ErrLimit, rank, p.limits.MaxRank))
	case len(l.order) != rank:
		return bad(l.ordAt, ".dim_order", "%d dimensions for %d sizes", len(l.order), rank)
	}
	start := len(p.dims)
	// As in the runtime, a 0 saves what comes after it, not what overflowed before.
	count, over := uint64(1), false
	for d := range rank {
		dim := int64(int32(binary.LittleEndian.Uint32(l.sizes[4*d:])))
		if dim < 0 {
			return bad(l.sizeAt, at1(".sizes", d), "%d", dim)
		}
		hi, lo := bits.Mul64(count, uint64(dim))
		over = over || hi != 0
		count = lo
		p.dims = append(p.dims, dim)
	}
	shape := tensor.Shape(p.dims[start:len(p.dims):len(p.dims)])
	var order tensor.Order
	if !rowMajor(l.order) {
		if order = p.order(l.order); !order.Valid(rank) {
			return bad(l.ordAt, ".dim_order", "%v is not a permutation", l.order)
		}
	}
	dtype := l.scalar.DType()
	n, fits := int64(count), true
	over = over || n < 0
	if dtype != tensor.Unknown && !over {
		n, fits = dtype.Bytes(n)
	}
	switch {
	case over || !fits:
		return bad(l.sizeAt, ".sizes", "%v of %v is beyond 2^63 bytes", shape, dtype)
	case dtype == tensor.Unknown:
		n = size
		if err := p.warn(p.at(l.table, l.scalarAt), where.layout(".scalar_type"), "%d stands for no type", int8(l.scalar)); err != nil {
			return 0, false, err
		}
	case n > size:
		return bad(l.sizeAt, ".sizes", "%v of %v takes %d bytes, and there are %d", shape, dtype, n, size)
	}
	if rank > runtimeRank {
		if err := p.warn(p.at(l.table, l.sizeAt), where.layout(".sizes"), "%d dimensions, the runtime makes no tensor of more than %d", rank, runtimeRank); err != nil {
			return 0, false, err
		}
	}
	e.DType, e.Shape, e.Order, e.isTensor = dtype, shape, order, true
	return n, true, nil
}

// runtimeRank is ExecuTorch's kTensorDimensionLimit.
const runtimeRank = 16

// rowMajor reports whether a dim_order says what nil says too.
func rowMajor(o []byte) bool {
	for i, d := range o {
		if int(d) != i {
			return false
		}
	}
	return true
}

// order copies a dim_order.
func (p *parser) order(o []byte) tensor.Order {
	start := len(p.orders)
	for _, d := range o {
		p.orders = append(p.orders, int(d))
	}
	return p.orders[start:len(p.orders):len(p.orders)]
}
