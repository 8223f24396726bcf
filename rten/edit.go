package rten

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a list of changes to the constants and the metadata of a model, with the
// methods of every Edit: Rename, Remove and Replace. Names are the names of
// [Reader.Tensor]. All changes apply at once, when the file is written; the Reader must
// stay open until then. The model is encoded anew: Write fails with errors.ErrUnsupported
// if it has content that is newer than this library.
//
// A new name of a constant in a subgraph may begin with the path of its graph, as the old
// name does. Write fails with tensor.ErrDuplicate if two constants or values of a graph
// would have the same name. It fails with errors.ErrUnsupported if a removed constant is
// used, or if a subgraph captures the old or the new name.
type Edit struct {
	format.Edit
	r        *Reader
	metadata []*string // by metadataFields
	changed  bool      // metadata is not what the file has
}

// NewEdit begins a list of changes to the file of r.
func NewEdit(r *Reader) *Edit {
	e := &Edit{Edit: format.NewEdit(errs, &r.Base, checkConstant), r: r,
		metadata: make([]*string, len(metadataFields()))}
	for key, s := range r.model.Metadata() {
		i, _ := metadataIndex(key, "")
		e.metadata[i] = &s
	}
	return e
}

// Replace stores the data of t in place of a constant. It fails with
// errors.ErrUnsupported if t has another dtype or shape, on which the operators rely.
// Constants that share the bytes of the old data keep them. The memory of t must not
// change until the copy is written; else Write fails with tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	if c := e.r.Tensor(name); c != nil && t.Check() == nil &&
		(t.DType != c.DType || !t.Shape.Equal(c.Shape)) {
		return errs.Tensor(name, errors.ErrUnsupported, "it is %v %v, not %v %v", c.DType,
			c.Shape, t.DType, t.Shape)
	}
	return e.Edit.Replace(name, t)
}

// SetAttribute sets one of the strings that [Model.Metadata] lists. It fails with
// errors.ErrUnsupported for other keys, which cannot be stored.
func (e *Edit) SetAttribute(key, value string) error {
	i, err := metadataIndex(key, value)
	if err == nil {
		e.metadata[i], e.changed = &value, true
	}
	return err
}

// RemoveAttribute removes one of the strings that [Model.Metadata] lists, if it is set.
// It fails with errors.ErrUnsupported for other keys.
func (e *Edit) RemoveAttribute(key string) error {
	i, err := metadataIndex(key, "")
	if err == nil {
		e.metadata[i], e.changed = nil, true
	}
	return err
}

// Write writes the changed copy to w, without seeking. An empty Version of opts means the
// version of the file.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	return format.Encode(ctx, w, e.encoding(opts))
}

// WriteFile writes as Write does, into a file, which appears whole or not at all. It may
// be the original file.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	return format.EncodeFile(ctx, name, e.encoding(opts))
}

func (e *Edit) encoding(opts *WriterOptions) *format.Encoding[*tensor.Tensor] {
	var o WriterOptions
	if opts != nil {
		o = *opts
	}
	if o.Version == "" {
		o.Version = e.r.version
	}
	return o.encoding(func(o WriterOptions, _ []*tensor.Tensor) (*sections, error) {
		changes, err := e.resolve()
		if err != nil {
			return nil, err
		}
		return e.rebuild(o, changes)
	})
}

// changes are the changes of constants, by node.
type changes map[nodeID]format.Change

// A nodeID names a node by the index of its graph and its index in the graph.
type nodeID struct{ graph, node int }

func (n Node) id() nodeID { return nodeID{n.graph, n.index} }

// resolve returns the changes. It fails if RTen would not load or would read otherwise
// the changed model.
func (e *Edit) resolve() (changes, error) {
	m := e.r.model
	all := make(changes)
	for i := range m.constants {
		n := m.Constant(i).n
		c, err := format.ChangeOf(&e.Edit, i, e.r.tensors()[i].Name)
		if err != nil {
			return nil, err
		}
		if c.Renamed {
			if c.Name, err = n.newName(c.Name); err != nil {
				return nil, err
			}
		}
		if c.Removed || c.Renamed || c.Tensor != nil {
			all[n.id()] = c
		}
	}
	captured := m.capturedNames()
	for g := range m.Graphs() {
		if len(all) == 0 {
			break
		}
		if err := errors.Join(all.checkNames(g), all.checkUses(g),
			all.checkCaptures(g, captured)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// newName returns the new name to store for a node, without the path of its graph.
func (n Node) newName(name string) (string, error) {
	if n.graph != 0 {
		name = strings.TrimPrefix(name, n.m.path(n.graph)+"/")
	}
	if !utf8.ValidString(name) {
		return "", errs.Tensor(name, errors.ErrUnsupported, "the name is not UTF-8")
	}
	return name, errs.Wrap(-1, format.Field(n.tensorName()), format.CheckWritten(name, 0))
}

// checkNames checks that no other node of the graph has a new name.
func (all changes) checkNames(g *Graph) error {
	taken := make(map[string]bool) // true for a new one
	for n := range g.Nodes() {
		c := all[n.id()]
		name, named := n.Name()
		if c.Renamed {
			name, named = c.Name, true
		}
		if n.Kind() == OperatorNode || c.Removed || !named {
			continue
		}
		if fresh, ok := taken[name]; ok && (fresh || c.Renamed) {
			return errs.New(tensor.ErrDuplicate, "another constant or value has the name %s",
				naming.Quote(name))
		}
		taken[name] = c.Renamed
	}
	return nil
}

// checkUses checks that nothing uses a removed node.
func (all changes) checkUses(g *Graph) error {
	used := func(ids []int, by string) error {
		for _, id := range ids {
			if id >= 0 && all[nodeID{g.i, id}].Removed {
				return errs.Tensor(g.Node(id).tensorName(), errors.ErrUnsupported, "it is %s", by)
			}
		}
		return nil
	}
	for n := range g.Nodes() {
		if op, ok := n.Operator(); ok {
			by := fmt.Sprintf("used by node %d, %v", n.index, op.Type())
			if err := errors.Join(used(op.Inputs(), by), used(op.Outputs(), by)); err != nil {
				return err
			}
		}
	}
	return errors.Join(used(g.Inputs(), "an input of its graph"),
		used(g.Outputs(), "an output of its graph"),
		used(g.Captures(), "captured by its graph"))
}

// A capture is a name of a graph that a subgraph captures.
type capture struct {
	graph int
	name  string
}

// capturedNames returns, for each graph and name that a subgraph captures, the index of
// the first such subgraph.
func (m *Model) capturedNames() map[capture]int {
	all := make(map[capture]int)
	for g := range m.Graphs() {
		for _, id := range g.Captures() {
			n := g.Node(id)
			name, named := n.Name()
			if !named || n.Kind() != ValueNode {
				continue
			}
			for i := g.i; i != 0; {
				i = int(m.graphs[i].up)
				if x := (capture{i, name}); all[x] == 0 {
					all[x] = g.i
				}
			}
		}
	}
	return all
}

// checkCaptures checks that subgraphs, which capture values by name, still find the same
// values.
func (all changes) checkCaptures(g *Graph, captured map[capture]int) error {
	for n := range g.Nodes() {
		c := all[n.id()]
		old, named := n.Name()
		if !c.Renamed && !c.Removed || !named || c.Renamed && old == c.Name {
			continue
		}
		name := n.tensorName()
		if by := captured[capture{g.i, old}]; by != 0 {
			return errs.Tensor(name, errors.ErrUnsupported, "%s captures it by its name",
				g.m.path(by))
		}
		if by := captured[capture{g.i, c.Name}]; by != 0 && c.Renamed {
			return errs.Tensor(name, errors.ErrUnsupported, "%s captures another tensor named %s",
				g.m.path(by), naming.Quote(c.Name))
		}
	}
	return nil
}
