package fb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
)

// ErrTooLarge is the only way in which a Builder fails: the offsets of a FlatBuffer
// span less than 2 GiB.
var ErrTooLarge = errors.New("flatbuffer would exceed 2 GiB")

// An Offset names something that a Builder wrote, by its distance from the end of the
// buffer; 0 is nothing.
type Offset uint32

// A Builder writes a FlatBuffer from its end to its start, children before parents,
// byte for byte as the builders of C++ and Python do. The runtime's own builder does
// not: it lets tables share a vtable that agrees in the fields and differs in the table
// size. It also panics where this one remembers an error for Finish. Fields are named
// by their slot, the byte position in the vtable; what is written first is last, so
// that the order of calls is part of the output.
//
// The zero value is ready to use.
type Builder struct {
	buf      []byte // written from the end
	used     int    // bytes of it
	align    int    // largest alignment so far
	fields   []int  // of the open table, by id: where it ends, counted like Offset
	start    int    // used when the open table began
	vtables  []int  // of the vtables written, counted like Offset
	tables   int    // ended
	tooLarge bool
	lower    int // by how much the buffer must be shorter than 2 GiB, for tests
}

// Grow reserves space for at least n more bytes
// than that, so that a builder who is almost right makes the buffer in one piece. If
// that is more than a FlatBuffer can have, Finish fails, and until then nothing takes
// memory.
func (b *Builder) Grow(n int64) {
	if n > int64(maxSize-b.lower-b.used) {
		b.tooLarge = true
	} else if n += int64(b.used); n > int64(len(b.buf)) {
		b.enlarge(int(min(n+n/8+1<<10, maxSize)))
	}
}

// maxSize is what an offset can span.
const maxSize = math.MaxInt32

func (b *Builder) enlarge(size int) {
	grown := make([]byte, size)
	copy(grown[size-b.used:], b.buf[len(b.buf)-b.used:])
	b.buf = grown
}

// prep pads so that the position is aligned once n more bytes are written, and reserves
// space for those and for 8 more.
func (b *Builder) prep(align, n int) {
	b.align = max(b.align, align)
	pad := -(b.used + n) & (align - 1)
	if n > maxSize-b.lower-b.used-pad-8 {
		b.tooLarge = true
	}
	if b.tooLarge {
		return
	}
	if need := b.used + pad + n + 8; need > len(b.buf) {
		b.enlarge(int(max(min(2*int64(len(b.buf)), maxSize), int64(need), 1024)))
	}
	b.used += pad
	clear(b.buf[len(b.buf)-b.used:][:pad])
}

// push returns the next n bytes, to be filled by the caller. prep reserved it.
func (b *Builder) push(n int) []byte {
	if b.tooLarge {
		return make([]byte, min(n, 8))
	}
	b.used += n
	return b.buf[len(b.buf)-b.used:][:n]
}

// scalar writes the low bytes of x, aligned to their number.
func (b *Builder) scalar(size int, x uint64) {
	b.prep(size, 0)
	p := b.push(size)
	for i := range p {
		p[i] = byte(x >> (8 * i))
	}
}

// ref writes the offset to what was written before.
func (b *Builder) ref(to Offset) {
	b.prep(4, 0)
	p := b.push(4)
	binary.LittleEndian.PutUint32(p, uint32(b.used)-uint32(to))
}

// String writes a string.
func (b *Builder) String(s string) Offset {
	b.prep(4, len(s)+1)
	b.push(1)[0] = 0
	copy(b.push(len(s)), s)
	binary.LittleEndian.PutUint32(b.push(4), uint32(len(s)))
	return Offset(b.used)
}

// Scalars writes a vector of little-endian elements of size bytes, whose first is
// aligned to size or, if it is larger, to align, a power of two.
func (b *Builder) Scalars(data []byte, size, align int) Offset {
	b.prep(4, len(data))
	b.prep(max(size, align, 1), len(data))
	copy(b.push(len(data)), data)
	binary.LittleEndian.PutUint32(b.push(4), uint32(len(data)/size))
	return Offset(b.used)
}

// Offsets writes a vector of tables or strings.
func (b *Builder) Offsets(to []Offset) Offset {
	b.prep(4, 4*len(to))
	for i := len(to) - 1; i >= 0; i-- {
		b.ref(to[i])
	}
	b.prep(4, 0)
	binary.LittleEndian.PutUint32(b.push(4), uint32(len(to)))
	return Offset(b.used)
}

// Begin opens a table. Its children must have been written, and no other table may be
// open.
func (b *Builder) Begin() {
	b.fields = b.fields[:0]
	b.start = b.used
}

// Scalar sets a scalar of size bytes to the low bytes of x. Like every builder it
// leaves out the field when x is the default of the schema, def.
func (b *Builder) Scalar(slot, size int, x, def uint64) {
	if x != def {
		b.scalar(size, x)
		b.set(slot)
	}
}

// Ref sets a field to a string, vector or table, or leaves it out when to is 0.
func (b *Builder) Ref(slot int, to Offset) {
	if to != 0 {
		b.ref(to)
		b.set(slot)
	}
}

func (b *Builder) set(slot int) {
	id := (slot - 4) / 2
	for len(b.fields) <= id {
		b.fields = append(b.fields, 0)
	}
	b.fields[id] = b.used
}

// A Value is a field of a table with what it holds.
type Value struct {
	slot, size int // size 0 for a reference
	bits       uint64
	to         Offset
	stored     bool // also a zero
}

// Ref is a reference; to nothing it is not stored.
func Ref(slot int, to Offset) Value { return Value{slot: slot, to: to} }

// Number is a scalar of size bytes; zero is not stored.
func Number(slot, size int, x uint64) Value { return Value{slot: slot, size: size, bits: x} }

// Stored is Number, but zero is stored too.
func Stored(slot, size int, x uint64) Value {
	return Value{slot: slot, size: size, bits: x, stored: true}
}

// Table writes a table with fields in that order.
func (b *Builder) Table(fields ...Value) Offset {
	b.Begin()
	for _, f := range fields {
		switch {
		case f.size == 0:
			b.Ref(f.slot, f.to)
		case f.stored:
			b.Scalar(f.slot, f.size, f.bits, ^f.bits)
		default:
			b.Scalar(f.slot, f.size, f.bits, 0)
		}
	}
	return b.End()
}

// Tables returns how many tables were written.
func (b *Builder) Tables() int { return b.tables }

// End closes the table, with a vtable of its own or one that is equal in every byte.
func (b *Builder) End() Offset {
	b.tables++
	b.scalar(4, 0) // becomes the offset of the vtable
	table := b.used
	size := 4 + 2*len(b.fields)
	b.prep(2, size)
	if b.tooLarge {
		return Offset(table)
	}
	vtable := b.push(size)
	binary.LittleEndian.PutUint16(vtable, uint16(size))
	binary.LittleEndian.PutUint16(vtable[2:], uint16(table-b.start))
	for id, at := range b.fields {
		if at != 0 {
			at = table - at
		}
		binary.LittleEndian.PutUint16(vtable[4+2*id:], uint16(at))
	}
	at := b.used
	for _, v := range b.vtables {
		if old := b.buf[len(b.buf)-v:]; bytes.HasPrefix(old, vtable) {
			b.used, at = table, v
			break
		}
	}
	if at == b.used {
		b.vtables = append(b.vtables, at)
	}
	binary.LittleEndian.PutUint32(b.buf[len(b.buf)-table:], uint32(at-table))
	return Offset(table)
}

// Finish writes the identifier, of four bytes or empty, and the offset of the root, and
// returns the buffer. It is the builder's own memory.
func (b *Builder) Finish(root Offset, identifier string) ([]byte, error) {
	b.prep(max(b.align, 4), 4+len(identifier))
	copy(b.push(len(identifier)), identifier)
	b.ref(root)
	if b.tooLarge {
		return nil, ErrTooLarge
	}
	return b.buf[len(b.buf)-b.used:], nil
}
