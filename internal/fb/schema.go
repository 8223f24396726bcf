// Package fb is what FlatBuffers for Go lacks: a verifier, to be run before any
// generated accessor; what the generated accessors lack; a builder that writes as
// the builders of C++ and Python do; and the splice of ExecuTorch's extended headers.
//
// The tables that drive the verifier are generated from schema/*.fbs by schema/gen, one
// [Schema] a package of bindings.
package fb

// Kind says what a field of a table holds.
type Kind uint8

const (
	// Scalar is stored inline, in Field.Size bytes.
	Scalar Kind = iota
	// String is bytes with a length before and a zero byte after.
	String
	// Child is another table, Schema.Tables[Field.Index].
	Child
	// Union is a table that depends on the tag, a scalar in the slot before:
	// Schema.Unions[Field.Index].
	Union
	// Scalars is a vector of elements of Field.Size bytes.
	Scalars
	// Tables is a vector of tables, Schema.Tables[Field.Index].
	Tables
	// Strings is a vector of strings.
	Strings
)

// Type is the type of a scalar, or of the elements of a vector of scalars.
type Type uint8

const (
	None Type = iota
	// Tag is the member number of the union in the next slot.
	Tag
	Bool
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float32
	Float64
)

// A Field describes one field of a table.
type Field struct {
	Name string
	// Slot is the field's byte position in the vtable: 4 + 2 × its id.
	Slot     uint16
	Kind     Kind
	Type     Type
	Size     uint8
	Required bool
	// Index of the table or union, for the kinds that have one.
	Index int16
	// Optional is set for a scalar whose absence has a meaning of its own.
	Optional bool
	// Default is the value of an absent scalar.
	Default int64
	// Enum is 1 + the index in Schema.Enums, for a scalar of such a type.
	Enum uint8
}

// An EnumType lists the names of an enum by number, which run from 0 without gaps.
type EnumType struct {
	Name  string
	Names []string
}

// TagSlot is the slot of the tag of a Union.
func (f *Field) TagSlot() uint16 { return f.Slot - 2 }

// A Table describes one table type: its fields in the order of their slots.
type Table struct {
	Name   string
	Fields []Field
}

// FieldName returns the name of the field of that slot.
func (t *Table) FieldName(slot int) string {
	for i := range t.Fields {
		if int(t.Fields[i].Slot) == slot {
			return t.Fields[i].Name
		}
	}
	return ""
}

// A UnionType lists the tables that a union may hold, by tag: indices into
// Schema.Tables, -1 for NONE.
type UnionType struct {
	Name    string
	Members []int16
}

// A Schema is the table types of one package of bindings. Tables refer to each other by
// index, which lets a recursive schema be constant data.
type Schema struct {
	Tables []Table
	Unions []UnionType
	Enums  []EnumType
}
