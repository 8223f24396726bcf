package fb

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"
)

// A Node is a table taken out of its buffer, to be changed and written again. Unlike
// the objects that flatc generates it keeps what is stored: a field that is absent
// stays absent, an empty vector or string empty, a default that is stored is stored
// again. Two references to one table become two tables.
type Node struct {
	fields []nodeField             // in the order of slots, those that are stored
	write  func(b *Builder) Offset // of one that the caller writes
}

// Custom returns a node that is written by the caller.
func Custom(write func(b *Builder) Offset) *Node { return &Node{write: write} }

// SetCustom gives the writing of a node to the caller; its fields are forgotten.
func (n *Node) SetCustom(write func(b *Builder) Offset) { *n = Node{write: write} }

type nodeField struct {
	slot  int
	size  int // of a scalar, or of an element of a vector of scalars
	align int // of a vector of scalars
	bits  uint64
	bytes []byte // of a string or a vector of scalars
	node  *Node
	nodes []*Node
	texts [][]byte // of a vector of strings
	kind  Kind
}

// ErrUnknown is the error for content that the schema does not know, and that can
// therefore not be taken along.
var ErrUnknown = errors.New("content of a newer schema")

// Take reads a verified buffer into nodes. The bytes of strings and vectors alias the
// buffer. vectorAlign says what the first byte of a vector of single bytes is aligned
// to when it is written, given its table and slot. It fails with ErrUnknown where the
// buffer has fields or members of unions that the schema lacks: nobody knows what they
// refer to.
func Take(buf []byte, s *Schema, root int, vectorAlign func(table, slot int) int) (*Node, error) {
	t := taker{s, vectorAlign, newSearch(buf)}
	return t.table(flatbuffers.Table{Bytes: buf, Pos: flatbuffers.GetUOffsetT(buf)}, root, "")
}

type taker struct {
	s      *Schema
	align  func(table, slot int) int
	search search
}

func (k *taker) unknown(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s %s", ErrUnknown, path, fmt.Sprintf(format, args...))
}

func (k *taker) table(t flatbuffers.Table, table int, path string) (*Node, error) {
	fields := k.s.Tables[table].Fields
	var err error
	k.search.newer(t, &k.s.Tables[table], func(_ int, what string) {
		if err == nil {
			err = k.unknown(path, "of type %s has %s", k.s.Tables[table].Name, what)
		}
	})
	if err != nil {
		return nil, err
	}
	n := &Node{fields: make([]nodeField, 0, len(fields))}
	for i := range fields {
		f := &fields[i]
		slot := int(f.Slot)
		pos := FieldPos(t, slot)
		if pos == 0 {
			continue
		}
		v := nodeField{slot: slot, kind: f.Kind, size: int(f.Size)}
		sub := func() string {
			if path == "" {
				return f.Name
			}
			return path + "." + f.Name
		}
		switch f.Kind {
		case Scalar:
			for b := range v.size {
				v.bits |= uint64(t.Bytes[pos+b]) << (8 * b)
			}
		case String:
			v.size = 1
			v.bytes, _ = FieldBytes(t, slot, 1)
		case Scalars:
			v.bytes, _ = FieldBytes(t, slot, v.size)
			if v.align = v.size; k.align != nil && v.size == 1 {
				v.align = max(k.align(table, slot), 1)
			}
		case Child:
			child, _ := FieldTable(t, slot)
			v.node, err = k.table(child, int(f.Index), sub())
		case Strings:
			first, n := fieldOffsets(t, slot)
			v.texts = make([][]byte, n)
			for i := range v.texts {
				v.texts[i] = t.ByteVector(flatbuffers.UOffsetT(first + 4*i))
			}
		case Tables:
			first, n := fieldOffsets(t, slot)
			v.nodes = make([]*Node, n)
			for i := range v.nodes {
				if v.nodes[i], err = k.table(indirect(t, first+4*i), int(f.Index),
					sub()+"["+strconv.Itoa(i)+"]"); err != nil {
					break
				}
			}
		case Union:
			members := k.s.Unions[f.Index].Members
			tag := int(t.GetUint8Slot(flatbuffers.VOffsetT(f.TagSlot()), 0))
			if tag == 0 || tag >= len(members) {
				err = k.unknown(sub(), "is member %d of its union", tag)
			} else {
				child, _ := FieldTable(t, slot)
				v.node, err = k.table(child, int(members[tag]), sub())
			}
		}
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, v)
	}
	return n, nil
}

func (n *Node) field(slot int) *nodeField {
	i, ok := n.find(slot)
	if !ok {
		return nil
	}
	return &n.fields[i]
}

func (n *Node) find(slot int) (int, bool) {
	return slices.BinarySearchFunc(n.fields, slot,
		func(f nodeField, slot int) int { return cmp.Compare(f.slot, slot) })
}

func (n *Node) set(f nodeField) *Node {
	i, ok := n.find(f.slot)
	if ok {
		n.fields[i] = f
	} else {
		n.fields = slices.Insert(n.fields, i, f)
	}
	return n
}

// Clone returns a node with the same fields, to be changed without changing n. Nodes
// below it are shared.
func (n *Node) Clone() *Node { return &Node{fields: slices.Clone(n.fields), write: n.write} }

// Has reports whether a field is stored.
func (n *Node) Has(slot int) bool { return n.field(slot) != nil }

// Remove makes a field absent.
func (n *Node) Remove(slot int) {
	if i, ok := n.find(slot); ok {
		n.fields = slices.Delete(n.fields, i, i+1)
	}
}

// Scalar returns a scalar, or def when it is absent.
func (n *Node) Scalar(slot int, def uint64) uint64 {
	if f := n.field(slot); f != nil {
		return f.bits
	}
	return def
}

// SetScalar stores a scalar of size bytes, also if it is the schema's default. Like all
// setters it returns n.
func (n *Node) SetScalar(slot, size int, bits uint64) *Node {
	return n.set(nodeField{slot: slot, kind: Scalar, size: size, bits: bits})
}

// SetNumber is SetScalar, but leaves a field absent that would become zero.
func (n *Node) SetNumber(slot, size int, bits uint64) *Node {
	if bits == 0 && !n.Has(slot) {
		return n
	}
	return n.SetScalar(slot, size, bits)
}

// Child returns a table, nil when it is absent.
func (n *Node) Child(slot int) *Node {
	if f := n.field(slot); f != nil {
		return f.node
	}
	return nil
}

// SetChild stores a table.
func (n *Node) SetChild(slot int, c *Node) *Node {
	return n.set(nodeField{slot: slot, kind: Child, node: c})
}

// Children returns the tables of a vector, nil when it is absent.
func (n *Node) Children(slot int) []*Node {
	if f := n.field(slot); f != nil {
		return f.nodes
	}
	return nil
}

// SetChildren stores a vector of tables.
func (n *Node) SetChildren(slot int, c []*Node) *Node {
	return n.set(nodeField{slot: slot, kind: Tables, nodes: c})
}

// Bytes returns a string or a vector of scalars.
func (n *Node) Bytes(slot int) []byte {
	if f := n.field(slot); f != nil {
		return f.bytes
	}
	return nil
}

// SetString stores a string.
func (n *Node) SetString(slot int, s string) *Node {
	return n.set(nodeField{slot: slot, kind: String, size: 1, bytes: []byte(s)})
}

// SetBytes stores a vector of bytes whose first is aligned to align.
func (n *Node) SetBytes(slot int, b []byte, align int) *Node {
	return n.set(nodeField{slot: slot, kind: Scalars, size: 1, align: align, bytes: b})
}

// SetVector stores a vector of scalars of size bytes each, as bytes in the order of the
// file.
func (n *Node) SetVector(slot int, b []byte, size int) *Node {
	return n.set(nodeField{slot: slot, kind: Scalars, size: size, align: size, bytes: b})
}

// EachField visits every stored field of the node and of all below it, until visit
// returns false. It may remove the field that it is given if it then ends the visit.
func (n *Node) EachField(visit func(n *Node, slot int) bool) bool {
	for i := range n.fields {
		f := n.fields[i]
		if !visit(n, f.slot) {
			return false
		}
		if f.node != nil && !f.node.EachField(visit) {
			return false
		}
		for _, c := range f.nodes {
			if !c.EachField(visit) {
				return false
			}
		}
	}
	return true
}

// Write writes the node and all below it.
func (n *Node) Write(b *Builder) Offset { return n.writeIn(b, false) }

// WriteBackward is Write with the elements of vectors of tables and the fields of
// tables from the last to the first, so that both come in the order of the schema in
// the buffer.
func (n *Node) WriteBackward(b *Builder) Offset { return n.writeIn(b, true) }

func (n *Node) writeIn(b *Builder, backward bool) Offset {
	if n.write != nil {
		return n.write(b)
	}
	at := make([]Offset, len(n.fields))
	for i := range n.fields {
		f := &n.fields[i]
		switch f.kind {
		case String:
			at[i] = b.String(string(f.bytes))
		case Scalars:
			at[i] = b.Scalars(f.bytes, f.size, f.align)
		case Child, Union:
			at[i] = f.node.writeIn(b, backward)
		case Tables:
			list := make([]Offset, len(f.nodes))
			for k := range list {
				k = inOrder(k, len(list), backward)
				list[k] = f.nodes[k].writeIn(b, backward)
			}
			at[i] = b.Offsets(list)
		case Strings:
			list := make([]Offset, len(f.texts))
			for k := range list {
				k = inOrder(k, len(list), backward)
				list[k] = b.String(string(f.texts[k]))
			}
			at[i] = b.Offsets(list)
		}
	}
	b.Begin()
	for _, size := range [...]int{8, 4, 2, 1} { // large ones first: they need the least padding so
		for i := range n.fields {
			i = inOrder(i, len(n.fields), backward)
			f := &n.fields[i]
			switch {
			case f.kind == Scalar && f.size == size:
				b.Scalar(f.slot, size, f.bits, ^f.bits)
			case f.kind != Scalar && size == 4:
				b.Ref(f.slot, at[i])
			}
		}
	}
	return b.End()
}

func inOrder(i, n int, backward bool) int {
	if backward {
		return n - 1 - i
	}
	return i
}
