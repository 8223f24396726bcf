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
	at, field := t.At(slotTensorDataBuffer), func() string { return m.field("values[%d].val.data_buffer_idx", i) }
	var room extent
	var err error
	if info.Role == RoleConstant {
		room, err = r.constant(info.Buffer, at, field)
	} else {
		room, err = r.initial(info.Buffer, at, field)
	}
	if err != nil {
		return bad(err)
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
		return bad(malformed(r.at+at, field(), "%d bytes where %d are left of their segment", size, room.size))
	}
	return r.blob(room.off, size)
}

// extent is a range of the file.
type extent struct{ off, size int64 }

// constant finds where constant number buffer begins, and how many bytes there are from there to the end of what holds
// them; offsets give starts only. The error names the field that asked for it.
func (r *Reader) constant(buffer uint32, at int64, field func() string) (extent, error) {
	if cs := r.root.Child(slotProgramConstantSegment); cs.Present() {
		if offsets, _ := cs.Bytes(slotSubsegmentOffsets, 8); len(offsets) > 0 {
			return r.piece(cs, offsets, buffer, at, field)
		}
	}
	v := r.root.Objects(slotProgramConstantBuffer)
	if int64(buffer) >= int64(v.Len()) {
		return extent{}, malformed(r.at+at, field(), "%d of %d constants", buffer, v.Len())
	}
	t := v.At(int(buffer))
	b, ok := t.Bytes(slotOnly, 1)
	if !ok {
		return extent{}, malformed(r.at+t.Pos(), fmt.Sprintf("constant_buffer[%d].storage", buffer), "absent")
	}
	return extent{r.at + t.DataAt(slotOnly), int64(len(b))}, nil
}

// initial finds the initial value number buffer of a mutable tensor. The runtime takes the first list, whatever
// mutable_data_segments_idx says.
func (r *Reader) initial(buffer uint32, at int64, field func() string) (extent, error) {
	v := r.root.Objects(slotProgramMutableData)
	if v.Len() == 0 {
		hint := ""
		if _, err := r.constant(buffer, at, field); err == nil {
			hint = "; it may be meant for the list of constants, as some exporters have it"
		}
		return extent{}, malformed(r.at+at, field(), "%d, but the program has no initial values%s", buffer, hint)
	}
	offsets, _ := v.At(0).Bytes(slotSubsegmentOffsets, 8)
	return r.piece(v.At(0), offsets, buffer, at, field)
}

// piece finds element i of the offsets of a SubsegmentOffsets.
func (r *Reader) piece(t fb.Object, offsets []byte, i uint32, at int64, field func() string) (extent, error) {
	if int64(i) >= int64(len(offsets)/8) {
		return extent{}, malformed(r.at+at, field(), "%d of %d offsets", i, len(offsets)/8)
	}
	segment := t.Uint32(slotSubsegmentIndex, 0)
	if int64(segment) >= int64(r.numSegments()) {
		return extent{}, malformed(r.at+t.At(slotSubsegmentIndex), "segment_index", "%d of %d segments, for %s", segment, r.numSegments(), field())
	}
	off, size := r.segment(int(segment))
	o := u64s(offsets, int(i))
	if o > uint64(size) {
		return extent{}, malformed(r.at+t.DataAt(slotSubsegmentOffsets)+8*int64(i), fmt.Sprintf("offsets[%d]", i), "%d is beyond a segment of %d bytes", o, size)
	}
	return extent{off + int64(o), size - int64(o)}, nil
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
