package rten

import (
	"errors"
	"fmt"

	"github.com/tensorfile/tensorfile/tensor"
)

// A checker finds the graphs and constants of a verified flatbuffer and refuses
// what its schema cannot express but no reader can live with.
type checker struct {
	m      *Model
	limits tensor.Limits
	nodes  int64

	nodeShape tableShape
	payload   payload
}

func (m *Model) check(limits tensor.Limits) error {
	root := m.root()
	version := int32(0)
	f := m.field(root, slotFirst)
	if f != 0 {
		version = int32(m.u32(f))
	}
	switch {
	case version > schemaVersion:
		return m.at(f, "schema_version", fmt.Errorf("%w: version %d of the schema", errors.ErrUnsupported, version))
	case version < schemaVersion:
		return m.at(max(f, root), "schema_version", fmt.Errorf("%w: version %d of the schema", tensor.ErrMalformed, version))
	}
	graph := m.child(root, slotModelGraph)
	_, n := m.vector(graph, slotGraphNodes)
	m.constants = make([]constantRecord, 0, n)
	m.graphs = append(m.graphs, graphRecord{pos: uint32(graph)})
	c := checker{m: m, limits: limits}
	if err := c.graph(0, 2); err != nil {
		return err
	}
	if cap(m.constants) > 2*len(m.constants)+64 {
		m.constants = append([]constantRecord(nil), m.constants...)
	}
	return nil
}

// graph checks one graph, a table that deep, and those below. How deep it goes,
// and how often, the verifier has bounded.
func (c *checker) graph(i int, depth int64) error {
	m := c.m
	pos := int(m.graphs[i].pos)
	if depth > c.limits.MaxDepth {
		return m.at(pos, m.fieldPath(i, -1, ""), fmt.Errorf("%w: tables nested deeper than %d", tensor.ErrLimit, c.limits.MaxDepth))
	}
	first, n := m.vector(pos, slotGraphNodes)
	if c.nodes += int64(n); c.nodes > c.limits.MaxTensors {
		return m.at(first-4, m.fieldPath(i, -1, "nodes"), fmt.Errorf("%w: more than %d nodes", tensor.ErrLimit, c.limits.MaxTensors))
	}
	for _, ids := range [...]struct {
		slot int
		name string
	}{{slotGraphInputs, "inputs"}, {slotGraphOutputs, "outputs"}, {slotGraphCaptures, "captures"}} {
		at, k := m.vector(pos, ids.slot)
		for j := range k {
			if id := m.u32(at + 4*j); int64(id) >= int64(n) {
				return m.at(at+4*j, m.fieldPath(i, -1, fmt.Sprintf("%s[%d]", ids.name, j)),
					fmt.Errorf("%w: node %d of %d", tensor.ErrMalformed, id, n))
			}
		}
	}
	for j := range n {
		entry := first + 4*j
		if err := c.node(i, j, entry+int(m.u32(entry)), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) node(graph, index, pos int, depth int64) error {
	m := c.m
	fail := func(at int, field string, err error) error {
		return m.at(at, m.fieldPath(graph, index, field), err)
	}
	fields := c.nodeShape.of(m, pos)
	if f := int(fields[0]); f != 0 {
		if at := m.follow(pos + f); int64(m.u32(at)) > c.limits.MaxName {
			return fail(at, "name", fmt.Errorf("%w: %d bytes", tensor.ErrLimit, m.u32(at)))
		}
	}
	var kind NodeKind
	if fields[1] != 0 {
		kind = NodeKind(m.buf[pos+int(fields[1])])
	}
	if kind == 0 { // and so without data, as the verifier saw
		return fail(pos, "data", fmt.Errorf("%w: a node that is nothing", tensor.ErrMalformed))
	}
	data := m.follow(pos + int(fields[2]))
	switch kind {
	case ConstantNode:
		p := &c.payload
		field, at, err := p.read(m, data)
		switch {
		case int64(p.rank) > c.limits.MaxRank:
			return fail(data, "data.shape", fmt.Errorf("%w: %d dimensions", tensor.ErrLimit, p.rank))
		case err != nil:
			return fail(at, field, err)
		}
		if !p.inline {
			m.external++
		}
		m.constants = append(m.constants, constantRecord{uint32(pos), uint32(index), uint32(graph)})
	case ValueNode:
		if _, rank := m.vector(data, slotValueShape); int64(rank) > c.limits.MaxRank {
			return fail(data, "data.shape", fmt.Errorf("%w: %d dimensions", tensor.ErrLimit, rank))
		}
		if f := m.field(data, slotValueDtype); f != 0 && int(m.buf[f]) >= len(dataTypes) {
			return fail(f, "data.dtype", fmt.Errorf("%w: element type %d", errors.ErrUnsupported, m.buf[f]))
		}
	case OperatorNode:
		for _, ids := range [...]struct {
			slot int
			name string
		}{{slotOperatorInputs, "data.inputs"}, {slotOperatorOutputs, "data.outputs"}} {
			first, n := m.vector(data, ids.slot)
			for j := range n {
				// Negative is an optional one that is missing.
				if id := int32(m.u32(first + 4*j)); int(id) >= index {
					return fail(first+4*j, fmt.Sprintf("%s[%d]", ids.name, j),
						fmt.Errorf("%w: node %d, which is not before the operator", tensor.ErrMalformed, id))
				}
			}
		}
		return c.branches(graph, index, data, depth+2)
	default:
		return fail(m.field(pos, slotNodeDataType), "data_type", fmt.Errorf("%w: node of kind %d", errors.ErrUnsupported, kind))
	}
	return nil
}

// branches goes into the graphs of an If or a Loop, whose attributes are that
// deep.
func (c *checker) branches(graph, index, operator int, depth int64) error {
	m := c.m
	var fields []branch
	switch m.tag(operator, slotOperatorAttrsType) {
	case tagIfAttrs:
		fields = []branch{thenBranch, elseBranch}
	case tagLoopAttrs:
		fields = []branch{loopBody}
	default:
		return nil
	}
	attrs := m.child(operator, slotOperatorAttrs)
	for i, b := range fields {
		pos := m.child(attrs, slot(i))
		if pos == 0 {
			continue
		}
		m.graphs = append(m.graphs, graphRecord{uint32(pos), uint32(graph), uint32(index), b})
		if err := c.graph(len(m.graphs)-1, depth+1); err != nil {
			return err
		}
	}
	return nil
}
