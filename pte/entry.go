package pte

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Entry is a tensor of a program, with the value that it is.
type Entry struct {
	*tensor.Tensor
	Method Method
	Value  int // index in the method's values
	// Buffer is data_buffer_idx, 0 for tensors that have no bytes in the program. Tensors
	// with the same Buffer and Role share their bytes, also across methods.
	Buffer uint32
	Role   Role
}

func (x *Entry) valueID() valueID { return valueID{int32(x.Method.index), int32(x.Value)} }

// name returns the name of a tensor in Reader.Tensors.
func (v Value) name() string {
	if t, ok := v.table(); ok {
		if x := t.ExtraTensorInfo(nil); x != nil && len(x.FullyQualifiedName()) > 0 {
			return string(x.FullyQualifiedName())
		}
	}
	return v.m.Name() + "/" + strconv.Itoa(v.index)
}

// entry returns the entry of a value that is a tensor: always the same one if it is in
// Reader.Tensors, else a new one.
func (v Value) entry() *Entry {
	r, at := v.m.r, valueID{int32(v.m.index), int32(v.index)}
	i, found := slices.BinarySearchFunc(r.tensors, at, func(a, b valueID) int {
		return cmp.Or(cmp.Compare(a.method, b.method), cmp.Compare(a.value, b.value))
	})
	if found {
		return &r.entries()[i]
	}
	e := &Entry{Tensor: new(tensor.Tensor)}
	v.fillEntry(e)
	return e
}

// fillEntry sets e to the tensor that v is.
func (v Value) fillEntry(e *Entry) {
	t, _ := v.table()
	i := infoOf(&t)
	e.Method, e.Value, e.Role = v.m, v.index, i.Role
	*e.Tensor = tensor.Tensor{Name: v.name(), DType: i.DType, Shape: i.Shape, Order: i.Order,
		External: i.Role.External()}
	if !e.External {
		e.Buffer, e.Data = i.Buffer, v.data(&t, i)
	}
}

// data returns the stored bytes of a tensor, or a blob that fails when it is read.
func (v Value) data(t *ptefb.Tensor, i TensorInfo) tensor.Blob {
	r, typeName := v.m.r, strconv.Itoa(int(i.ScalarType))
	size, known := i.Bytes()
	s := v.m.location(ptefb.TableTensor, t, valuePath, v.index, 0)
	x, err := r.locate(i.Role, i.Buffer, size, s.field(ptefb.SlotTensorDataBufferIdx))
	switch {
	case i.Role == RoleState && i.Buffer == 0:
		err = errUninitialized
	case err != nil:
	case i.DimOrder != nil:
		err = r.malformed(s.field(ptefb.SlotTensorDimOrder),
			"not a permutation of %d dimensions", len(i.Shape))
	case !i.DType.Known():
		// The size is not known: the blob goes to the end of the segment.
		return tensor.NewBlob(&opaque{r.extentOf(x), typeName})
	case !known:
		err = r.malformed(s.field(ptefb.SlotTensorSizes), "%v of %v is negative or overflows",
			i.Shape, i.DType)
	default:
		return r.blob(x.off, size)
	}
	return tensor.NewBlob(&missing{size: size, typeName: typeName, err: err})
}

var errUninitialized = errs.New(errors.ErrUnsupported,
	"the program has no initial value for this state")

// Uninitialized reports whether t, a tensor of a Reader, is state without an initial
// value: it has a name, dtype and shape, but no bytes before the program runs, and
// reading it fails.
func Uninitialized(t *tensor.Tensor) bool {
	m, ok := t.Data.Source().(*missing)
	return ok && m.err == errUninitialized
}

// A subsegments is a table SubsegmentOffsets: offsets of tensors in one segment. It does
// not say where they end.
type subsegments struct {
	location
	offsets []byte
	segment extent
	found   bool // the segment
}

func (r *Reader) subsegments(t *ptefb.SubsegmentOffsets, path string, i int) subsegments {
	if t == nil {
		return subsegments{}
	}
	p := subsegments{location: rootLocation(ptefb.TableSubsegmentOffsets, t, path, i)}
	p.offsets, _ = fb.FieldBytes(t.Table(), ptefb.SlotSubsegmentOffsetsOffsets, 8)
	n := t.SegmentIndex()
	if p.found = int64(n) < int64(len(r.segments)); p.found {
		p.segment = r.segments[n].extent
	}
	return p
}

// len returns the number of offsets. The first one belongs to no tensor.
func (p *subsegments) len() int { return len(p.offsets) / 8 }

// subsegment returns the bytes from the start of element i to the end of the segment.
// user is the location of the index i, for errors.
func (r *Reader) subsegment(p *subsegments, i uint32, user location) (extent, error) {
	if int64(i) >= int64(p.len()) {
		return extent{}, r.malformed(user, "%d of %d offsets", i, p.len())
	}
	if !p.found {
		s := p.field(ptefb.SlotSubsegmentOffsetsSegmentIndex)
		return extent{}, r.indirect(s, user, "%d of %d segments",
			uint32(int32Field(p.t, ptefb.SlotSubsegmentOffsetsSegmentIndex)), len(r.segments))
	}
	o := u64s(p.offsets, int(i))
	if o > uint64(p.segment.size) {
		s := p.field(ptefb.SlotSubsegmentOffsetsOffsets).item(int(i), 8)
		return extent{}, r.indirect(s, user, "%d is beyond a segment of %d bytes", o,
			p.segment.size)
	}
	return extent{p.segment.off + int64(o), p.segment.size - int64(o)}, nil
}

// indirect returns an error at a location that user refers to. user may be zero.
func (r *Reader) indirect(s, user location, format string, args ...any) error {
	if user.path != "" {
		format, args = format+", for %v", append(args, user)
	}
	return r.malformed(s, format, args...)
}

// locate returns the bytes from the start of a constant or an initial value to the end of
// the segment or vector that holds it, which must be size bytes or more. s is the
// location of the index buffer.
func (r *Reader) locate(role Role, buffer uint32, size int64, s location) (x extent, err error) {
	switch {
	case role == RoleConstant:
		x, err = r.constant(buffer, s)
	case r.initials.t.Bytes != nil: // the first list, whatever mutable_data_segments_idx says
		x, err = r.subsegment(&r.initials, buffer, s)
	default:
		hint := ""
		if _, err := r.constant(buffer, s); err == nil {
			hint = "; it may be meant for the list of constants, as some exporters have it"
		}
		err = r.malformed(s, "%d, but the program has no initial values%s", buffer, hint)
	}
	if err == nil && size > x.size {
		err = r.malformed(s, "%d bytes where %d are left of their segment", size, x.size)
	}
	return x, err
}

func (r *Reader) constant(buffer uint32, s location) (extent, error) {
	if r.constants.len() > 0 {
		return r.subsegment(&r.constants, buffer, s)
	}
	n := r.root.ConstantBufferLength()
	if int64(buffer) >= int64(n) {
		return extent{}, r.malformed(s, "%d of %d constants", buffer, n)
	}
	var t ptefb.Buffer
	r.root.ConstantBuffer(&t, int(buffer))
	x, ok := r.inline(t.Table(), ptefb.SlotBufferStorage)
	if !ok {
		at := rootLocation(ptefb.TableBuffer, &t, "constant_buffer[%d]", int(buffer))
		return x, r.indirect(at.field(ptefb.SlotBufferStorage), s, "absent")
	}
	return x, nil
}

// inline returns where a vector of bytes inside the flatbuffer is in the file, false if
// it is absent.
func (r *Reader) inline(t flatbuffers.Table, slot int) (extent, bool) {
	b, ok := fb.FieldBytes(t, slot, 1)
	return extent{r.at + int64(fb.FieldTarget(t, slot)) + 4, int64(len(b))}, ok
}

func (r *Reader) extentOf(e extent) tensor.Source {
	x, err := r.in.Extent(e.off, e.size)
	if err != nil { // only if the file was truncated: all ranges were checked
		return &missing{size: e.size, err: errs.Wrap(-1, "", err)}
	}
	return &x
}

// blobOf returns the blob of a range, or if err is not nil a blob that fails with it when
// it is read.
func (r *Reader) blobOf(x extent, err error) tensor.Blob {
	if err != nil {
		return tensor.NewBlob(&missing{err: err})
	}
	return r.blob(x.off, x.size)
}

func (r *Reader) blob(off, size int64) tensor.Blob {
	return tensor.NewBlob(r.extentOf(extent{off, size}))
}

// opaque is the bytes of a tensor whose dtype is not known.
type opaque struct {
	tensor.Source
	typeName string // the file's number for the type
}

func (o *opaque) Stored() (tensor.Stored, bool) {
	st, ok := o.Source.Stored()
	st.Type = o.typeName
	return st, ok
}

// missing stands for bytes that are not where the program says.
type missing struct {
	tensor.Computed
	size     int64
	typeName string
	err      error
}

func (m *missing) Size() int64                       { return m.size }
func (m *missing) ReadAt([]byte, int64) (int, error) { return 0, m.err }
func (m *missing) ReadInto([]byte) error             { return m.err }
func (m *missing) Open() (io.ReadCloser, error)      { return nil, m.err }

// Stored reports no bytes in the file, so that nobody allocates the size that the program
// declares.
func (m *missing) Stored() (tensor.Stored, bool) {
	return tensor.Stored{Offset: -1, Encoding: "raw", Type: m.typeName}, true
}
