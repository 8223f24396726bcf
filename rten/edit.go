package rten

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// An Edit is a changed copy of a file in the making: other weights, names, metadata or
// operators, another version or alignment. What is not changed is kept, in most cases
// content included that is newer than this library. Names are those of the original, as
// [Reader.Tensors] has them; all changes apply at once, when the copy is written. Remove
// drops the changes of a constant before it, and a later change brings the constant back.
// The Reader must stay open until then. An Edit is not safe for concurrent use.
type Edit struct {
	// AllowShared lets [Edit.Replace] replace bytes that several constants share.
	AllowShared bool

	r        *Reader
	byName   map[string][]int // constants; see find
	captured map[string][]int // graphs that capture a value, by its name; see capturedInside
	metadata map[int]*string  // by index into metadataFields; nil removes
	names    map[nodeID]string
	removed  map[nodeID]bool
	replaced map[int]tensor.Blob      // by constant
	kept     map[int]format.Checksums // of replaced
	inserted format.Checksums         // of constants
	graphs   map[int]*graphEdit       // those whose operators change
	steps    int                      // nodes, constants and ranges visited, for tests
}

// A nodeID is a node by the indices of its graph and in it.
type nodeID struct{ graph, node int }

func (n Node) id() nodeID { return nodeID{n.graph, n.index} }

// NewEdit begins a copy of what r reads.
func NewEdit(r *Reader) *Edit {
	return &Edit{
		r: r, metadata: make(map[int]*string),
		names: make(map[nodeID]string), removed: make(map[nodeID]bool),
		replaced: make(map[int]tensor.Blob), graphs: make(map[int]*graphEdit),
		kept: make(map[int]format.Checksums),
	}
}

// find returns the constants of that name.
func (e *Edit) find(name string) ([]int, error) {
	if e.byName == nil {
		e.byName = make(map[string][]int, e.r.Len())
		for i := range e.r.Len() {
			e.steps++
			s := e.r.model.tensorName(i)
			e.byName[s] = append(e.byName[s], i)
		}
	}
	list := e.byName[name]
	if list == nil {
		return nil, errorf(tensor.ErrNoTensor, "%s", naming.Quote(name))
	}
	return list, nil
}

// one is find for a change that only makes sense for one constant.
func (e *Edit) one(name string) (int, error) {
	list, err := e.find(name)
	if err == nil && len(list) > 1 {
		err = errorf(tensor.ErrDuplicate, "%d constants have the name %s",
			len(list), naming.Quote(name))
	}
	if err != nil {
		return 0, err
	}
	return list[0], nil
}

// Rename gives a constant another name, which may begin with the path of its graph as
// the old one does. Writing fails with tensor.ErrDuplicate if its graph then has another
// constant or value of that name, and where a graph inside captures the old or the new
// one.
func (e *Edit) Rename(old, new string) error {
	i, err := e.one(old)
	if err != nil {
		return err
	}
	if !utf8.ValidString(new) {
		return errorf(errors.ErrUnsupported, "the name %s is not UTF-8", naming.Quote(new))
	}
	if err := format.CheckWritten(new, 0); err != nil {
		return fmt.Errorf("rten: %s: %w", naming.Quote(old), err)
	}
	n := e.r.model.Constant(i).n
	if n.graph != 0 {
		new = strings.TrimPrefix(new, e.r.model.path(n.graph)+"/")
	}
	e.names[n.id()] = new
	delete(e.removed, n.id())
	return nil
}

// Remove leaves out all constants of that name. Writing fails with errors.ErrUnsupported
// if something still uses one.
func (e *Edit) Remove(name string) error {
	list, err := e.find(name)
	for _, i := range list {
		id := e.r.model.Constant(i).n.id()
		delete(e.names, id)
		delete(e.replaced, i)
		delete(e.kept, i)
		e.removed[id] = true
	}
	return err
}

// Replace gives a constant the elements of t, whose dtype and shape must be the same,
// for the operators rely on them. Where other constants have some of the same bytes,
// writing fails and names them, unless AllowShared. The memory of t must not change
// until then: tensor.ErrChecksum.
func (e *Edit) Replace(name string, t *tensor.Tensor) error {
	i, err := e.one(name)
	if err != nil {
		return err
	}
	if err := checkConstant(t); err != nil {
		return fmt.Errorf("rten: %w", err)
	}
	c := e.r.model.Constant(i).Tensor()
	if t.DType != c.DType || !t.Shape.Equal(c.Shape) {
		return errorf(tensor.ErrDType, "%s is %v %v, not %v %v", naming.Quote(name),
			c.DType, c.Shape, t.DType, t.Shape)
	}
	e.replaced[i], e.kept[i] = t.Data, format.ChecksumsOf(name, t)
	delete(e.removed, e.r.model.Constant(i).n.id())
	return nil
}

// SetAttribute sets one of the strings that [Model.Metadata] lists; other keys
// cannot be stored and are errors.ErrUnsupported.
func (e *Edit) SetAttribute(key, value string) error {
	i, err := metadataIndex(key, value)
	if err == nil {
		e.metadata[i] = &value
	}
	return err
}

// RemoveAttribute removes a string; one that is absent is no error.
func (e *Edit) RemoveAttribute(key string) error {
	i, err := metadataIndex(key, "")
	if err == nil {
		e.metadata[i] = nil
	}
	return err
}

// mergedMetadata is the metadata after the changes, by the schema's fields.
func (e *Edit) mergedMetadata() []*string {
	values := make([]*string, len(metadataFields()))
	for key, s := range e.r.model.Metadata() {
		i, _ := metadataIndex(key, "")
		values[i] = &s
	}
	for i, s := range e.metadata {
		values[i] = s
	}
	return values
}

// Write writes the changed copy to w, from the start to the end.
func (e *Edit) Write(ctx context.Context, w io.Writer, opts *WriterOptions) error {
	l, err := e.layout(opts)
	if err != nil {
		return err
	}
	return l.write(ctx, w)
}

// WriteFile writes the changed copy. The file appears whole, or not at all, and
// may replace the one that is read.
func (e *Edit) WriteFile(ctx context.Context, name string, opts *WriterOptions) error {
	return atomicfile.Write(name, func(w io.Writer) error { return e.Write(ctx, w, opts) })
}

// layout decides between the two ways of writing a copy: the bytes of the file with
// others laid over them, or all tables of the flatbuffer anew.
func (e *Edit) layout(opts *WriterOptions) (*layout, error) {
	var given WriterOptions
	if opts != nil {
		given = *opts
	}
	version := e.r.version
	given.Version = cmp.Or(given.Version, version)
	o, err := given.withDefaults()
	if err != nil {
		return nil, err
	}
	over, err := newOverlay(e)
	if err != nil {
		return nil, err
	}
	if err := e.checkMemory(); err != nil {
		return nil, err
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	structure := len(e.removed) > 0 || len(e.graphs) > 0 || e.needsFields()
	newer := ""
	if o.Version != version || structure || version == "2" && given.InlineElements != 0 {
		if newer = e.r.model.newer(""); newer == "" {
			return e.rebuild(o, over)
		}
		if structure || o.Version == "1" || version == "2" {
			return nil, errorf(errors.ErrUnsupported,
				"%s is newer than this library and would be lost", newer)
		}
	}
	l, ok, err := over.layout(o, given.Alignment != 0)
	if err != nil || ok {
		return l, err
	}
	// Parts of the model overlap, so that laying bytes over one would change another.
	if newer = e.r.model.newer(""); newer != "" {
		return nil, errorf(errors.ErrUnsupported,
			"parts overlap, and %s is newer than this library", newer)
	}
	return e.rebuild(o, over)
}

// checkMemory reports memory of the caller that has changed since it was handed over.
func (e *Edit) checkMemory() error {
	err := e.inserted.Check()
	for _, i := range slices.Sorted(maps.Keys(e.kept)) {
		if k := e.kept[i]; err == nil {
			err = k.Check()
		}
	}
	if err != nil {
		return fmt.Errorf("rten: %w", err)
	}
	return nil
}

// needsFields reports whether a change stores a field that is absent: tables cannot grow
// in place.
func (e *Edit) needsFields() bool {
	m := e.r.model
	if len(e.metadata) > 0 && m.Raw().Metadata(nil) == nil {
		return true
	}
	for id := range e.names {
		if _, named := m.graph(id.graph).Node(id.node).Name(); !named {
			return true
		}
	}
	return false
}
