package rten

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Enum is a number of one of the schema's enums, such as PadMode.
type Enum struct {
	Type   string // the schema's name of the enum
	Number int
}

// String returns the schema's name of the number, or such as #7 if it is unknown.
func (e Enum) String() string {
	if e.known() {
		return enumNames(e.Type)[e.Number]
	}
	return "#" + strconv.Itoa(e.Number)
}

// known reports whether the schema has the number.
func (e Enum) known() bool { return e.Number >= 0 && e.Number < len(enumNames(e.Type)) }

// enumNames returns the names of an enum by number, nil if there is no such enum.
func enumNames(enum string) []string {
	for i := range rtenfb.Schema.Enums {
		if x := &rtenfb.Schema.Enums[i]; x.Name == enum {
			return x.Names
		}
	}
	return nil
}

// DType returns the dtype of a number of the enum DataType, tensor.Unknown for other
// enums and numbers.
func (e Enum) DType() tensor.DType {
	if e.Type == dataTypeEnum && e.Number >= 0 && e.Number < len(dataTypes) {
		return dataTypes[e.Number]
	}
	return tensor.Unknown
}

const dataTypeEnum = "DataType" // the type of CastAttrs.to

// An Attribute is one setting of an operator.
type Attribute struct {
	Name string // the schema's name
	// Set reports whether the attribute is stored in the file.
	Set bool
	// Value is the value that RTen uses: an int32, uint32, float32, bool, string,
	// []int32, []uint32, Enum, or *Graph. If the attribute is not stored, it is the
	// schema's default, which is zero for most, or nil if absence has a meaning of its
	// own, such as all axes. If ONNX has another default, RTen's converter stores it.
	Value any
}

// Int returns an int32, uint32 or bool attribute as a number. ok is false if the
// attribute has another type or no value, or the operator has no such attribute.
func (o Operator) Int(name string) (v int64, ok bool) {
	a, _ := o.Attribute(name)
	switch x := a.Value.(type) {
	case int32:
		return int64(x), true
	case uint32:
		return int64(x), true
	case bool:
		if x {
			v = 1
		}
		return v, true
	}
	return 0, false
}

// Ints returns an attribute that is a vector of integers, as [Operator.Int] does.
func (o Operator) Ints(name string) (v []int64, ok bool) {
	a, _ := o.Attribute(name)
	switch x := a.Value.(type) {
	case []int32:
		for _, n := range x {
			v = append(v, int64(n))
		}
		return v, true
	case []uint32:
		for _, n := range x {
			v = append(v, int64(n))
		}
		return v, true
	}
	return nil, false
}

// Float returns a float32 attribute, as [Operator.Int] does.
func (o Operator) Float(name string) (v float32, ok bool) { return typed[float32](o, name) }

// Text returns a string attribute, as [Operator.Int] does.
func (o Operator) Text(name string) (v string, ok bool) { return typed[string](o, name) }

// Enum returns an Enum attribute, as [Operator.Int] does.
func (o Operator) Enum(name string) (v Enum, ok bool) { return typed[Enum](o, name) }

func typed[T any](o Operator, name string) (v T, ok bool) {
	a, _ := o.Attribute(name)
	v, ok = a.Value.(T)
	return v, ok
}

// attrTable returns the table of attributes with that tag of the union OperatorAttrs, nil
// for 0 and unknown tags.
func attrTable(tag int) *fb.Table {
	members := rtenfb.Schema.Unions[rtenfb.UnionOperatorAttrs].Members
	if tag <= 0 || tag >= len(members) {
		return nil
	}
	return &rtenfb.Schema.Tables[members[tag]]
}

// AttrsTable returns the name of the operator's table of attributes, such as GemmAttrs.
// It is empty if there is none, and such as #63 if the table is newer than this library.
func (o Operator) AttrsTable() string {
	tag := o.attrsTag()
	if tag == 0 {
		return ""
	}
	if t := attrTable(tag); t != nil {
		return t.Name
	}
	return "#" + strconv.Itoa(tag)
}

func (o Operator) attrsTag() int { return int(o.raw.AttrsType()) }

// attrs returns the operator's table of attributes. t is nil if the operator has none,
// and raw the zero Table if it is not stored.
func (o Operator) attrs() (t *fb.Table, raw flatbuffers.Table) {
	tag := o.attrsTag()
	if rule := o.Type().rule(); tag == 0 && rule.use == optional {
		tag = int(rule.attrs)
	} else {
		o.raw.Attrs(&raw)
	}
	return attrTable(tag), raw
}

// Attributes yields the attributes of the operator's table, in the order of the schema.
// If the table is optional and not stored, no attribute is Set.
func (o Operator) Attributes() iter.Seq[Attribute] {
	return func(yield func(Attribute) bool) {
		table, raw := o.attrs()
		if table == nil {
			return
		}
		for i := range table.Fields {
			if f := &table.Fields[i]; f.Type != fb.Tag && !yield(o.attribute(f, raw)) {
				return
			}
		}
	}
}

// Attribute returns the attribute of that name, and false if the operator's
// table has none.
func (o Operator) Attribute(name string) (Attribute, bool) {
	table, raw := o.attrs()
	if table != nil {
		for i := range table.Fields {
			if f := &table.Fields[i]; f.Name == name && f.Type != fb.Tag {
				return o.attribute(f, raw), true
			}
		}
	}
	return Attribute{}, false
}

// attribute returns a field of the table of attributes raw, which is the zero Table if it
// is not stored.
func (o Operator) attribute(f *fb.Field, raw flatbuffers.Table) Attribute {
	slot := int(f.Slot)
	if raw.Bytes == nil || fb.FieldPos(raw, slot) == 0 {
		return Attribute{Name: f.Name, Value: o.absent(f)}
	}
	a := Attribute{Name: f.Name, Set: true}
	switch f.Kind {
	case fb.Scalar:
		bits := uint32(raw.GetUint8Slot(flatbuffers.VOffsetT(slot), 0))
		if f.Size == 4 {
			bits = raw.GetUint32Slot(flatbuffers.VOffsetT(slot), 0)
		}
		a.Value = scalarValue(f, bits)
	case fb.String:
		b, _ := fb.FieldBytes(raw, slot, 1)
		a.Value = le.String(b)
	case fb.Scalars:
		b, _ := fb.FieldBytes(raw, slot, 4)
		if f.Type == fb.Int32 {
			a.Value = numbers[int32](b)
		} else {
			a.Value = numbers[uint32](b)
		}
	case fb.Union:
		a.Value = unionScalar(f, raw)
	case fb.Child:
		if i, ok := o.n.m.subgraphs()[graphKey{uint32(o.n.graph), uint32(o.n.index), f}]; ok {
			a.Value = o.n.m.graph(i)
		}
	}
	return a
}

// scalarValue returns a scalar of the type of f that is stored as bits.
func scalarValue(f *fb.Field, bits uint32) any {
	switch {
	case f.Enum != 0:
		return Enum{rtenfb.Schema.Enums[f.Enum-1].Name, int(bits)}
	case f.Type == fb.Int32:
		return int32(bits)
	case f.Type == fb.Uint32:
		return bits
	case f.Type == fb.Bool:
		return bits != 0
	}
	return math.Float32frombits(bits)
}

func numbers[T int32 | uint32](b []byte) []T {
	v := make([]T, len(b)/4)
	for i := range v {
		v[i] = T(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// unionScalar returns the union Scalar. RTen reads an unknown kind as the integer 0.
func unionScalar(f *fb.Field, raw flatbuffers.Table) any {
	value, _ := fb.FieldTable(raw, int(f.Slot))
	switch rtenfb.Scalar(raw.GetUint8Slot(flatbuffers.VOffsetT(f.TagSlot()), 0)) {
	case rtenfb.ScalarFloatScalar:
		return value.GetFloat32Slot(rtenfb.SlotFloatScalarValue, 0)
	case rtenfb.ScalarIntScalar:
		return value.GetInt32Slot(rtenfb.SlotIntScalarValue, 0)
	}
	return int32(0)
}

// defaultValue returns the schema's default for a scalar. All defaults of floats are
// zero.
func defaultValue(f *fb.Field) any { return scalarValue(f, uint32(f.Default)) }

// absent returns the value that RTen's loader uses for an attribute that is not stored.
func (o Operator) absent(f *fb.Field) any {
	switch {
	case f.Optional || f.Kind == fb.Child:
		return nil
	case f.Kind == fb.String:
		return ""
	case f.Kind == fb.Union:
		return int32(0)
	case f.Kind == fb.Scalars:
		return o.absentVector(f)
	}
	return defaultValue(f)
}

// absentVector returns the value that RTen uses for a vector that is not stored.
func (o Operator) absentVector(f *fb.Field) any {
	ones := func(like string) any {
		n := 2
		if x, ok := typed[[]uint32](o, like); ok {
			n = len(x)
		}
		return slices.Repeat([]uint32{1}, n)
	}
	switch f.Name {
	case "pads":
		if e, ok := o.Enum("auto_pad"); ok && e.Number == int(rtenfb.AutoPadSame) {
			return nil // they follow from the input
		}
		return make([]uint32, 4)
	case "strides":
		return ones("kernel_size") // of a pool
	case "dilations":
		if _, ok := o.Attribute("output_padding"); ok { // ConvTranspose
			return ones("strides")
		}
		return ones("")
	case "shape":
		return []uint32{}
	}
	return nil
}
