package rten

import (
	"strconv"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
)

// A step is a field, or an element of a vector, on the way from the root to a
// table. The way is only spelled out where something is to be said.
type step struct {
	up    *step
	name  string
	index int // -1 for a field
}

func (s *step) String() string {
	switch {
	case s == nil:
		return ""
	case s.index >= 0:
		return s.up.String() + "[" + strconv.Itoa(s.index) + "]"
	case s.up == nil:
		return s.name
	}
	return s.up.String() + "." + s.name
}

// walk visits every table that the schema knows, parents first, as often as it
// is referred to. visit returns false to end the walk.
func (m *Model) walk(visit func(at *step, pos int, t *fb.Table) bool) {
	m.walkTable(nil, m.root(), rtenfb.TableModel, visit)
}

func (m *Model) walkTable(at *step, pos, table int, visit func(at *step, pos int, t *fb.Table) bool) bool {
	t := &rtenfb.Schema.Tables[table]
	if !visit(at, pos, t) {
		return false
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		switch f.Kind {
		case fb.Child:
			if c := m.child(pos, int(f.Slot)); c != 0 && !m.walkTable(&step{at, f.Name, -1}, c, int(f.Index), visit) {
				return false
			}
		case fb.Union:
			tag := int(m.tag(pos, int(f.Slot)-2))
			members := rtenfb.Schema.Unions[f.Index].Members
			if tag == 0 || tag >= len(members) {
				continue
			}
			if !m.walkTable(&step{at, f.Name, -1}, m.child(pos, int(f.Slot)), int(members[tag]), visit) {
				return false
			}
		case fb.Tables:
			first, n := m.vector(pos, int(f.Slot))
			here := &step{at, f.Name, -1}
			for j := range n {
				entry := first + 4*j
				if !m.walkTable(&step{here, "", j}, entry+int(m.u32(entry)), int(f.Index), visit) {
					return false
				}
			}
		}
	}
	return true
}

// newer yields what a table has beyond the schema: fields of larger ids, and
// unions whose member has no name here.
func (m *Model) newer(pos int, t *fb.Table, found func(at int, field string)) {
	vtable := pos - int(int32(m.u32(pos)))
	known := 4
	if n := len(t.Fields); n > 0 {
		known = int(t.Fields[n-1].Slot) + 2
	}
	for s := known; s < m.u16(vtable); s += 2 {
		if off := m.u16(vtable + s); off != 0 {
			found(min(pos+off, len(m.buf)-1), "field "+strconv.Itoa((s-4)/2))
		}
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Kind != fb.Union {
			continue
		}
		u := &rtenfb.Schema.Unions[f.Index]
		if tag := int(m.tag(pos, int(f.Slot)-2)); tag >= len(u.Members) {
			found(m.field(pos, int(f.Slot)-2), u.Name+" "+strconv.Itoa(tag))
		}
	}
}

// unknown says where the model has content that the schema does not describe,
// which a rewriting that moves tables could not keep. It is empty if there is
// none.
func (m *Model) unknown() (where string) {
	m.walk(func(at *step, pos int, t *fb.Table) bool {
		m.newer(pos, t, func(_ int, field string) {
			where = field + " of " + t.Name
			if at != nil {
				where += " at " + at.String()
			}
		})
		return where == ""
	})
	return where
}

// tangled reports whether one of the words that are to be patched is part of
// something else too. No writer does that, but nothing forbids a flatbuffer
// whose parts overlap. own are the fields that may be patched, by the name of
// the table and the slot.
func (m *Model) tangled(patched []int, own func(table string, slot int) bool) bool {
	words := make([]uint64, len(m.buf)/256+1)
	for _, pos := range patched {
		words[pos/256] |= 1 << (pos / 4 % 64)
	}
	hit := func(from, n int) bool {
		if n == 0 {
			return false
		}
		first, last := from/4, (from+n-1)/4
		for w := first / 64; w <= last/64; w++ {
			mask := ^uint64(0)
			if w == first/64 {
				mask <<= first % 64
			}
			if w == last/64 {
				mask &= ^uint64(0) >> (63 - last%64)
			}
			if words[w]&mask != 0 {
				return true
			}
		}
		return false
	}
	found := hit(0, 4)
	m.walk(func(_ *step, pos int, t *fb.Table) bool {
		vtable := pos - int(int32(m.u32(pos)))
		found = found || hit(pos, 4) || hit(vtable, m.u16(vtable))
		for i := range t.Fields {
			f := &t.Fields[i]
			at := m.field(pos, int(f.Slot))
			if at == 0 || found {
				continue
			}
			size := int(f.Size)
			if f.Kind != fb.Scalar {
				size = 4
				v, n := m.vector(pos, int(f.Slot))
				switch f.Kind {
				case fb.String:
					found = hit(v-4, n+5)
				case fb.Scalars:
					found = hit(v-4, 4+n*int(f.Size))
				case fb.Tables:
					found = hit(v-4, 4+4*n)
				}
			}
			if !own(t.Name, int(f.Slot)) {
				found = found || hit(at, size)
			}
		}
		return !found
	})
	return found
}
