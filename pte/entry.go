package pte

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Entry is a tensor of a program with its place in it.
type Entry struct {
	*tensor.Tensor
	Method Method
	Value  int // index in the method's values
	// Buffer is data_buffer_idx. Tensors with the same one, of the same kind, share their bytes, also across methods; 0
	// for tensors that have no bytes in the program.
	Buffer uint32
	Role   Role
}

// A lister makes the entries of a method, many with one allocation: what an entry is made of lies together.
type lister struct {
	m      Method
	values fb.Objects
	prefix string // of the names of tensors that have none of their own
	rooms  []room
	made   int
}

type room struct {
	entry  Entry
	tensor tensor.Tensor
	extent source.Extent
	dims   [4]int64 // of the shape; longer ones are on their own
}

const maxRooms = 64 // as much as one entry that is kept keeps with it

func newLister(m Method) *lister {
	return &lister{m: m, values: m.values(), prefix: m.Name() + "/"}
}

// table is that of a tensor of the method.
func (l *lister) table(p place) fb.Object { return l.values.At(int(p.value)).Child(slotUnion) }

// room is where the next entry goes.
func (l *lister) room() *room {
	if len(l.rooms) == 0 {
		l.made = min(max(2*l.made, 1), maxRooms)
		l.rooms = make([]room, l.made)
	}
	x := &l.rooms[0]
	l.rooms = l.rooms[1:]
	return x
}

// name is that of value i, a tensor that has bytes or a name: see Reader.Tensors.
func (l *lister) name(i int, t fb.Object) string {
	if x := t.Child(slotTensorExtra); x.Present() {
		if b, _ := x.Bytes(slotExtraName, 1); len(b) > 0 {
			return string(b)
		}
	}
	var room [64]byte
	return string(strconv.AppendInt(append(room[:0], l.prefix...), int64(i), 10))
}

// entry makes the tensor of value i.
func (l *lister) entry(i int, t fb.Object) *Entry {
	x, m, role := l.room(), l.m, roleOf(t)
	e := &x.entry
	*e = Entry{Tensor: &x.tensor, Method: m, Value: i, Role: role}
	e.Name, e.DType = l.name(i, t), dtypeOf(int8(t.Uint8(slotTensorScalarType, 0)))
	e.Shape, e.Order = shapeOf(t, x.dims[:])
	if role.External() {
		e.External = true
		return e
	}
	e.Buffer = t.Uint32(slotTensorDataBuffer, 0)
	e.Data = m.data(e, t, &x.extent)
	return e
}

// entry makes the tensor of value i, alone.
func (m Method) entry(i int, t fb.Object) *Entry {
	return newLister(m).entry(i, t)
}

// data is the stored bytes of a tensor, or a blob that fails to be read. It may use x for the blob.
func (m Method) data(e *Entry, t fb.Object, x *source.Extent) tensor.Blob {
	r, i := m.r, e.Value
	size, known := int64(0), false
	if n, ok := e.Shape.Elements(); ok {
		size, known = e.DType.Bytes(n)
	}
	word := func() string { return strconv.Itoa(int(int8(t.Uint8(slotTensorScalarType, 0)))) }
	bad := func(err error) tensor.Blob {
		return tensor.NewBlob(&missing{size: size, word: word(), err: err})
	}
	if e.Role == RoleState && e.Buffer == 0 {
		return bad(errUninitialized)
	}
	var room extent
	var wrong *fault
	if e.Role == RoleConstant {
		room, wrong = r.constant(e.Buffer)
	} else {
		room, wrong = r.initial(e.Buffer)
	}
	if wrong != nil {
		return bad(r.fault(wrong, t.At(slotTensorDataBuffer), m.field("values[%d].val.data_buffer_idx", i)))
	}
	if dims, _ := t.Bytes(slotTensorDimOrder, 1); len(dims) != len(e.Shape) || e.Order == nil && !rowMajor(dims) {
		return bad(malformed(r.at+t.At(slotTensorDimOrder), m.field("values[%d].val.dim_order", i), "no permutation of %d dimensions", len(e.Shape)))
	}
	if !e.DType.Known() {
		// How long it is cannot be said: what there is up to the next one stands for it.
		return tensor.NewBlob(&opaque{blobSource: r.extentOf(room), word: word()})
	}
	if !known {
		return bad(malformed(r.at+t.At(slotTensorSizes), m.field("values[%d].val.sizes", i), "%v of %v is negative or overflows", e.Shape, e.DType))
	}
	if size > room.size {
		return bad(malformed(r.at+t.At(slotTensorDataBuffer), m.field("values[%d].val.data_buffer_idx", i), "%d bytes where %d are left of their segment", size, room.size))
	}
	var err error
	if *x, err = r.src.Extent(room.off, size); err != nil {
		return r.blob(room.off, size)
	}
	return tensor.NewBlob(x)
}

var errUninitialized = fmt.Errorf("pte: %w: the program has no initial value for this state", errors.ErrUnsupported)

// Uninitialized reports whether t, a tensor of a Reader, is state without an initial value: it
// has a name, dtype and shape, but no bytes before the program runs, and reading it fails.
func Uninitialized(t *tensor.Tensor) bool {
	m, ok := t.Data.Source().(*missing)
	return ok && m.err == errUninitialized
}

// extent is a range of the file.
type extent struct{ off, size int64 }

// A fault is why there are no bytes where an index points. Without a field of its own it is the index that is wrong.
type fault struct {
	off         int64 // in the program
	field, text string
}

// fault makes an error of a fault that the index in a field led to.
func (r *Reader) fault(f *fault, off int64, field string) error {
	if f.field != "" {
		return malformed(r.at+f.off, f.field, "%s, for %s", f.text, field)
	}
	return malformed(r.at+off, field, "%s", f.text)
}

// A pool is where the pieces of a SubsegmentOffsets are: offsets give their starts only.
type pool struct {
	offsets []byte
	segment extent
	bad     *fault // the segment is not there
	table   fb.Object
	name    string
}

func (r *Reader) pool(t fb.Object, name string) (p pool) {
	if !t.Present() {
		return p
	}
	p.table, p.name = t, name
	p.offsets, _ = t.Bytes(slotSubsegmentOffsets, 8)
	if i := t.Uint32(slotSubsegmentIndex, 0); int64(i) < int64(r.numSegments()) {
		p.segment.off, p.segment.size = r.segment(int(i))
	} else {
		p.bad = &fault{t.At(slotSubsegmentIndex), name + ".segment_index", fmt.Sprintf("%d of %d segments", i, r.numSegments())}
	}
	return p
}

// piece is where element i begins, and how many bytes there are from there to the end of the segment.
func (p *pool) piece(i uint32) (extent, *fault) {
	if int64(i) >= int64(len(p.offsets)/8) {
		return extent{}, &fault{text: fmt.Sprintf("%d of %d offsets", i, len(p.offsets)/8)}
	}
	if p.bad != nil {
		return extent{}, p.bad
	}
	o := u64s(p.offsets, int(i))
	if o > uint64(p.segment.size) {
		return extent{}, &fault{p.table.DataAt(slotSubsegmentOffsets) + 8*int64(i), fmt.Sprintf("%s.offsets[%d]", p.name, i),
			fmt.Sprintf("%d is beyond a segment of %d bytes", o, p.segment.size)}
	}
	return extent{p.segment.off + int64(o), p.segment.size - int64(o)}, nil
}

// constant finds where constant number buffer begins, and how many bytes there are from there to the end of what holds
// it.
func (r *Reader) constant(buffer uint32) (extent, *fault) {
	if len(r.constants.offsets) > 0 {
		return r.constants.piece(buffer)
	}
	v := r.root.Objects(slotProgramConstantBuffer)
	if int64(buffer) >= int64(v.Len()) {
		return extent{}, &fault{text: fmt.Sprintf("%d of %d constants", buffer, v.Len())}
	}
	t := v.At(int(buffer))
	b, ok := t.Bytes(slotOnly, 1)
	if !ok {
		return extent{}, &fault{t.Pos(), fmt.Sprintf("constant_buffer[%d].storage", buffer), "absent"}
	}
	return extent{r.at + t.DataAt(slotOnly), int64(len(b))}, nil
}

// initial finds the initial value number buffer of a mutable tensor. The runtime takes the first list, whatever
// mutable_data_segments_idx says.
func (r *Reader) initial(buffer uint32) (extent, *fault) {
	if r.initials.table.Present() {
		return r.initials.piece(buffer)
	}
	hint := ""
	if _, bad := r.constant(buffer); bad == nil {
		hint = "; it may be meant for the list of constants, as some exporters have it"
	}
	return extent{}, &fault{text: fmt.Sprintf("%d, but the program has no initial values%s", buffer, hint)}
}

// blobSource is what internal/source hands out.
type blobSource interface {
	tensor.Source
	Offset() int64
}

func (r *Reader) extentOf(e extent) blobSource {
	x, err := r.src.Extent(e.off, e.size)
	if err != nil { // all ranges were checked before: only a range at the end of a file that shrank gets here
		return &missing{size: e.size, err: ioError(err)}
	}
	return &x
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
