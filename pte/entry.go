package pte

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
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

// tensorName is the name of value i, a tensor that has bytes or a name: see Reader.Tensors.
func (m Method) tensorName(i int, t fb.Object) string {
	if x := t.Child(slotTensorExtra); x.Present() {
		if b, _ := x.Bytes(slotExtraName, 1); len(b) > 0 {
			return string(b)
		}
	}
	return m.Name() + "/" + strconv.Itoa(i)
}

// entry makes the tensor of value i.
func (m Method) entry(i int, t fb.Object) *Entry {
	info := infoOf(t)
	e := &Entry{Method: m, Value: i, Role: info.Role}
	e.Tensor = &tensor.Tensor{Name: m.tensorName(i, t), DType: info.DType, Shape: info.Shape, Order: info.Order}
	if info.Role.External() {
		e.External = true
		return e
	}
	e.Buffer = info.Buffer
	e.Data = m.data(i, t, info)
	return e
}

// data is the stored bytes of value i, or a blob that fails to be read.
func (m Method) data(i int, t fb.Object, info TensorInfo) tensor.Blob {
	r := m.r
	size, known := info.Bytes()
	bad := func(err error) tensor.Blob {
		return tensor.NewBlob(&missing{size: size, word: strconv.Itoa(int(info.ScalarType)), err: err})
	}
	if info.Role == RoleState && info.Buffer == 0 {
		return bad(fmt.Errorf("pte: %w: the program has no initial value for this state", errors.ErrUnsupported))
	}
	var room extent
	var wrong *fault
	if info.Role == RoleConstant {
		room, wrong = r.constant(info.Buffer)
	} else {
		room, wrong = r.initial(info.Buffer)
	}
	if wrong != nil {
		return bad(r.fault(wrong, t.At(slotTensorDataBuffer), m.field("values[%d].val.data_buffer_idx", i)))
	}
	if dims, _ := t.Bytes(slotTensorDimOrder, 1); len(dims) != len(info.Shape) || info.Order == nil && !rowMajor(dims) {
		return bad(malformed(r.at+t.At(slotTensorDimOrder), m.field("values[%d].val.dim_order", i), "no permutation of %d dimensions", len(info.Shape)))
	}
	if !info.DType.Known() {
		// How long it is cannot be said: what there is up to the next one stands for it.
		return tensor.NewBlob(&opaque{blobSource: r.extentOf(room), word: strconv.Itoa(int(info.ScalarType))})
	}
	if !known {
		return bad(malformed(r.at+t.At(slotTensorSizes), m.field("values[%d].val.sizes", i), "%v of %v is negative or overflows", info.Shape, info.DType))
	}
	if size > room.size {
		return bad(malformed(r.at+t.At(slotTensorDataBuffer), m.field("values[%d].val.data_buffer_idx", i), "%d bytes where %d are left of their segment", size, room.size))
	}
	return r.blob(room.off, size)
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
