package main

import (
	"fmt"
	"sort"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
)

// A binary schema is a FlatBuffer of type reflection.Schema. It comes from flatc a
// moment ago, so it is trusted, and of its tables only these slots are needed.
const (
	schemaObjects, schemaEnums                = 4, 6
	objectName, objectFields, objectIsStruct  = 4, 6, 8
	fieldName, fieldType, fieldID             = 4, 6, 8
	fieldInteger, fieldReal                   = 12, 14
	fieldDeprecated, fieldRequired, fieldAttr = 16, 18, 22
	fieldOptional                             = 26
	typeBase, typeElement, typeIndex          = 4, 6, 8
	enumName, enumValues, enumIsUnion         = 4, 6, 8
	valueName, valueValue, valueType          = 4, 6, 10
	attrKey, attrValue                        = 4, 6
)

// Base types as reflection numbers them; 1 to 12 are the scalars, in the order of
// fb.Type.
const (
	baseTag    = 1
	baseDouble = 12
	baseString = 13
	baseVector = 14
	baseObject = 15
	baseUnion  = 16
)

var sizes = [...]uint8{0, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8}

// tab adds what the generator needs to the runtime's untyped table.
type tab struct{ flatbuffers.Table }

func (t tab) at(slot flatbuffers.VOffsetT) flatbuffers.UOffsetT {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return 0
	}
	return t.Pos + o
}

func (t tab) str(slot flatbuffers.VOffsetT) string {
	if p := t.at(slot); p != 0 {
		return string(t.ByteVector(p))
	}
	return ""
}

func (t tab) child(slot flatbuffers.VOffsetT) (tab, bool) {
	p := t.at(slot)
	if p == 0 {
		return tab{}, false
	}
	return tab{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(p)}}, true
}

func (t tab) list(slot flatbuffers.VOffsetT) []tab {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return nil
	}
	out := make([]tab, t.VectorLen(o))
	start := t.Vector(o)
	for i := range out {
		out[i] = tab{flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(4*i))}}
	}
	return out
}

// A parsed schema: the tables for the verifier, and the attributes of their fields.
type parsed struct {
	fb.Schema
	attributes []attribute
}

// An attribute of a field, such as force_align.
type attribute struct {
	table, field, key, value string
}

// parse reads a binary schema and fails on what the verifier does not know: structs,
// vectors of unions, nested buffers, 64-bit offsets. Our formats have none
// of them.
func parse(bfbs []byte) (*parsed, error) {
	root := tab{flatbuffers.Table{Bytes: bfbs, Pos: flatbuffers.GetUOffsetT(bfbs)}}
	enums, objects := root.list(schemaEnums), root.list(schemaObjects)
	out := new(parsed)
	unions := map[int]int16{} // index among all enums to index among the unions
	plain := map[int]uint8{}  // index among all enums to 1 + index among those kept
	for i, e := range enums {
		if !e.GetBoolSlot(enumIsUnion, false) {
			if names, ok := numbered(e); ok {
				out.Enums = append(out.Enums, fb.EnumType{Name: base(e.str(enumName)), Names: names})
				plain[i] = uint8(len(out.Enums))
			}
			continue
		}
		unions[i] = int16(len(out.Unions))
		u := fb.UnionType{Name: base(e.str(enumName))}
		for _, v := range e.list(enumValues) {
			if tag := v.GetInt64Slot(valueValue, 0); tag != int64(len(u.Members)) {
				return nil, fmt.Errorf("union %s: tags are not 0, 1, 2, …", u.Name)
			}
			member := int16(-1)
			if t, ok := v.child(valueType); ok && len(u.Members) > 0 {
				if t.GetInt8Slot(typeBase, 0) != baseObject {
					return nil, fmt.Errorf("union %s: member %s is not a table", u.Name, v.str(valueName))
				}
				member = int16(t.GetInt32Slot(typeIndex, -1))
			}
			u.Members = append(u.Members, member)
		}
		out.Unions = append(out.Unions, u)
	}
	for _, o := range objects {
		t := fb.Table{Name: base(o.str(objectName))}
		if o.GetBoolSlot(objectIsStruct, false) {
			return nil, fmt.Errorf("%s is a struct", t.Name)
		}
		fields := o.list(objectFields)
		sort.Slice(fields, func(i, j int) bool {
			return fields[i].GetUint16Slot(fieldID, 0) < fields[j].GetUint16Slot(fieldID, 0)
		})
		for id, f := range fields {
			name := f.str(fieldName)
			if f.GetUint16Slot(fieldID, 0) != uint16(id) || f.GetBoolSlot(fieldDeprecated, false) {
				return nil, fmt.Errorf("%s.%s: ids must be 0, 1, 2, … and nothing deprecated", t.Name, name)
			}
			g := fb.Field{Name: name, Slot: uint16(4 + 2*id), Required: f.GetBoolSlot(fieldRequired, false)}
			ty, _ := f.child(fieldType)
			b, elem, index := ty.GetInt8Slot(typeBase, 0), ty.GetInt8Slot(typeElement, 0), ty.GetInt32Slot(typeIndex, -1)
			switch {
			case baseTag <= b && b <= baseDouble:
				g.Kind, g.Type, g.Size, g.Enum = fb.Scalar, fb.Type(b), sizes[b], plain[int(index)]
				g.Default, g.Optional = f.GetInt64Slot(fieldInteger, 0), f.GetBoolSlot(fieldOptional, false)
				if f.GetFloat64Slot(fieldReal, 0) != 0 {
					return nil, fmt.Errorf("%s.%s: a float default is not known to the generator", t.Name, name)
				}
			case b == baseString:
				g.Kind = fb.String
			case b == baseObject:
				g.Kind, g.Index = fb.Child, int16(index)
			case b == baseUnion:
				g.Kind, g.Index = fb.Union, unions[int(index)]
			case b == baseVector && baseTag < elem && elem <= baseDouble:
				g.Kind, g.Type, g.Size = fb.Scalars, fb.Type(elem), sizes[elem]
			case b == baseVector && elem == baseString:
				g.Kind = fb.Strings
			case b == baseVector && elem == baseObject:
				g.Kind, g.Index = fb.Tables, int16(index)
			default:
				return nil, fmt.Errorf("%s.%s: base type %d of %d is not known to the verifier", t.Name, name, b, elem)
			}
			for _, a := range f.list(fieldAttr) {
				out.attributes = append(out.attributes,
					attribute{t.Name, name, a.str(attrKey), a.str(attrValue)})
			}
			t.Fields = append(t.Fields, g)
		}
		out.Tables = append(out.Tables, t)
	}
	return out, nil
}

// numbered returns the names of an enum by number, if these run from 0 without gaps.
func numbered(e tab) (names []string, ok bool) {
	for _, v := range e.list(enumValues) {
		if v.GetInt64Slot(valueValue, 0) != int64(len(names)) {
			return nil, false
		}
		names = append(names, v.str(valueName))
	}
	return names, true
}

// base drops the namespace.
func base(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[i+1:]
		}
	}
	return name
}
