package fb

import "encoding/binary"

// A Walker reads one table after the other of the same type. It is an [Object] that remembers the vtable it saw last: as
// builders share vtables, most tables then cost one comparison, and their fields one load each. It makes the difference
// in loops over hundreds of thousands of tables. The same rules hold: only verified buffers, only fields of the schema.
type Walker struct {
	buf    []byte
	pos    uint32
	vt     uint32
	fields uint32
	off    [12]uint32 // of the first fields from the start of the table, 0 for those that are absent
}

// NewWalker makes a walker for tables of buf, for Seek to move to the first one.
func NewWalker(buf []byte) Walker { return Walker{buf: buf, vt: ^uint32(0)} }

// Seek moves to the table at pos. It is false when its vtable is another one than before: then Load it, before anything
// else is asked. They are two so that the common case is a few instructions in the caller's loop.
func (w *Walker) Seek(pos uint32) bool {
	w.pos = pos
	return pos-binary.LittleEndian.Uint32(w.buf[pos:]) == w.vt
}

// Load reads the vtable of the table that Seek moved to.
func (w *Walker) Load() {
	w.vt = w.pos - binary.LittleEndian.Uint32(w.buf[w.pos:])
	w.fields = uint32(binary.LittleEndian.Uint16(w.buf[w.vt:]))
	for i := range w.off {
		w.off[i] = 0
		if slot := uint32(4 + 2*i); slot < w.fields {
			w.off[i] = uint32(binary.LittleEndian.Uint16(w.buf[w.vt+slot:]))
		}
	}
}

// Object is the table that the walker is at.
func (w *Walker) Object() Object { return Object{w.buf, w.pos, w.vt, w.fields} }

// Pos is the place of the table in its buffer.
func (w *Walker) Pos() int64 { return int64(w.pos) }

// Slots is how many fields the vtable has room for.
func (w *Walker) Slots() int { return (int(w.fields) - 4) / 2 }

// Has reports whether the field is stored.
func (w *Walker) Has(slot int) bool { return w.off[(slot-4)/2] != 0 }

// At is the place of a field in the buffer, or that of the table when the field is absent.
func (w *Walker) At(slot int) int64 { return int64(w.pos + w.off[(slot-4)/2]) }

// Uint8 answers a scalar of one byte, or def when it is absent; so do the others for theirs.
func (w *Walker) Uint8(slot int, def uint8) uint8 {
	if o := w.off[(slot-4)/2]; o != 0 {
		return w.buf[w.pos+o]
	}
	return def
}

func (w *Walker) Uint32(slot int, def uint32) uint32 {
	if o := w.off[(slot-4)/2]; o != 0 {
		return binary.LittleEndian.Uint32(w.buf[w.pos+o:])
	}
	return def
}

// Child answers where a table is that the field refers to, 0 when it is absent.
func (w *Walker) Child(slot int) uint32 {
	o := w.off[(slot-4)/2]
	if o == 0 {
		return 0
	}
	o += w.pos
	return o + binary.LittleEndian.Uint32(w.buf[o:])
}

// Bytes answers a string, or a vector of elements of size bytes, as bytes of the buffer, and whether it is there.
func (w *Walker) Bytes(slot, size int) ([]byte, bool) {
	p := w.Child(slot)
	if p == 0 {
		return nil, false
	}
	start := int(p) + 4
	end := start + int(binary.LittleEndian.Uint32(w.buf[p:]))*size
	return w.buf[start:end:end], true
}

// DataAt is the place in the buffer of the first element of a vector or string, 0 when it is absent.
func (w *Walker) DataAt(slot int) int64 {
	p := w.Child(slot)
	if p == 0 {
		return 0
	}
	return int64(p) + 4
}
