package onnx

import (
	"encoding/binary"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A fieldPart is a part of a typed field in the file: packed numbers, or fields of one
// number each, with their tags.
type fieldPart struct {
	off, n int64
	tagged bool
}

// typedData is the elements in a typed field. Reading it gives them in the form of
// raw_data. It is the source of a Blob.
type typedData struct {
	tensor.Computed
	src   *source.Source
	parts []fieldPart
	field uint32
	size  int64 // of the elements in bytes
	count int64 // of entries
	width int   // bytes of an entry in raw_data; 0 for elements of six bits
	dtype tensor.DType
	path  string
}

// typedBlob returns the data of a tensor of n elements in a typed field, size bytes in
// the form of raw_data.
func (p *parser) typedBlob(e *entry, x *proto, t *typedField, n, size int64) tensor.Blob {
	d := &dataTypes[x.dataType]
	fixed := t.field == floatData || t.field == doubleData
	if fixed && len(t.parts) == 1 && !t.parts[0].tagged { // the same bytes as raw_data
		if t.parts[0].n != size {
			return p.unreadableBlob(t.parts[0].off, size, fieldNames[t.field],
				"%d bytes where %v of %v takes %d", t.parts[0].n, e.tensor.Shape, d.dtype, size)
		}
		e.raw = p.extent(t.parts[0].off, size)
		return tensor.NewBlob(&e.raw)
	}
	if size == 0 {
		return p.unreadableBlob(x.at, 0, fieldNames[t.field], "elements of a tensor that has none")
	}
	p.charge(192)
	return tensor.NewBlob(&typedData{tensor.Computed{}, p.r.src, t.parts, t.field, size,
		entriesOf(x.dataType, n),
		d.dtype.Bits() * int(d.inEntry) / 8 / int(d.entries), d.dtype,
		p.fieldPath(fieldNames[t.field])})
}

func (t *typedData) Size() int64 { return t.size }

// Stored returns the offset -1 for elements in several parts.
func (t *typedData) Stored() (tensor.Stored, bool) {
	st := tensor.Stored{Offset: t.parts[0].off, Encoding: fieldNames[t.field]}
	if len(t.parts) > 1 {
		st.Offset = -1
	}
	for _, x := range t.parts {
		st.Size += x.n
	}
	return st, true
}

func (t *typedData) Open() (io.ReadCloser, error) { return t.open(), nil }

func (t *typedData) ReadInto(b []byte) error {
	r := t.open()
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		return err
	}
	return nil
}

func (t *typedData) ReadAt(b []byte, off int64) (int, error) {
	r := t.open()
	if _, err := io.CopyN(io.Discard, r, off); err != nil {
		return 0, err
	}
	return io.ReadFull(r, b)
}

func (t *typedData) open() *typedReader {
	r := &typedReader{t: t, outOfRange: -1}
	r.src, r.size, r.limits = t.src, t.src.Size(), format.DefaultLimits()
	r.path = []step{{t.path, -1}}
	r.low, r.high = t.entryRange()
	return r
}

// entryRange returns the smallest and the largest entry that the dtype can represent.
func (t *typedData) entryRange() (low, high int64) {
	bits := 8 * t.width
	switch {
	case t.field == floatData || t.field == doubleData || bits == 64:
		return math.MinInt64, math.MaxInt64
	case bits == 0:
		return 0, 1<<6 - 1
	case t.dtype == tensor.I8, t.dtype == tensor.I16, t.dtype == tensor.I32:
		return -1 << (bits - 1), 1<<(bits-1) - 1
	}
	return 0, 1<<bits - 1
}

// A typedReader decodes a typed field to the form of raw_data.
type typedReader struct {
	cursor
	t          *typedData
	part       int // that is read
	end        int64
	entries    int64 // that were read
	outOfRange int64 // the first that does not fit the dtype, or -1
	low, high  int64
	code       uint64 // elements of six bits that do not fill a byte yet
	bits       int
	buf        []byte
	rest       []byte // of buf
}

func (r *typedReader) Close() error { return nil }

func (r *typedReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && len(p) > 0 {
		if r.decode(); r.err != nil {
			return 0, r.err
		}
		if len(r.rest) == 0 {
			return 0, io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// decode decodes the next entries into rest, which is empty at the end.
func (r *typedReader) decode() {
	const maxChunk = 16 << 10
	out := r.buf[:0]
	for len(out) < maxChunk && r.err == nil {
		if r.pos == r.end {
			if r.part == len(r.t.parts) {
				if r.entries < r.t.count {
					r.fail(tensor.ErrMalformed, r.pos, "", "%d entries, not %d", r.entries,
						r.t.count)
				}
				if r.bits > 0 {
					out = append(out, byte(r.code))
					r.bits = 0
				}
				break
			}
			x := r.t.parts[r.part]
			r.part++
			r.pos, r.end = x.off, x.off+x.n
			continue
		}
		if r.entries == r.t.count {
			r.fail(tensor.ErrMalformed, r.pos, "", "more than %d entries", r.t.count)
			break
		}
		v := r.entry()
		if x := int64(v); (x < r.low || x > r.high) && r.outOfRange < 0 {
			r.outOfRange = r.entries
		}
		r.entries++
		switch r.t.width {
		case 0:
			r.code |= v & 0x3f << r.bits
			if r.bits += 6; r.bits >= 8 {
				out = append(out, byte(r.code))
				r.code >>= 8
				r.bits -= 8
			}
		case 1:
			out = append(out, byte(v))
		case 2:
			out = binary.LittleEndian.AppendUint16(out, uint16(v))
		case 4:
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		default:
			out = binary.LittleEndian.AppendUint64(out, v)
		}
	}
	r.buf, r.rest = out, out
}

// entry reads one entry.
func (r *typedReader) entry() uint64 {
	if r.t.parts[r.part-1].tagged {
		r.tag(r.end)
	}
	switch r.t.field {
	case floatData:
		return r.fixed(4, r.end)
	case doubleData:
		return r.fixed(8, r.end)
	}
	return r.number(r.end)
}
