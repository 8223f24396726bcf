package fb

import "encoding/binary"

// A View is a verified table, for reading many of them: it looks at the vtable's header once where a generated accessor does
// so for every field. Fields are named by their slot, the byte position in the vtable, 4 + 2 × id. What a field's absence
// means is zero or nothing; fields with another default are for the generated accessors.
type View struct {
	buf     []byte
	pos, vt uint32
	size    uint32 // of the vtable
}

// ViewAt answers the table at pos of a verified buffer.
func ViewAt(buf []byte, pos uint32) View {
	vt := pos - binary.LittleEndian.Uint32(buf[pos:])
	return View{buf, pos, vt, uint32(binary.LittleEndian.Uint16(buf[vt:]))}
}

// Offset is where the table is.
func (t View) Offset() int64 { return int64(t.pos) }

// At answers where a field is: for a scalar the value, for all else the offset that leads to it; 0 when it is absent.
func (t View) At(slot uint32) int64 { return int64(t.at(slot)) }

func (t View) at(slot uint32) uint32 {
	if slot+2 > t.size {
		return 0
	}
	if o := uint32(binary.LittleEndian.Uint16(t.buf[t.vt+slot:])); o != 0 {
		return t.pos + o
	}
	return 0
}

// Uint8 is a scalar of one byte.
func (t View) Uint8(slot uint32) uint8 {
	if p := t.at(slot); p != 0 {
		return t.buf[p]
	}
	return 0
}

// Uint32 is a scalar of four bytes.
func (t View) Uint32(slot uint32) uint32 {
	if p := t.at(slot); p != 0 {
		return binary.LittleEndian.Uint32(t.buf[p:])
	}
	return 0
}

// Uint64 is a scalar of eight bytes.
func (t View) Uint64(slot uint32) uint64 {
	if p := t.at(slot); p != 0 {
		return binary.LittleEndian.Uint64(t.buf[p:])
	}
	return 0
}

// Child is another table, and whether it is there.
func (t View) Child(slot uint32) (View, bool) {
	p := t.at(slot)
	if p == 0 {
		return View{}, false
	}
	return ViewAt(t.buf, p+binary.LittleEndian.Uint32(t.buf[p:])), true
}

// Scalars answers the bytes of a vector of elements of size bytes, or of a string, whose size is 1, and whether it is
// there. They alias the buffer.
func (t View) Scalars(slot, size uint32) ([]byte, bool) {
	p := t.at(slot)
	if p == 0 {
		return nil, false
	}
	p += binary.LittleEndian.Uint32(t.buf[p:])
	n := binary.LittleEndian.Uint32(t.buf[p:]) * size
	return t.buf[p+4 : p+4+n : p+4+n], true
}

// Tables answers a vector of tables, and whether it is there.
func (t View) Tables(slot uint32) (Views, bool) {
	p := t.at(slot)
	if p == 0 {
		return Views{}, false
	}
	p += binary.LittleEndian.Uint32(t.buf[p:])
	return Views{t.buf, p + 4, int(binary.LittleEndian.Uint32(t.buf[p:]))}, true
}

// Views is a vector of tables.
type Views struct {
	buf   []byte
	first uint32
	n     int
}

// Offset is where the vector is.
func (v Views) Offset() int64 { return int64(v.first) - 4 }

// Len is the number of tables.
func (v Views) Len() int { return v.n }

// At answers table i.
func (v Views) At(i int) View {
	p := v.first + 4*uint32(i)
	return ViewAt(v.buf, p+binary.LittleEndian.Uint32(v.buf[p:]))
}
