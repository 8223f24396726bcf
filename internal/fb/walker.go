package fb

import "encoding/binary"

// A Walk is a pass over long vectors of tables that verifies what it reads, as a [Cursor] does, but reads by field as an
// [Object] does: one pass of half the time of verifying them first. [Verify] looks at everything else before it, with a
// schema that leaves the elements of those vectors out ([Schema.Leave]).
//
// What is not as it should be makes a table, string or vector absent and the walk fail, without a reason: the caller then
// forgets what it found and asks Verify for the error, which can be that there is none, as a Walk gives up sooner.
type Walk struct {
	checks
	s      *Schema
	failed bool
}

// NewWalk verifies all of buf but the elements of the vectors that rest leaves out of the schema s, and begins a walk over
// these. What rest asks for and what the walk will read share the limits.
func NewWalk(buf []byte, s, rest *Schema, root int, l Limits) (*Walk, error) {
	if err := sized(buf); err != nil {
		return nil, err
	}
	v := newVerifier(buf, rest, l)
	pos, err := v.offset(0)
	if err == nil {
		err = v.table(pos, root, 1)
	}
	if err != nil {
		return nil, err
	}
	return &Walk{checks: v.checks, s: s}, nil
}

// Trust begins a walk over a buffer that Verify passed, which cannot fail.
func Trust(buf []byte, s *Schema) *Walk {
	return &Walk{checks: checks{buf: buf, tables: maxTables, bytes: 1<<64 - 1}, s: s}
}

// Failed reports whether something was not as it should be.
func (k *Walk) Failed() bool { return k.failed }

// Fail gives the walk up.
func (k *Walk) Fail() { k.failed = true }

// Budget reports how many tables the walk may visit, which the caller counts.
func (k *Walk) Budget() int { return k.tables }

// Pos is where element i of a vector of tables is, for [Walker.Seek].
func (k *Walk) Pos(v Objects, i int) uint32 {
	if uint(i) >= uint(v.n) {
		panic("fb: index beyond a vector of tables")
	}
	return k.follow(v.pos + 4*uint32(i))
}

// follow answers where the offset at position at leads to, 0 if it leads nowhere.
func (k *Walk) follow(at uint32) uint32 {
	o := binary.LittleEndian.Uint32(k.buf[at:])
	if uint64(o)-1 >= uint64(len(k.buf))-uint64(at)-4 { // as in checks.offset
		k.failed = true
		return 0
	}
	return at + o
}

// Walker makes a walker for tables of type t, for Seek to move to the first one.
func (k *Walk) Walker(t int) Walker {
	none := layout{vt: ^uint32(0)}
	return Walker{walk: k, buf: k.buf, t: t, layout: none, other: none}
}

// A Walker reads one table after the other of the same type. It remembers the vtables that it saw last: as builders share
// them, most tables then cost a comparison, and their fields one load each. Only fields of the schema may be read.
type Walker struct {
	walk *Walk
	buf  []byte
	t    int
	pos  uint32
	layout
	other layout // programs have tables of two layouts in turns: constants and what is computed
}

// A layout is what is known of the tables that use a vtable.
type layout struct {
	vt        uint32
	mask, low uint32     // bits of the position on which the alignment depends, and what they must be
	limit     uint32     // of the position, so that all fields are inside the buffer
	fields    uint32     // size of the vtable
	off       [12]uint32 // of the first fields from the start of the table, 0 for those that are absent
}

// Seek moves to the table at pos. It is false when its vtable is another one than before: then Load it, before anything
// else is asked. They are two so that the common case is a few instructions in the caller's loop.
func (w *Walker) Seek(pos uint32) bool {
	w.pos = pos
	vt := pos - binary.LittleEndian.Uint32(w.buf[pos:])
	return (vt^w.vt)|((pos&w.mask)^w.low) == 0 && pos <= w.limit
}

// Load verifies and reads the vtable of the table that Seek moved to. A table that is not as it should be has no fields.
func (w *Walker) Load() {
	w.layout, w.other = w.other, w.layout
	if w.Seek(w.pos) {
		return
	}
	var s shape
	pos := uint64(w.pos)
	vt := pos - uint64(int64(int32(binary.LittleEndian.Uint32(w.buf[pos:]))))
	if pos&3 != 0 || w.walk.vtable(pos, vt, &w.walk.s.Tables[w.t], &s) != nil {
		w.walk.failed = true
		w.layout = layout{vt: ^uint32(0), fields: 4}
		return
	}
	mask := uint32(s.mask) | 3
	w.layout = layout{vt: uint32(vt), mask: mask, low: w.pos & mask, limit: uint32(uint64(len(w.buf)) - s.end), fields: uint32(w.walk.u16(vt))}
	for i := range w.off {
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
	return w.walk.follow(w.pos + o)
}

// Bytes answers a vector of elements of size bytes, as bytes of the buffer, and whether it is there.
func (w *Walker) Bytes(slot, size int) ([]byte, bool) {
	p := w.Child(slot)
	if p == 0 {
		return nil, false
	}
	n := uint64(binary.LittleEndian.Uint32(w.buf[p:])) * uint64(size)
	k, start := w.walk, uint64(p)+4
	if p&3 != 0 || n > uint64(len(w.buf))-start || n > k.bytes {
		k.failed = true
		return nil, false
	}
	k.bytes -= n
	return w.buf[start : start+n : start+n], true
}

// String answers the bytes of a string, and whether it is there.
func (w *Walker) String(slot int) ([]byte, bool) {
	b, ok := w.Bytes(slot, 1)
	if ok {
		if end := w.DataAt(slot) + int64(len(b)); end >= int64(len(w.buf)) || w.buf[end] != 0 {
			w.walk.failed = true
			return nil, false
		}
	}
	return b, ok
}

// DataAt is the place in the buffer of the first element of a vector or string, 0 when it is absent.
func (w *Walker) DataAt(slot int) int64 {
	p := w.Child(slot)
	if p == 0 {
		return 0
	}
	return int64(p) + 4
}
