package rten

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// The checks are methods of three types, in the files of the tables: Open fails by the
// checks of checker, Reader.Warnings has the findings of deviations, and only Verify
// reports the findings of verifier.

// The limits of RTen's FlatBuffers verifier.
const (
	rtenMaxTables = 1_000_000
	rtenMaxDepth  = 64
)

// check verifies the whole flatbuffer, and then checks and lists its graphs and
// constants.
func (m *Model) check(limits tensor.Limits) error {
	// As RTen's verifier: strings are UTF-8, and unions have a tag and a value or
	// neither.
	err := fb.Verify(m.buf, &rtenfb.Schema, rtenfb.TableModel,
		fb.Limits{UTF8: true, Unions: true, MaxDepth: int(min(limits.MaxDepth, rtenMaxDepth))})
	if err != nil {
		return m.verifierError(err)
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

// verifierError returns an error of the verifier, with the path of a subgraph as in
// Graph.Path.
func (m *Model) verifierError(err error) error {
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

// subgraphFields returns the attributes that are graphs.
func subgraphFields() (list []*fb.Field) {
	for _, t := range [...]int{rtenfb.TableIfAttrs, rtenfb.TableLoopAttrs} {
		fields := rtenfb.Schema.Tables[t].Fields
		for i := range fields {
			list = append(list, &fields[i])
		}
	}
	return list
}

// A checker finds what Open refuses.
type checker struct {
	m      *Model
	limits tensor.Limits
	nodes  int64
}

// deviations yields the warnings of Open.
func (m *Model) deviations() iter.Seq[error] {
	return func(yield func(error) bool) {
		d := &deviations{m: m, inputs: make(map[flatbuffers.UOffsetT]bool), yield: yield}
		for _, id := range m.Graph().Inputs() {
			d.inputs[m.Graph().Node(id).data()] = true
		}
		fb.EachTable(m.buf, &rtenfb.Schema, rtenfb.TableModel, func(v *fb.Visit) bool {
			d.at = v
			d.table()
			return !d.done
		})
	}
}

// A deviations finds what Reader.Warnings has: what RTen's loader refuses, and what no
// writer of RTen makes.
type deviations struct {
	m      *Model
	inputs map[flatbuffers.UOffsetT]bool // ValueNodes that are inputs of the model
	at     *fb.Visit
	tables int
	yield  func(error) bool
	done   bool
}

// table checks the current table.
func (d *deviations) table() {
	v := d.at
	if d.tables++; d.tables == rtenMaxTables+1 {
		d.noteAt(tensor.ErrLimit, int(v.Pos), "",
			"more than %d tables: RTen refuses to load this model", rtenMaxTables)
	}
	v.Newer(func(pos int, what string) {
		d.noteAt(errors.ErrUnsupported, pos, "", "%s of %s is newer than this library",
			what, v.Type.Name)
	})
	switch v.Type.Name {
	case "OperatorNode":
		var raw rtenfb.OperatorNode
		raw.Init(v.Bytes, v.Pos)
		d.operator(OpType(raw.Type()))
	case "ConstantNode":
		var raw rtenfb.ConstantNode
		raw.Init(v.Bytes, v.Pos)
		d.constant(&raw)
	case "ValueNode":
		if d.inputs[v.Pos] {
			var value Value
			value.raw.Init(v.Bytes, v.Pos)
			d.input(value)
		}
	}
}

// note warns of a field of the current table.
func (d *deviations) note(class error, slot int, format string, args ...any) {
	d.noteAt(class, fb.FieldPosOr(d.at.Table, slot), d.at.Type.FieldName(slot), format,
		args...)
}

// noteAt is note for a position and the name of its field.
func (d *deviations) noteAt(class error, pos int, field, format string, args ...any) {
	if d.done {
		return
	}
	path := d.at.Path()
	if path != "" && field != "" {
		path += "."
	}
	d.done = !d.yield(d.m.fail(class, pos, path+field, format, args...))
}

// Verify reads the whole file. It reports warnings of Open, ranges that overlap, bytes
// that nothing refers to, and graphs that RTen loads but cannot run or runs with an
// unexpected result. Most findings are warnings, because such files exist; opts.Strict
// makes them errors. With VerifyStructure it does not read tensor data.
//
// A .rten file has no digests, so damaged weights are not found.
func (r *Reader) Verify(ctx context.Context, opts *tensor.VerifyOptions) (*tensor.Report, error) {
	l := format.NewFindings(opts)
	return l.End(r.verify(ctx, l))
}

func (r *Reader) verify(ctx context.Context, list *format.Findings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for err := range r.model.deviations() {
		if list.Warn(err); list.Full() {
			break
		}
	}
	if err := r.model.verifyGraphs(ctx, list); err != nil {
		return err
	}
	return r.verifyRanges(ctx, list)
}

func (m *Model) warnings() []error {
	list := format.Warnings{Format: "rten"}
	for err := range m.deviations() {
		if list.Add(err); list.Full() {
			break
		}
	}
	return list.All()
}

// A verifier finds what only Verify reports: what RTen loads but does not run, or runs
// otherwise than the file says.
type verifier struct {
	g        *Graph
	list     *format.Findings
	producer []int32 // the operators that compute the nodes; see given
}

const (
	noProducer = -1
	given      = -2 // an input or a capture, not the output of an operator
)

func (m *Model) verifyGraphs(ctx context.Context, list *format.Findings) error {
	for g := range m.Graphs() {
		if err := ctx.Err(); err != nil || list.Full() {
			return err
		}
		v := &verifier{g: g, list: list}
		v.graph()
	}
	return nil
}

func (v *verifier) kind(node int) NodeKind { return v.g.Node(node).Kind() }

// warn warns of a node, or of the graph if node is -1, at a position in the flatbuffer.
func (v *verifier) warn(node, pos int, field, format string, args ...any) {
	m := v.g.m
	v.list.Warn(m.fail(tensor.ErrMalformed, pos, m.fieldPath(v.g.i, node, field), format, args...))
}

// node warns of a node.
func (v *verifier) node(n Node, field, format string, args ...any) {
	v.warn(n.index, int(n.pos), field, format, args...)
}
