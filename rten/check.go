package rten

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// A checker verifies a flatbuffer table by table, finds its graphs and constants,
// and refuses what its schema cannot express but no reader can live with. After
// it, everything that the schema knows can be read without a look at bounds.
type checker struct {
	m      *Model
	limits tensor.Limits
	cursor fb.Cursor
	nodes  int64

	payload payload
}

func (m *Model) check(limits tensor.Limits) error {
	c := checker{m: m, limits: limits}
	// As RTen's verifier: strings are UTF-8, and unions have a tag and a value or
	// neither.
	root, err := c.cursor.Root(m.buf, &rtenfb.Schema, rtenfb.TableModel, fb.Limits{UTF8: true, Unions: true})
	if err != nil {
		return c.refused(err, "")
	}
	at := root.At(0)
	switch version := int32(c.cursor.Uint32(at)); {
	case version > schemaVersion:
		return m.at(int(at), "schema_version", fmt.Errorf("%w: version %d of the schema", errors.ErrUnsupported, version))
	case version < schemaVersion:
		return m.at(int(max(at, root.Pos)), "schema_version", fmt.Errorf("%w: version %d of the schema", tensor.ErrMalformed, version))
	}
	if at := root.At(2); at != 0 {
		if err := c.cursor.Verify(at, rtenfb.TableMetadata, 2); err != nil {
			return c.refused(err, "metadata")
		}
	}
	if err := c.graph(graphRecord{}, root.At(1), 2); err != nil {
		return err
	}
	if cap(m.constants) > 2*len(m.constants)+64 {
		m.constants = append([]constantRecord(nil), m.constants...)
	}
	return nil
}

// refused is the verifier's complaint about a field.
func (c *checker) refused(e *fb.Error, field string) error {
	class := tensor.ErrMalformed
	if e.Limit {
		class = tensor.ErrLimit
	}
	if e.Path != "" && field != "" {
		field += "."
	}
	return c.m.at(int(e.Offset), field+e.Path, fmt.Errorf("%w: %s", class, e.Reason))
}

func (c *checker) tooDeep(pos uint32, field string) error {
	return c.m.at(int(pos), field, fmt.Errorf("%w: tables nested deeper than %d", tensor.ErrLimit, c.most()))
}

// most is how deep tables may be nested: no deeper than RTen's verifier goes.
func (c *checker) most() int { return int(min(c.limits.MaxDepth, rtenMaxDepth)) }

// graph checks the graph that the offset at position at leads to, a table that
// deep, and those below. How often it goes where, the cursor bounds.
func (c *checker) graph(rec graphRecord, at uint32, depth int) error {
	m := c.m
	i := len(m.graphs)
	m.graphs = append(m.graphs, rec)
	row, err := c.cursor.Table(at, rtenfb.TableGraph)
	if err != nil {
		return c.refused(err, m.fieldPath(i, -1, ""))
	}
	m.graphs[i].pos = row.Pos
	if depth > c.most() {
		return c.tooDeep(row.Pos, m.fieldPath(i, -1, ""))
	}
	first, n, err := c.vector(row, 0)
	if err != nil {
		return c.refused(err, m.fieldPath(i, -1, "nodes"))
	}
	if c.nodes += int64(n); c.nodes > c.limits.MaxTensors {
		return m.at(int(first)-4, m.fieldPath(i, -1, "nodes"), fmt.Errorf("%w: more than %d nodes", tensor.ErrLimit, c.limits.MaxTensors))
	}
	if i == 0 {
		m.constants = make([]constantRecord, 0, n)
	}
	for id, name := range [...]string{1: "inputs", 2: "outputs", 3: "captures"} {
		if id == 0 {
			continue
		}
		ids, k, err := c.vector(row, id)
		if err != nil {
			return c.refused(err, m.fieldPath(i, -1, name))
		}
		for j := range k {
			if node := c.cursor.Uint32(ids + 4*j); node >= n {
				return m.at(int(ids+4*j), m.fieldPath(i, -1, fmt.Sprintf("%s[%d]", name, j)),
					fmt.Errorf("%w: node %d of %d", tensor.ErrMalformed, node, n))
			}
		}
	}
	for j := range n {
		if err := c.node(i, int(j), first+4*j, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// vector is a vector of elements of four bytes, empty if the field is absent.
func (c *checker) vector(row fb.Row, id int) (first, n uint32, err *fb.Error) {
	at := row.At(id)
	if at == 0 {
		return 4, 0, nil
	}
	return c.cursor.Vector(at, 4)
}

// node checks the node that the offset at position at leads to.
func (c *checker) node(graph, index int, at uint32, depth int) error {
	m := c.m
	path := func(field string) string { return m.fieldPath(graph, index, field) }
	row, err := c.cursor.Table(at, rtenfb.TableNode)
	if err != nil {
		return c.refused(err, path(""))
	}
	if at := row.At(0); at != 0 {
		name, err := c.cursor.String(at)
		switch {
		case err != nil:
			return c.refused(err, path("name"))
		case int64(len(name)) > c.limits.MaxName:
			return m.at(m.follow(int(at)), path("name"), fmt.Errorf("%w: %d bytes", tensor.ErrLimit, len(name)))
		case !utf8.Valid(name):
			return m.at(m.follow(int(at)), path("name"), fmt.Errorf("%w: string is not valid UTF-8", tensor.ErrMalformed))
		}
	}
	kind, data := NodeKind(c.cursor.Uint8(row.At(1))), row.At(2)
	if kind == 0 {
		return m.at(int(row.Pos), path("data"), fmt.Errorf("%w: a node that is nothing", tensor.ErrMalformed))
	}
	if depth+1 > c.most() {
		return c.tooDeep(data, path("data"))
	}
	switch kind {
	case ConstantNode:
		return c.constant(row.Pos, data, graph, index, depth+1)
	case ValueNode:
		return c.value(data, path, depth+1)
	case OperatorNode:
		return c.operator(data, graph, index, depth+1)
	}
	return m.at(int(row.At(1)), path("data_type"), fmt.Errorf("%w: node of kind %d", errors.ErrUnsupported, kind))
}

// elementTables is indexed by the tag of ConstantData.
var elementTables = [...]int{0, rtenfb.TableFloatData, rtenfb.TableInt32Data, rtenfb.TableInt8Data, rtenfb.TableUInt8Data}

// constant checks the constant that the offset at position at leads to. node is
// where its Node is.
func (c *checker) constant(node, at uint32, graph, index, depth int) error {
	m := c.m
	path := func(field string) string { return m.fieldPath(graph, index, field) }
	row, err := c.cursor.Table(at, rtenfb.TableConstantNode)
	if err != nil {
		return c.refused(err, path("data"))
	}
	if _, _, err := c.cursor.Vector(row.At(0), 4); err != nil { // required
		return c.refused(err, path("data.shape"))
	}
	if data := row.At(2); data != 0 {
		tag := int(c.cursor.Uint8(row.At(1)))
		if tag == 0 {
			return m.at(int(data), path("data.data"), fmt.Errorf("%w: union value without a type", tensor.ErrMalformed))
		}
		if _, err := c.cursor.Follow(data); err != nil {
			return c.refused(err, path("data.data"))
		}
		if tag < len(elementTables) { // others are not looked into
			values, err := c.cursor.Table(data, elementTables[tag])
			if err != nil {
				return c.refused(err, path("data.data"))
			}
			if _, _, err := c.cursor.Vector(values.At(0), uint32(inlineTypes[tag].Size())); err != nil {
				return c.refused(err, path("data.data.data"))
			}
			if depth+1 > c.most() {
				return c.tooDeep(values.Pos, path("data.data"))
			}
		}
	}
	p := &c.payload
	field, where, problem := p.read(m, int(row.Pos))
	switch {
	case int64(p.rank) > c.limits.MaxRank:
		return m.at(int(row.Pos), path("data.shape"), fmt.Errorf("%w: %d dimensions", tensor.ErrLimit, p.rank))
	case problem != nil:
		return m.at(where, path(field), problem)
	}
	if !p.inline {
		m.external++
	}
	m.constants = append(m.constants, constantRecord{node, uint32(index), uint32(graph)})
	return nil
}

// value checks the value that the offset at position at leads to.
func (c *checker) value(at uint32, path func(string) string, depth int) error {
	m := c.m
	if err := c.cursor.Verify(at, rtenfb.TableValueNode, depth); err != nil {
		return c.refused(err, path("data"))
	}
	pos := m.follow(int(at))
	if _, rank := m.vector(pos, slotValueShape); int64(rank) > c.limits.MaxRank {
		return m.at(pos, path("data.shape"), fmt.Errorf("%w: %d dimensions", tensor.ErrLimit, rank))
	}
	if f := m.field(pos, slotValueDtype); f != 0 && int(m.buf[f]) >= len(dataTypes) {
		return m.at(f, path("data.dtype"), fmt.Errorf("%w: element type %d", errors.ErrUnsupported, m.buf[f]))
	}
	return nil
}

// operator checks the operator that the offset at position at leads to, and the
// graphs that it owns.
func (c *checker) operator(at uint32, graph, index, depth int) error {
	m := c.m
	path := func(field string) string { return m.fieldPath(graph, index, field) }
	row, err := c.cursor.Table(at, rtenfb.TableOperatorNode)
	if err != nil {
		return c.refused(err, path("data"))
	}
	for i, name := range [...]string{"data.inputs", "data.outputs"} {
		first, n, err := c.vector(row, 3+i)
		if err != nil {
			return c.refused(err, path(name))
		}
		for j := range n {
			// Negative is an optional one that is missing.
			if id := int32(c.cursor.Uint32(first + 4*j)); int(id) >= index {
				return m.at(int(first+4*j), path(fmt.Sprintf("%s[%d]", name, j)),
					fmt.Errorf("%w: node %d, which is not before the operator", tensor.ErrMalformed, id))
			}
		}
	}
	attrs := row.At(2)
	if attrs == 0 {
		return nil
	}
	if _, err := c.cursor.Follow(attrs); err != nil {
		return c.refused(err, path("data.attrs"))
	}
	members := rtenfb.Schema.Unions[attrsUnion].Members
	tag := int(c.cursor.Uint8(row.At(1)))
	var branches []branch
	switch {
	case tag == 0:
		return m.at(int(attrs), path("data.attrs"), fmt.Errorf("%w: union value without a type", tensor.ErrMalformed))
	case tag >= len(members):
		return nil // newer: not looked into
	case tag == tagIfAttrs:
		branches = []branch{thenBranch, elseBranch}
	case tag == tagLoopAttrs:
		branches = []branch{loopBody}
	default:
		if err := c.cursor.Verify(attrs, int(members[tag]), depth+1); err != nil {
			return c.refused(err, path("data.attrs"))
		}
		return nil
	}
	owner, err := c.cursor.Table(attrs, int(members[tag]))
	if err != nil {
		return c.refused(err, path("data.attrs"))
	}
	if depth+1 > c.most() {
		return c.tooDeep(owner.Pos, path("data.attrs"))
	}
	places := [...]uint32{owner.At(0), owner.At(1)} // before the owner's shape becomes that of an owner further down
	for i, b := range branches {
		if at := places[i]; at != 0 {
			if err := c.graph(graphRecord{0, uint32(graph), uint32(index), b}, at, depth+2); err != nil {
				return err
			}
		}
	}
	return nil
}

// attrsUnion is OperatorAttrs in the schema's list of unions.
const attrsUnion = 2
