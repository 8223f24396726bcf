package rten

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// RTen's verifier refuses what exceeds these.
const (
	rtenMaxTables = 1_000_000
	rtenMaxDepth  = 64
)

// check verifies the whole flatbuffer, then finds its graphs and constants and refuses
// what the schema cannot express but every reader must refuse.
func (m *Model) check(limits tensor.Limits) error {
	// As RTen's verifier: strings are UTF-8, and unions have a tag and a value or
	// neither.
	err := fb.Verify(m.buf, &rtenfb.Schema, rtenfb.TableModel,
		fb.Limits{UTF8: true, Unions: true, MaxDepth: int(min(limits.MaxDepth, rtenMaxDepth))})
	if err != nil {
		return m.refused(err)
	}
	raw := m.Raw()
	if v := raw.SchemaVersion(); v != schemaVersion {
		class := errors.ErrUnsupported
		if v < schemaVersion {
			class = tensor.ErrMalformed
		}
		return m.fail(class, fb.FieldPosOr(raw.Table(), rtenfb.SlotModelSchemaVersion),
			"schema_version", "version %d of the schema", v)
	}
	c := checker{m: m, limits: limits}
	if err := c.graph(graphRecord{pos: uint32(raw.Graph(nil).Table().Pos)}); err != nil {
		return err
	}
	if cap(m.constants) > 2*len(m.constants)+64 {
		m.constants = slices.Clone(m.constants)
	}
	return nil
}

// refused is an error of the verifier, with the path of a subgraph as Graph.Path has it.
func (m *Model) refused(err error) error {
	var e *fb.Error
	if !errors.As(err, &e) {
		return err
	}
	class := tensor.ErrMalformed
	if e.Limit {
		class = tensor.ErrLimit
	}
	path := e.Path
	for _, f := range subgraphFields() {
		path = strings.ReplaceAll(path, "data.attrs."+f.Name, f.Name)
	}
	return m.fail(class, int(e.Offset), path, "%s", e.Reason)
}

// subgraphFields are the attributes that hold graphs.
func subgraphFields() (list []*fb.Field) {
	for _, t := range [...]int{rtenfb.TableIfAttrs, rtenfb.TableLoopAttrs} {
		fields := rtenfb.Schema.Tables[t].Fields
		for i := range fields {
			list = append(list, &fields[i])
		}
	}
	return list
}

type checker struct {
	m      *Model
	limits tensor.Limits
	nodes  int64
}

func (c *checker) graph(rec graphRecord) error {
	m := c.m
	i := len(m.graphs)
	m.graphs = append(m.graphs, rec)
	g := m.graph(i)
	raw := g.raw.Table()
	n := g.Len()
	if c.nodes += int64(n); c.nodes > c.limits.MaxTensors {
		return m.fail(tensor.ErrLimit, fb.FieldTarget(raw, rtenfb.SlotGraphNodes),
			m.fieldPath(i, -1, "nodes"), "more than %d nodes", c.limits.MaxTensors)
	}
	if i == 0 { // a constant takes two visits of the verifier, of one for each 4 bytes
		m.constants = make([]constantRecord, 0, min(n, len(m.buf)/8))
	}
	pos, field, id := wrongIndex(raw, rtenfb.TableGraph,
		func(id uint32) bool { return int64(id) >= int64(n) },
		rtenfb.SlotGraphInputs, rtenfb.SlotGraphOutputs, rtenfb.SlotGraphCaptures)
	if field != "" {
		return m.fail(tensor.ErrMalformed, pos, m.fieldPath(i, -1, field), "node %d of %d", id, n)
	}
	for j := range n {
		if err := c.node(g.node(j)); err != nil {
			return err
		}
	}
	return nil
}

// fail makes the error of something of the node, at pos of the flatbuffer.
func (n Node) fail(class error, pos int, field, format string, args ...any) error {
	return n.m.fail(class, pos, n.path(field), format, args...)
}

func (c *checker) node(n Node) error {
	m := c.m
	raw := n.Raw()
	if name := raw.Name(); int64(len(name)) > c.limits.MaxName {
		return n.fail(tensor.ErrLimit, fb.FieldTarget(raw.Table(), rtenfb.SlotNodeName), "name",
			"%d bytes", len(name))
	}
	switch kind := n.Kind(); kind {
	case 0:
		return n.fail(tensor.ErrMalformed, int(n.pos), "data", "a node that is nothing")
	case ConstantNode:
		constant, problem := n.constant()
		switch rank := int64(constant.rank); {
		case rank > c.limits.MaxRank:
			return n.fail(tensor.ErrLimit, int(n.data()), "data.shape", "%d dimensions", rank)
		case problem != nil:
			return problem
		}
		m.constants = append(m.constants,
			constantRecord{constant.payload, uint32(n.pos), uint32(n.index), uint32(n.graph)})
	case ValueNode:
		v, _ := n.Value()
		raw := &v.raw
		if rank := int64(raw.ShapeLength()); rank > c.limits.MaxRank {
			return n.fail(tensor.ErrLimit, int(n.data()), "data.shape", "%d dimensions", rank)
		}
		if d := raw.Dtype(); d != nil && int(*d) >= len(dataTypes) {
			return n.fail(errors.ErrUnsupported,
				fb.FieldPos(raw.Table(), rtenfb.SlotValueNodeDtype), "data.dtype", "dtype %d", *d)
		}
	case OperatorNode:
		op, _ := n.Operator()
		return c.operator(op)
	default:
		return n.fail(errors.ErrUnsupported, fb.FieldPos(raw.Table(), rtenfb.SlotNodeDataType),
			"data_type", "node of kind %d", kind)
	}
	return nil
}

// wrongIndex finds the first element of vectors of node indices that is wrong. field is
// empty if there is none.
func wrongIndex(t flatbuffers.Table, table int, wrong func(id uint32) bool,
	slots ...int) (pos int, field string, id uint32) {
	for _, slot := range slots {
		b, _ := fb.FieldBytes(t, slot, 4)
		for j := range len(b) / 4 {
			if id := binary.LittleEndian.Uint32(b[4*j:]); wrong(id) {
				name := rtenfb.Schema.Tables[table].FieldName(slot)
				return fb.FieldTarget(t, slot) + 4 + 4*j, fmt.Sprintf("%s[%d]", name, j), id
			}
		}
	}
	return 0, "", 0
}

// operator checks which nodes the operator names, and the graphs that it owns.
func (c *checker) operator(op Operator) error {
	pos, field, id := wrongIndex(op.raw.Table(), rtenfb.TableOperatorNode,
		func(id uint32) bool { return int(int32(id)) >= op.n.index }, // missing ones are negative
		rtenfb.SlotOperatorNodeInputs, rtenfb.SlotOperatorNodeOutputs)
	if field != "" {
		return op.n.fail(tensor.ErrMalformed, pos, "data."+field,
			"node %d, which is not before the operator", id)
	}
	table, attrs := op.attrs()
	if table == nil || attrs.Bytes == nil {
		return nil
	}
	for i := range table.Fields {
		f := &table.Fields[i]
		if f.Kind != fb.Child {
			continue
		}
		if t, ok := fb.FieldTable(attrs, int(f.Slot)); ok {
			if err := c.graph(graphRecord{uint32(t.Pos), uint32(op.n.graph), uint32(op.n.index),
				f}); err != nil {
				return err
			}
		}
	}
	return nil
}
