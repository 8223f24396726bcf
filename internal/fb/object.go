package fb

import (
	"encoding/binary"
)

// An Object reads the fields of one table of a verified buffer by their slots. Unlike the generated accessors it looks for
// the vtable once, allocates nothing, and tells absent from empty, which makes it the tool of code that visits every
// table of a large program. Only a buffer that [Verify] passed may be read, and only fields that its schema has; the zero
// Object stands for a table that is absent, and all of its fields are.
type Object struct {
	buf    []byte
	pos    uint32
	vt     uint32
	fields uint32 // size of the vtable
}

// Root answers the root table of a verified buffer.
func Root(buf []byte) Object { return at(buf, binary.LittleEndian.Uint32(buf)) }

func at(buf []byte, pos uint32) Object {
	vt := uint32(int32(pos) - int32(binary.LittleEndian.Uint32(buf[pos:])))
	return Object{buf, pos, vt, uint32(binary.LittleEndian.Uint16(buf[vt:]))}
}

// Present reports whether the table is there.
func (t Object) Present() bool { return t.buf != nil }

// Pos is the place of the table in its buffer.
func (t Object) Pos() int64 { return int64(t.pos) }

// Slots is how many fields the vtable has room for: more than the schema knows when a newer one wrote the table.
func (t Object) Slots() int { return (int(t.fields) - 4) / 2 }

// field is the place of a field, 0 when it is absent.
func (t *Object) field(slot int) uint32 {
	if uint32(slot) >= t.fields {
		return 0
	}
	o := uint32(binary.LittleEndian.Uint16(t.buf[t.vt+uint32(slot):]))
	if o == 0 {
		return 0
	}
	return t.pos + o
}

// Has reports whether the field is stored.
func (t Object) Has(slot int) bool { return t.field(slot) != 0 }

// At is the place of a field in the buffer, or that of the table when the field is absent.
func (t Object) At(slot int) int64 {
	if p := t.field(slot); p != 0 {
		return int64(p)
	}
	return int64(t.pos)
}

// Uint8 answers a scalar of one byte, or def when it is absent; so do the others for theirs.
func (t Object) Uint8(slot int, def uint8) uint8 {
	if p := t.field(slot); p != 0 {
		return t.buf[p]
	}
	return def
}

func (t Object) Uint16(slot int, def uint16) uint16 {
	if p := t.field(slot); p != 0 {
		return binary.LittleEndian.Uint16(t.buf[p:])
	}
	return def
}

func (t Object) Uint32(slot int, def uint32) uint32 {
	if p := t.field(slot); p != 0 {
		return binary.LittleEndian.Uint32(t.buf[p:])
	}
	return def
}

func (t Object) Uint64(slot int, def uint64) uint64 {
	if p := t.field(slot); p != 0 {
		return binary.LittleEndian.Uint64(t.buf[p:])
	}
	return def
}

// Child answers a table, the value of a union included. The value of a union whose type the schema does not know was not
// verified: it is absent when it is no table at all, and otherwise nothing but its presence may be asked.
func (t Object) Child(slot int) Object {
	p := t.field(slot)
	if p == 0 {
		return Object{}
	}
	p += binary.LittleEndian.Uint32(t.buf[p:])
	n := uint32(len(t.buf)) // a verified buffer is shorter than 2 GiB
	if p > n-4 {
		return Object{}
	}
	if vt := uint32(int32(p) - int32(binary.LittleEndian.Uint32(t.buf[p:]))); vt > n-4 {
		return Object{}
	}
	return at(t.buf, p)
}

// Bytes answers a string, or a vector of elements of size bytes, as bytes of the buffer, and whether it is there.
func (t Object) Bytes(slot, size int) ([]byte, bool) {
	p := t.field(slot)
	if p == 0 {
		return nil, false
	}
	p += binary.LittleEndian.Uint32(t.buf[p:])
	start := int(p) + 4
	end := start + int(binary.LittleEndian.Uint32(t.buf[p:]))*size
	return t.buf[start:end:end], true
}

// DataAt is the place in the buffer of the first element of a vector or string, 0 when it is absent.
func (t Object) DataAt(slot int) int64 {
	p := t.field(slot)
	if p == 0 {
		return 0
	}
	return int64(p+binary.LittleEndian.Uint32(t.buf[p:])) + 4
}

// Objects answers a vector of tables.
func (t Object) Objects(slot int) Objects {
	p := t.field(slot)
	if p == 0 {
		return Objects{}
	}
	p += binary.LittleEndian.Uint32(t.buf[p:])
	return Objects{t.buf, p + 4, int(binary.LittleEndian.Uint32(t.buf[p:]))}
}

// Objects is a vector of tables. The zero value is absent.
type Objects struct {
	buf []byte
	pos uint32
	n   int
}

// Present reports whether the vector is there; an empty one is.
func (v Objects) Present() bool { return v.buf != nil }

// Len is the number of tables.
func (v Objects) Len() int { return v.n }

// At answers table i, which must be below Len: what lies behind the vector is never a table.
func (v Objects) At(i int) Object {
	if uint(i) >= uint(v.n) {
		panic("fb: index beyond a vector of tables")
	}
	p := v.pos + 4*uint32(i)
	return at(v.buf, p+binary.LittleEndian.Uint32(v.buf[p:]))
}

// Pos is where table i is, for a [Walker].
func (v Objects) Pos(i int) uint32 {
	if uint(i) >= uint(v.n) {
		panic("fb: index beyond a vector of tables")
	}
	p := v.pos + 4*uint32(i)
	return p + binary.LittleEndian.Uint32(v.buf[p:])
}
