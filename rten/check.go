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
		return m.at(fb.FieldPosOr(raw.Table(), rtenfb.SlotModelSchemaVersion), "schema_version",
			fmt.Errorf("%w: version %d of the schema", class, v))
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
	return m.at(int(e.Offset), path, fmt.Errorf("%w: %s", class, e.Reason))
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
		return m.at(fb.FieldTarget(raw, rtenfb.SlotGraphNodes), m.fieldPath(i, -1, "nodes"),
			fmt.Errorf("%w: more than %d nodes", tensor.ErrLimit, c.limits.MaxTensors))
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
				return m.at(fb.FieldTarget(raw, ids.slot)+4+4*j,
					m.fieldPath(i, -1, fmt.Sprintf("%s[%d]", ids.name, j)),
					fmt.Errorf("%w: node %d of %d", tensor.ErrMalformed, node, n))
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

func (c *checker) node(n Node) error {
	m := c.m
	fail := func(pos int, field string, err error) error {
		return m.at(pos, m.fieldPath(n.graph, n.index, field), err)
	}
	raw := m.rawNode(n.pos)
	if name := raw.Name(); int64(len(name)) > c.limits.MaxName {
		return fail(fb.FieldTarget(raw.Table(), rtenfb.SlotNodeName), "name",
			fmt.Errorf("%w: %d bytes", tensor.ErrLimit, len(name)))
	}
	switch kind := NodeKind(raw.DataType()); kind {
	case 0:
		return fail(int(n.pos), "data",
			fmt.Errorf("%w: a node that is nothing", tensor.ErrMalformed))
	case ConstantNode:
		var p payload
		pos := n.data()
		problem := p.read(m, pos)
		switch rank := int64(len(p.dims) / 4); {
		case rank > c.limits.MaxRank:
			return fail(int(pos), "data.shape",
				fmt.Errorf("%w: %d dimensions", tensor.ErrLimit, rank))
		case problem != nil:
			return fail(problem.pos, problem.field, problem.err)
		}
		if !p.inline {
			m.external++
		}
		m.constants = append(m.constants,
			constantRecord{uint32(n.pos), uint32(n.index), uint32(n.graph)})
	case ValueNode:
		raw := Value{n, n.data()}.raw()
		if rank := int64(raw.ShapeLength()); rank > c.limits.MaxRank {
			return fail(int(n.data()), "data.shape",
				fmt.Errorf("%w: %d dimensions", tensor.ErrLimit, rank))
		}
		if d := raw.Dtype(); d != nil && int(*d) >= len(dataTypes) {
			return fail(fb.FieldPos(raw.Table(), rtenfb.SlotValueNodeDtype), "data.dtype",
				fmt.Errorf("%w: dtype %d", errors.ErrUnsupported, *d))
		}
	case OperatorNode:
		return c.operator(Operator{n, n.data()}, fail)
	default:
		return fail(fb.FieldPos(raw.Table(), rtenfb.SlotNodeDataType), "data_type",
			fmt.Errorf("%w: node of kind %d", errors.ErrUnsupported, kind))
	}
	return nil
}

// operator checks which nodes the operator names, and the graphs that it owns.
func (c *checker) operator(op Operator, fail func(pos int, field string, err error) error) error {
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
				return fail(fb.FieldTarget(raw.Table(), ids.slot)+4+4*j,
					fmt.Sprintf("%s[%d]", ids.name, j),
					fmt.Errorf("%w: node %d, which is not before the operator",
						tensor.ErrMalformed, id))
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
