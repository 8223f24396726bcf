package rten

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// RTen's verifier gives up beyond these.
const (
	rtenMaxTables = 1_000_000
	rtenMaxDepth  = 64
)

// check verifies the whole flatbuffer, then finds its graphs and constants and refuses
// what the schema cannot express but no reader can live with.
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
		m.constants = append([]constantRecord(nil), m.constants...)
	}
	return nil
}

// refused is an error of the verifier, with the path of a subgraph as Graph.Path has it.
func (m *Model) refused(err error) error {
	var e *fb.Error
	if !errors.As(err, &e) {
		return failed(m.base, "model", err)
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
	if i == 0 {
		m.constants = make([]constantRecord, 0, n)
	}
	for _, ids := range []struct {
		name string
		slot int
		n    int
		at   func(i int) uint32
	}{
		{"inputs", rtenfb.SlotGraphInputs, g.raw.InputsLength(), g.raw.Inputs},
		{"outputs", rtenfb.SlotGraphOutputs, g.raw.OutputsLength(), g.raw.Outputs},
		{"captures", rtenfb.SlotGraphCaptures, g.raw.CapturesLength(), g.raw.Captures},
	} {
		for j := range ids.n {
			if node := ids.at(j); int64(node) >= int64(n) {
				return m.fail(tensor.ErrMalformed, fb.FieldTarget(raw, ids.slot)+4+4*j,
					m.fieldPath(i, -1, fmt.Sprintf("%s[%d]", ids.name, j)), "node %d of %d",
					node, n)
			}
		}
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
	return n.m.fail(class, pos, n.m.fieldPath(n.graph, n.index, field), format, args...)
}

func (c *checker) node(n Node) error {
	m := c.m
	raw := m.rawNode(n.pos)
	if name := raw.Name(); int64(len(name)) > c.limits.MaxName {
		return n.fail(tensor.ErrLimit, fb.FieldTarget(raw.Table(), rtenfb.SlotNodeName), "name",
			"%d bytes", len(name))
	}
	switch kind := NodeKind(raw.DataType()); kind {
	case 0:
		return n.fail(tensor.ErrMalformed, int(n.pos), "data", "a node that is nothing")
	case ConstantNode:
		var p payload
		pos := n.data()
		problem := p.read(Constant{n, pos})
		switch rank := int64(len(p.dims) / 4); {
		case rank > c.limits.MaxRank:
			return n.fail(tensor.ErrLimit, int(pos), "data.shape", "%d dimensions", rank)
		case problem != nil:
			return problem
		}
		if !p.inline {
			m.external++
		}
		m.constants = append(m.constants,
			constantRecord{uint32(n.pos), uint32(n.index), uint32(n.graph)})
	case ValueNode:
		raw := Value{n, n.data()}.raw()
		if rank := int64(raw.ShapeLength()); rank > c.limits.MaxRank {
			return n.fail(tensor.ErrLimit, int(n.data()), "data.shape", "%d dimensions", rank)
		}
		if d := raw.Dtype(); d != nil && int(*d) >= len(dataTypes) {
			return n.fail(errors.ErrUnsupported,
				fb.FieldPos(raw.Table(), rtenfb.SlotValueNodeDtype), "data.dtype", "dtype %d",
				*d)
		}
	case OperatorNode:
		return c.operator(Operator{n, n.data()})
	default:
		return n.fail(errors.ErrUnsupported, fb.FieldPos(raw.Table(), rtenfb.SlotNodeDataType),
			"data_type", "node of kind %d", kind)
	}
	return nil
}

// operator checks which nodes the operator names, and the graphs that it owns.
func (c *checker) operator(op Operator) error {
	raw := op.raw()
	for _, ids := range []struct {
		name string
		slot int
		n    int
		at   func(i int) int32
	}{
		{"data.inputs", rtenfb.SlotOperatorNodeInputs, raw.InputsLength(), raw.Inputs},
		{"data.outputs", rtenfb.SlotOperatorNodeOutputs, raw.OutputsLength(), raw.Outputs},
	} {
		for j := range ids.n { // a negative one is optional and missing
			if id := int(ids.at(j)); id >= op.n.index {
				return op.n.fail(tensor.ErrMalformed, fb.FieldTarget(raw.Table(), ids.slot)+4+4*j,
					fmt.Sprintf("%s[%d]", ids.name, j),
					"node %d, which is not before the operator", id)
			}
		}
	}
	table, attrs, ok := op.attrs()
	if table == nil || !ok {
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
