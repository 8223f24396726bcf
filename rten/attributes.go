package rten

import (
	"iter"
	"math"
	"strconv"

	"github.com/tensorfile/tensorfile/tensor"
)

const (
	tagIfAttrs   = 39
	tagLoopAttrs = 49
)

// An Enum is a number with a name: one of the schema's enums, such as PadMode.
type Enum struct {
	Type   string // the enum, in the schema's words
	Number int
}

// String is the schema's name of the number, or #7 for one that it does not
// have.
func (e Enum) String() string {
	for i := range enums {
		if enums[i].name == e.Type && e.Number >= 0 && e.Number < len(enums[i].values) {
			return enums[i].values[e.Number].name
		}
	}
	return "#" + strconv.Itoa(e.Number)
}

// DType is the element type that a number of the enum DataType stands for,
// tensor.Unknown for any other.
func (e Enum) DType() tensor.DType {
	if e.Type == "DataType" && e.Number >= 0 && e.Number < len(dataTypes) {
		return dataTypes[e.Number]
	}
	return tensor.Unknown
}

// An Attribute is one setting of an operator.
type Attribute struct {
	Name string // in the schema's words
	// Set tells an attribute that is stored from one that is absent.
	Set bool
	// Value is what RTen computes with, whether it is stored or not: int32,
	// uint32, float32, bool, string, []int32, []uint32, Enum, or *Graph. It is
	// nil where absence has a meaning of its own, such as a scale that follows
	// from the inputs, or all axes.
	//
	// An absent attribute has the schema's default, which for most is zero, and
	// not ONNX's: the converter writes those explicitly.
	Value any
}

// AttrsTable is the name of the operator's table of attributes, such as
// GemmAttrs. It is empty where the operator has none, and #63 for a table that
// is newer than this library.
func (o Operator) AttrsTable() string {
	switch tag := o.attrsTag(); {
	case tag == 0:
		return ""
	case tag < len(attrTables):
		return attrTables[tag].name
	default:
		return "#" + strconv.Itoa(tag)
	}
}

func (o Operator) attrsTag() int { return int(o.n.m.tag(o.pos, slotOperatorAttrsType)) }

// Attributes yields the attributes of the operator's table, in the order of the
// schema. Where the operator may have a table but the file has none, all are
// absent.
func (o Operator) Attributes() iter.Seq[Attribute] {
	return func(yield func(Attribute) bool) {
		table, pos := o.attrs()
		if table == nil {
			return
		}
		for i := range table.fields {
			if !yield(o.attribute(table, &table.fields[i], pos)) {
				return
			}
		}
	}
}

// Attribute returns the attribute of that name, and false if the operator's
// table has none.
func (o Operator) Attribute(name string) (Attribute, bool) {
	table, pos := o.attrs()
	if table != nil {
		for i := range table.fields {
			if table.fields[i].name == name {
				return o.attribute(table, &table.fields[i], pos), true
			}
		}
	}
	return Attribute{}, false
}

// attrs finds the table of attributes and its position, 0 if it is absent.
func (o Operator) attrs() (*attrTable, int) {
	tag := o.attrsTag()
	switch {
	case tag >= len(attrTables):
		return nil, 0
	case tag > 0:
		return &attrTables[tag], o.n.m.child(o.pos, slotOperatorAttrs)
	}
	if t := o.Type(); t.Known() && operators[t].use == optional {
		return &attrTables[operators[t].attrs], 0
	}
	return nil, 0
}

func (o Operator) attribute(table *attrTable, f *attrField, pos int) Attribute {
	a := Attribute{Name: f.name}
	m := o.n.m
	at := 0
	if pos != 0 {
		at = m.field(pos, slot(int(f.id)))
	}
	a.Set = at != 0
	if !a.Set {
		a.Value = o.absent(table, f, pos)
		return a
	}
	switch f.typ {
	case isInt32:
		a.Value = int32(m.u32(at))
	case isUint32:
		a.Value = m.u32(at)
	case isFloat32:
		a.Value = math.Float32frombits(m.u32(at))
	case isBool:
		a.Value = m.buf[at] != 0
	case isString:
		a.Value, _ = m.str(pos, slot(int(f.id)))
	case isInt32s:
		first, n := m.vector(pos, slot(int(f.id)))
		v := make([]int32, n)
		for i := range v {
			v[i] = int32(m.u32(first + 4*i))
		}
		a.Value = v
	case isUint32s:
		first, n := m.vector(pos, slot(int(f.id)))
		v := make([]uint32, n)
		for i := range v {
			v[i] = m.u32(first + 4*i)
		}
		a.Value = v
	case isGraph:
		b := branch(f.def)
		if i, ok := m.subgraphs()[graphKey{uint32(o.n.graph), uint32(o.n.index), b}]; ok {
			a.Value = m.graph(i)
		}
	case isScalar:
		a.Value = m.scalar(pos, int(f.id))
	default:
		a.Value = Enum{enums[f.typ-isDataType].name, int(m.buf[at])}
	}
	return a
}

// scalar reads the union Scalar whose value has that id. RTen takes one of an
// unknown kind for the integer 0.
func (m *Model) scalar(t, id int) any {
	const intScalar, floatScalar = 1, 2
	var bits uint32
	tag := m.tag(t, slot(id-1))
	if tag == intScalar || tag == floatScalar {
		if f := m.field(m.child(t, slot(id)), slotFirst); f != 0 {
			bits = m.u32(f)
		}
	}
	if tag == floatScalar {
		return math.Float32frombits(bits)
	}
	return int32(bits)
}

// A graphKey finds a subgraph by what owns it.
type graphKey struct {
	up, node uint32
	branch   branch
}

func (m *Model) graphIndex() map[graphKey]int {
	index := make(map[graphKey]int, len(m.graphs))
	for i, g := range m.graphs[1:] {
		index[graphKey{g.up, g.node, g.branch}] = i + 1
	}
	return index
}

// absent is the value of an attribute that is not stored, as RTen's loader has
// it.
func (o Operator) absent(table *attrTable, f *attrField, pos int) any {
	if f.null {
		return nil
	}
	switch f.typ {
	case isInt32:
		return int32(f.def)
	case isUint32:
		return uint32(f.def)
	case isFloat32:
		return float32(f.def)
	case isBool:
		return f.def != 0
	case isString:
		return ""
	case isScalar:
		return int32(0)
	case isInt32s, isGraph:
		return nil
	case isUint32s:
		return o.absentVector(table, f, pos)
	}
	return Enum{enums[f.typ-isDataType].name, int(f.def)}
}

func (o Operator) absentVector(table *attrTable, f *attrField, pos int) any {
	ones := func(n int) any {
		v := make([]uint32, n)
		for i := range v {
			v[i] = 1
		}
		return v
	}
	other := func(name string) any {
		for i := range table.fields {
			if table.fields[i].name == name {
				return o.attribute(table, &table.fields[i], pos).Value
			}
		}
		return nil
	}
	switch f.name {
	case "pads":
		if e, ok := other("auto_pad").(Enum); ok && e.String() == "Same" {
			return nil // they follow from the input
		}
		return make([]uint32, 4)
	case "strides":
		if kernel, ok := other("kernel_size").([]uint32); ok { // a pool
			return ones(len(kernel))
		}
		return ones(2)
	case "dilations":
		if table.name == "ConvTransposeAttrs" {
			strides, _ := other("strides").([]uint32)
			return ones(len(strides))
		}
		return ones(2)
	case "shape":
		return []uint32{}
	}
	return nil
}
