package onnx

import (
	"encoding/binary"
	"io"
	"math"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
)

// A piece is a part of a typed field in the file: packed numbers, or fields of one number
// each, with their tags.
type piece struct {
	off, n int64
	tagged bool
}

// typed is the elements in a typed field, in the form of raw_data. It is the source of a
// Blob.
type typed struct {
	tensor.Computed
	src    *source.Source
	pieces []piece
	field  uint32
	size   int64 // of the elements in bytes
	count  int64 // of entries
	width  int   // bytes of an entry in raw_data; 0 for elements of six bits
	dtype  tensor.DType
	path   string
}

// typed is the data of a tensor of n elements in one of the typed fields.
func (p *parser) typed(e *entry, x *proto, t *typedField, n, size int64) tensor.Blob {
	d := &dataTypes[x.dataType]
	fixed := t.field == floatData || t.field == doubleData
	if fixed && len(t.pieces) == 1 && !t.pieces[0].tagged { // the bytes of raw_data
		if t.pieces[0].n != size {
			return p.refuse(t.pieces[0].off, size, fieldNames[t.field],
				"%d bytes where %v of %v takes %d", t.pieces[0].n, e.tensor.Shape, d.dtype, size)
		}
		e.raw = p.extent(t.pieces[0].off, size)
		return tensor.NewBlob(&e.raw)
	}
	if size == 0 {
		return p.refuse(x.at, 0, fieldNames[t.field], "elements of a tensor that has none")
	}
	p.charge(192)
	return tensor.NewBlob(&typed{tensor.Computed{}, p.r.src, t.pieces, t.field, size,
		entriesOf(x.dataType, n),
		d.dtype.Bits() * int(d.inEntry) / 8 / int(d.entries), d.dtype,
		p.fieldPath(fieldNames[t.field])})
}

func (t *typed) Size() int64 { return t.size }

// Stored is for Blob. Elements in several places have no offset.
func (t *typed) Stored() (tensor.Stored, bool) {
	st := tensor.Stored{Offset: t.pieces[0].off, Encoding: fieldNames[t.field]}
	if len(t.pieces) > 1 {
		st.Offset = -1
	}
	for _, x := range t.pieces {
		st.Size += x.n
	}
	return st, true
}

// Open is for Blob.
func (t *typed) Open() (io.ReadCloser, error) { return t.open(), nil }

// ReadInto is for Blob.
func (t *typed) ReadInto(b []byte) error {
	r := t.open()
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		return err
	}
	return nil
}

func (t *typed) ReadAt(b []byte, off int64) (int, error) {
	r := t.open()
	if _, err := io.CopyN(io.Discard, r, off); err != nil {
		return 0, err
	}
	return io.ReadFull(r, b)
}

func (t *typed) open() *typedReader {
	r := &typedReader{t: t, misfit: -1}
	r.src, r.size, r.limits = t.src, t.src.Size(), format.DefaultLimits()
	r.path = []step{{t.path, -1}}
	r.low, r.high = t.fits()
	return r
}

// fits returns the range of entries that the dtype has.
func (t *typed) fits() (low, high int64) {
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

// A typedReader decodes a typed field.
type typedReader struct {
	cursor
	t         *typed
	piece     int // that is read
	end       int64
	entries   int64 // that were read
	misfit    int64 // the first that does not fit the dtype, or -1
	low, high int64
	code      uint64 // elements of six bits that do not fill a byte yet
	bits      int
	buf       []byte
	rest      []byte // of buf
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
	const most = 16 << 10
	out := r.buf[:0]
	for len(out) < most && r.err == nil {
		if r.pos == r.end {
			if r.piece == len(r.t.pieces) {
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
			x := r.t.pieces[r.piece]
			r.piece++
			r.pos, r.end = x.off, x.off+x.n
			continue
		}
		if r.entries == r.t.count {
			r.fail(tensor.ErrMalformed, r.pos, "", "more than %d entries", r.t.count)
			break
		}
		v := r.entry()
		if x := int64(v); (x < r.low || x > r.high) && r.misfit < 0 {
			r.misfit = r.entries
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
	if r.t.pieces[r.piece-1].tagged {
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
