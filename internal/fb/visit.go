package fb

import (
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"
)

// A Visit is a table that EachTable comes to. It is valid during the visit.
type Visit struct {
	flatbuffers.Table
	Type   *Table
	s      *Schema
	search *search
	up     *Visit
	field  *Field
	index  int // in a vector of tables; -1 for a field
}

// Path returns the fields that lead to the table, such as graph.nodes[3].data.
func (v *Visit) Path() string {
	if v.up == nil {
		return ""
	}
	p := v.field.Name
	if up := v.up.Path(); up != "" {
		p = up + "." + p
	}
	if v.index >= 0 {
		p += "[" + strconv.Itoa(v.index) + "]"
	}
	return p
}

// EachTable visits all tables of a verified buffer that the schema describes, parents
// first, and as often as they are referred to, until visit returns false.
func EachTable(buf []byte, s *Schema, root int, visit func(v *Visit) bool) {
	left := newSearch(buf)
	v := &Visit{Type: &s.Tables[root], s: s, search: &left, index: -1}
	v.Table = flatbuffers.Table{Bytes: buf, Pos: flatbuffers.GetUOffsetT(buf)}
	v.walk(visit)
}

func (v *Visit) walk(visit func(v *Visit) bool) bool {
	if !visit(v) {
		return false
	}
	for i := range v.Type.Fields {
		f := &v.Type.Fields[i]
		table := int(f.Index)
		switch f.Kind {
		case Union:
			if table = v.member(f); table < 0 {
				continue
			}
			fallthrough
		case Child:
			t, ok := FieldTable(v.Table, int(f.Slot))
			if ok && !(&Visit{t, &v.s.Tables[table], v.s, v.search, v, f, -1}).walk(visit) {
				return false
			}
		case Tables:
			first, n := fieldOffsets(v.Table, int(f.Slot))
			for j := range n {
				t := indirect(v.Table, first+4*j)
				if !(&Visit{t, &v.s.Tables[table], v.s, v.search, v, f, j}).walk(visit) {
					return false
				}
			}
		}
	}
	return true
}

// member is the type of a union's value, -1 if it is absent or newer than the schema.
func (v *Visit) member(f *Field) int {
	tag := int(v.GetUint8Slot(flatbuffers.VOffsetT(f.TagSlot()), 0))
	if members := v.s.Unions[f.Index].Members; tag < len(members) {
		return int(members[tag])
	}
	return -1
}

// Newer calls found for what the table has beyond the schema: fields, and members of
// unions, each with its position in the buffer.
func (v *Visit) Newer(found func(pos int, what string)) {
	v.search.newer(v.Table, v.Type, found)
	for i := range v.Type.Fields {
		f := &v.Type.Fields[i]
		if f.Kind != Union {
			continue
		}
		u := &v.s.Unions[f.Index]
		tag := int(v.GetUint8Slot(flatbuffers.VOffsetT(f.TagSlot()), 0))
		if tag >= len(u.Members) {
			found(FieldPos(v.Table, int(f.TagSlot())), u.Name+" "+strconv.Itoa(tag))
		}
	}
}

// Parts calls part for the ranges of the buffer that the table and the vectors and
// strings of its fields take; field is nil, or what the range is the stored offset or
// scalar of.
func (v *Visit) Parts(part func(pos, n int, field *Field)) {
	part(int(v.Pos), 4, nil)
	part(vtablePos(v.Table), vtableSize(v.Table), nil)
	for i := range v.Type.Fields {
		f := &v.Type.Fields[i]
		pos := FieldPos(v.Table, int(f.Slot))
		if pos == 0 {
			continue
		}
		if f.Kind == Scalar {
			part(pos, int(f.Size), f)
			continue
		}
		part(pos, 4, f)
		to := FieldTarget(v.Table, int(f.Slot))
		switch n := int(flatbuffers.GetUOffsetT(v.Bytes[to:])); f.Kind {
		case String:
			part(to, n+5, nil)
		case Scalars:
			part(to, 4+n*int(f.Size), nil)
		case Tables:
			part(to, 4+4*n, nil)
		case Strings:
			part(to, 4+4*n, nil)
			for j := range n {
				text := indirect(v.Table, to+4+4*j)
				part(int(text.Pos), 5+int(flatbuffers.GetUOffsetT(v.Bytes[text.Pos:])), nil)
			}
		}
	}
}
