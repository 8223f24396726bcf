package pte

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Entry is a tensor of a program with its place in it.
type Entry struct {
	*tensor.Tensor
	Method Method
	Value  int // index in the method's values
	// Buffer is data_buffer_idx. Tensors with the same one, of the same kind, share their
	// bytes, also across methods; 0 for tensors that have no bytes in the program.
	Buffer uint32
	Role   Role
}

func (r *Reader) entry(p place) *Entry { return r.value(p).entry() }

// name is the name of a tensor that has bytes or a name: see Reader.Tensors.
func (v Value) name() string {
	if t, ok := v.table(); ok {
		if x := t.ExtraTensorInfo(nil); x != nil && len(x.FullyQualifiedName()) > 0 {
			return string(x.FullyQualifiedName())
		}
	}
	return v.m.Name() + "/" + strconv.Itoa(v.index)
}

// entry makes the tensor of a value that is one.
func (v Value) entry() *Entry {
	t, _ := v.table()
	shape, order, ok := shapeOf(t.SizesLength(), t.Sizes, t.DimOrderBytes())
	x := &tensor.Tensor{Name: v.name(), DType: executorch.DType(int8(t.ScalarType())),
		Shape: shape, Order: order}
	e := &Entry{Tensor: x, Method: v.m, Value: v.index, Role: roleOf(&t)}
	if e.Role.External() {
		x.External = true
		return e
	}
	e.Buffer = t.DataBufferIdx()
	x.Data = v.m.data(e, &t, ok)
	return e
}

// data returns the stored bytes of a tensor, or a blob that fails to be read.
func (m Method) data(e *Entry, t *ptefb.Tensor, ordered bool) tensor.Blob {
	r := m.r
	word := strconv.Itoa(int(t.ScalarType()))
	size, known := int64(0), false
	if n, ok := e.Shape.Elements(); ok {
		size, known = e.DType.Bytes(n)
	}
	bad := func(err error) tensor.Blob {
		return tensor.NewBlob(&missing{size: size, word: word, err: err})
	}
	if e.Role == RoleState && e.Buffer == 0 {
		return bad(errUninitialized)
	}
	at := func(slot int) int { return fb.FieldPosOr(t.Table(), slot) }
	field := func(name string) string { return m.field("values[%d].val.%s", e.Value, name) }
	x, err := r.locate(e.Role, e.Buffer, size, at(ptefb.SlotTensorDataBufferIdx),
		func() string { return field("data_buffer_idx") })
	if err != nil {
		return bad(err)
	}
	if !ordered {
		return bad(r.malformed(at(ptefb.SlotTensorDimOrder), field("dim_order"),
			"not a permutation of %d dimensions", len(e.Shape)))
	}
	if !e.DType.Known() {
		// Its length is not known: all bytes up to the next one stand for it.
		return tensor.NewBlob(&opaque{blobSource: r.extentOf(x), word: word})
	}
	if !known {
		return bad(r.malformed(at(ptefb.SlotTensorSizes), field("sizes"),
			"%v of %v is negative or overflows", e.Shape, e.DType))
	}
	return r.blob(x.off, size)
}

// malformed is an error of a field at pos of the flatbuffer.
func (r *Reader) malformed(pos int, field, format string, args ...any) error {
	return malformed(r.at+int64(pos), field, format, args...)
}

var errUninitialized = fmt.Errorf("pte: %w: the program has no initial value for this state",
	errors.ErrUnsupported)

// Uninitialized reports whether t, a tensor of a Reader, is state without an initial
// value: it has a name, dtype and shape, but no bytes before the program runs, and
// reading it fails.
func Uninitialized(t *tensor.Tensor) bool {
	m, ok := t.Data.Source().(*missing)
	return ok && m.err == errUninitialized
}

// A fault is why there are no bytes where an index points. Without a field of its own it
// is the index that is wrong.
type fault struct {
	pos         int // in the flatbuffer
	field, text string
}

// A pool is where the pieces of a SubsegmentOffsets are: offsets give their starts only.
type pool struct {
	t       *ptefb.SubsegmentOffsets // nil if the program has none
	offsets []byte
	segment extent
	bad     *fault // the segment is not there
	name    string
}

func (r *Reader) pool(t *ptefb.SubsegmentOffsets, name string) pool {
	p := pool{t: t, name: name}
	if t == nil {
		return p
	}
	p.offsets, _ = fb.FieldBytes(t.Table(), ptefb.SlotSubsegmentOffsetsOffsets, 8)
	if i := t.SegmentIndex(); int64(i) < int64(len(r.segments)) {
		p.segment = r.segments[i].extent
	} else {
		p.bad = &fault{fb.FieldPosOr(t.Table(), ptefb.SlotSubsegmentOffsetsSegmentIndex),
			name + ".segment_index", fmt.Sprintf("%d of %d segments", i, len(r.segments))}
	}
	return p
}

// len is the number of pieces, the placeholder included.
func (p *pool) len() int { return len(p.offsets) / 8 }

// piece is where element i begins, and how many bytes there are from there to the end of
// the segment.
func (p *pool) piece(i uint32) (extent, *fault) {
	if int64(i) >= int64(p.len()) {
		return extent{}, &fault{text: fmt.Sprintf("%d of %d offsets", i, p.len())}
	}
	if p.bad != nil {
		return extent{}, p.bad
	}
	o := u64s(p.offsets, int(i))
	if o > uint64(p.segment.size) {
		pos := fb.FieldTarget(p.t.Table(), ptefb.SlotSubsegmentOffsetsOffsets) + 4 + 8*int(i)
		return extent{}, &fault{pos, fmt.Sprintf("%s.offsets[%d]", p.name, i),
			fmt.Sprintf("%d is beyond a segment of %d bytes", o, p.segment.size)}
	}
	return extent{p.segment.off + int64(o), p.segment.size - int64(o)}, nil
}

// locate finds where the size bytes of a constant or an initial value begin, and how many
// bytes there are from there to the end of what holds them. pos and field are those of
// the index.
func (r *Reader) locate(role Role, buffer uint32, size int64, pos int,
	field func() string) (extent, error) {
	x, bad := r.stored(role, buffer)
	if bad == nil && size > x.size {
		bad = &fault{text: fmt.Sprintf("%d bytes where %d are left of their segment", size, x.size)}
	}
	switch {
	case bad == nil:
		return x, nil
	case bad.field != "":
		return x, r.malformed(bad.pos, bad.field, "%s, for %s", bad.text, field())
	}
	return x, r.malformed(pos, field(), "%s", bad.text)
}

func (r *Reader) stored(role Role, buffer uint32) (extent, *fault) {
	if role == RoleConstant {
		return r.constant(buffer)
	}
	// The runtime takes the first list, whatever mutable_data_segments_idx says.
	if r.initials.t != nil {
		return r.initials.piece(buffer)
	}
	hint := ""
	if _, bad := r.constant(buffer); bad == nil {
		hint = "; it may be meant for the list of constants, as some exporters have it"
	}
	return extent{}, &fault{text: fmt.Sprintf("%d, but the program has no initial values%s",
		buffer, hint)}
}

func (r *Reader) constant(buffer uint32) (extent, *fault) {
	if r.constants.len() > 0 {
		return r.constants.piece(buffer)
	}
	n := r.root.ConstantBufferLength()
	if int64(buffer) >= int64(n) {
		return extent{}, &fault{text: fmt.Sprintf("%d of %d constants", buffer, n)}
	}
	var t ptefb.Buffer
	r.root.ConstantBuffer(&t, int(buffer))
	x, ok := r.inline(t.Table(), ptefb.SlotBufferStorage)
	if !ok {
		return extent{}, &fault{int(t.Table().Pos), fmt.Sprintf("constant_buffer[%d].storage",
			buffer), "absent"}
	}
	return x, nil
}

// inline is where a vector of bytes is in the file, false if it is absent.
func (r *Reader) inline(t flatbuffers.Table, slot int) (extent, bool) {
	b, ok := fb.FieldBytes(t, slot, 1)
	return extent{r.at + int64(fb.FieldTarget(t, slot)) + 4, int64(len(b))}, ok
}

// blobSource is what internal/source hands out.
type blobSource interface {
	tensor.Source
	Offset() int64
}

func (r *Reader) extentOf(e extent) blobSource {
	x, err := r.src.Extent(e.off, e.size)
	if err != nil { // only of a file that shrank: all ranges were checked
		return &missing{size: e.size, err: ioError(err)}
	}
	return &x
}

// blobOf is the blob of a range, or one that fails with err when it is read.
func (r *Reader) blobOf(x extent, err error) tensor.Blob {
	if err != nil {
		return tensor.NewBlob(&missing{err: err})
	}
	return r.blob(x.off, x.size)
}

func (r *Reader) blob(off, size int64) tensor.Blob {
	return tensor.NewBlob(r.extentOf(extent{off, size}))
}

// opaque is a range of the file whose element type has no name.
type opaque struct {
	blobSource
	word string // the file's number for the type
}

func (o *opaque) Stored() tensor.Stored {
	return tensor.Stored{Offset: o.Offset(), Size: o.Size(), Encoding: "raw", Type: o.word}
}

// missing stands for bytes that are not where the program says.
type missing struct {
	size int64
	word string
	err  error
}

func (m *missing) Size() int64                       { return m.size }
func (m *missing) Offset() int64                     { return -1 }
func (m *missing) Bytes() ([]byte, bool)             { return nil, false }
func (m *missing) ReadAt([]byte, int64) (int, error) { return 0, m.err }
func (m *missing) ReadInto([]byte) error             { return m.err }
func (m *missing) Open() (io.ReadCloser, error)      { return nil, m.err }
func (m *missing) CheckView() error                  { return m.err }

// Stored has no bytes in the file, so that nobody allocates what the program declares.
func (m *missing) Stored() tensor.Stored {
	return tensor.Stored{Offset: -1, Encoding: "raw", Type: m.word}
}
