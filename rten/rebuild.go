package rten

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/rtenfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func mapKeys[V any](m map[int]V) iter.Seq[int] { return maps.Keys(m) }

func metadataTable() *fb.Table { return &rtenfb.Schema.Tables[rtenfb.TableMetadata] }

// A rebuilder writes a model anew, table by table after the schema, so that
// constants can move in or out of it. Absent fields stay absent. Of content
// that the schema does not know it would lose track: see Model.unknown.
type rebuilder struct {
	p *Patch
	m *Model
	e *encoder
	// How nodes of the graph at hand are renumbered; nil where none is dropped.
	renumbered []int
	drops      map[int]map[int]bool // by graph, its nodes
	dropsAt    map[int]int          // by position of the Graph, which several may share
	names      map[int]string       // by position of the Node
	depth      int                  // of the table at hand
}

// A rangeKey is how the encoder knows constants that share their bytes.
type rangeKey struct{ off, size int64 }

func (p *Patch) rebuild(o WriterOptions) (*layout, error) {
	m := p.r.model
	b := &rebuilder{p: p, m: m, e: newEncoder(o), drops: make(map[int]map[int]bool), dropsAt: make(map[int]int), names: make(map[int]string)}
	for i := range p.dropped {
		rec := &m.constants[i]
		if b.drops[int(rec.graph)] == nil {
			b.drops[int(rec.graph)] = make(map[int]bool)
			b.dropsAt[int(m.graphs[rec.graph].pos)] = int(rec.graph)
		}
		b.drops[int(rec.graph)][int(rec.node)] = true
	}
	for i, name := range p.names {
		b.names[int(m.constants[i].pos)] = name
	}
	for i := range m.constants {
		if p.dropped[i] {
			continue
		}
		var x payload
		x.read(m, m.Constant(i).pos)
		if !b.e.outside(x.elements()) {
			continue
		}
		if err := b.e.place(rangeKey{x.off, x.size}, m.tensorName(i), p.blob(x.off, x.size)); err != nil {
			return nil, err
		}
	}
	root, err := b.table(m.root(), rtenfb.TableModel)
	if err != nil {
		return nil, err
	}
	return b.e.model(root)
}

func (x *payload) elements() int64 { return x.size / int64(x.dtype.Size()) }

// blob is a range of the file, changed as asked.
func (p *Patch) blob(off, size int64) tensor.Blob {
	list := p.section(off, size, 0)
	switch len(list) {
	case 0:
		return tensor.Blob{}
	case 1:
		return list[0].data
	}
	return tensor.BlobFunc(size, func() (io.ReadCloser, error) {
		var readers []io.Reader
		for _, x := range list {
			var b bytes.Buffer
			if _, err := x.data.WriteTo(&b); err != nil {
				return nil, err
			}
			readers = append(readers, &b)
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	})
}

// table writes the table at pos again, what it refers to first, and as often as
// it is referred to: sharing could make the copy so small that it looks like an
// attack.
func (b *rebuilder) table(pos, table int) (fb.Offset, error) {
	b.depth++
	defer func() { b.depth-- }()
	b.e.deepest = max(b.e.deepest, b.depth)
	switch table {
	case rtenfb.TableConstantNode:
		return b.constant(pos)
	case rtenfb.TableGraph:
		return b.graphTable(pos)
	}
	return b.generic(pos, table, nil)
}

// generic copies the fields of a table. replace, where it is not nil, gives some
// of them, by slot.
func (b *rebuilder) generic(pos, table int, replace map[int]fb.Offset) (fb.Offset, error) {
	m, e := b.m, b.e
	t := &rtenfb.Schema.Tables[table]
	children := make([]fb.Offset, len(t.Fields))
	for i := range t.Fields {
		f := &t.Fields[i]
		at := int(f.Slot)
		var err error
		if x, ok := replace[at]; ok {
			children[i] = x
			continue
		}
		if f.Kind == fb.Scalar || m.field(pos, at) == 0 && !b.gains(table, pos, at) {
			continue
		}
		switch f.Kind {
		case fb.String:
			s, _ := m.str(pos, at)
			if name, ok := b.names[pos]; ok && table == rtenfb.TableNode {
				s = name
			}
			children[i] = e.b.String(s)
		case fb.Child:
			if table == rtenfb.TableModel && at == slotModelMetadata {
				children[i] = b.metadata(pos)
				break
			}
			children[i], err = b.table(m.child(pos, at), int(f.Index))
		case fb.Union:
			tag := int(m.tag(pos, at-2))
			children[i], err = b.table(m.child(pos, at), int(rtenfb.Schema.Unions[f.Index].Members[tag]))
		case fb.Scalars:
			first, n := m.vector(pos, at)
			children[i] = e.b.Scalars(m.buf[first:first+n*int(f.Size)], int(f.Size), 4)
			if table == rtenfb.TableOperatorNode && b.renumbered != nil {
				children[i] = e.uint32s(b.renumber(m.ints(pos, at)))
			}
		case fb.Tables:
			first, n := m.vector(pos, at)
			list := make([]fb.Offset, n)
			for j := n - 1; j >= 0 && err == nil; j-- {
				entry := first + 4*j
				list[j], err = b.table(entry+int(m.u32(entry)), int(f.Index))
			}
			children[i] = e.b.Offsets(list)
		}
		if err != nil {
			return 0, err
		}
	}
	e.begin()
	for _, width := range [...]int{8, 4, 2, 1} {
		for i := len(t.Fields) - 1; i >= 0; i-- {
			f := &t.Fields[i]
			switch {
			case children[i] != 0 && width == 4:
				e.b.Ref(int(f.Slot), children[i])
			case f.Kind == fb.Scalar && int(f.Size) == width:
				if at := m.field(pos, int(f.Slot)); at != 0 {
					var x uint64
					for k := width - 1; k >= 0; k-- {
						x = x<<8 | uint64(m.buf[at+k])
					}
					e.scalar(int(f.Slot), width, x)
				}
			}
		}
	}
	return e.finish(), nil
}

// gains tells a field that is absent and gets a value.
func (b *rebuilder) gains(table, pos, slot int) bool {
	switch {
	case table == rtenfb.TableModel && slot == slotModelMetadata:
		return len(b.p.metadata) > 0
	case table == rtenfb.TableNode && slot == slotNodeName:
		_, ok := b.names[pos]
		return ok
	}
	return false
}

func (b *rebuilder) metadata(root int) fb.Offset {
	if len(b.p.metadata) == 0 {
		at, _ := b.generic(b.m.child(root, slotModelMetadata), rtenfb.TableMetadata, nil)
		return at
	}
	return encodeMetadata(b.e, b.p.merged())
}

// renumber gives nodes the indices that they have once others are dropped.
func (b *rebuilder) renumber(ids []int) []int {
	for i, id := range ids {
		if id >= 0 {
			ids[i] = b.renumbered[id]
		}
	}
	return ids
}

// graphTable writes a graph without the nodes that are dropped.
func (b *rebuilder) graphTable(pos int) (fb.Offset, error) {
	if len(b.drops) == 0 {
		return b.generic(pos, rtenfb.TableGraph, nil)
	}
	m, e := b.m, b.e
	index, ok := b.dropsAt[pos]
	if !ok {
		index = -1
	}
	before := b.renumbered
	defer func() { b.renumbered = before }()
	first, n := m.vector(pos, slotGraphNodes)
	b.renumbered = make([]int, n)
	next := 0
	for i := range n {
		b.renumbered[i] = next
		if !b.drops[index][i] {
			next++
		}
	}
	list := make([]fb.Offset, next)
	for i := n - 1; i >= 0; i-- {
		if b.drops[index][i] {
			continue
		}
		entry := first + 4*i
		at, err := b.table(entry+int(m.u32(entry)), rtenfb.TableNode)
		if err != nil {
			return 0, err
		}
		list[b.renumbered[i]] = at
	}
	replace := map[int]fb.Offset{slotGraphNodes: e.b.Offsets(list)}
	for _, slot := range [...]int{slotGraphInputs, slotGraphOutputs, slotGraphCaptures} {
		if m.field(pos, slot) != 0 {
			replace[slot] = e.uint32s(b.renumber(m.ints(pos, slot)))
		}
	}
	return b.generic(pos, rtenfb.TableGraph, replace)
}

// constant writes a ConstantNode, with its elements where the options want them.
func (b *rebuilder) constant(pos int) (fb.Offset, error) {
	m := b.m
	var x payload
	x.read(m, pos)
	shape := make(tensor.Shape, x.rank)
	for i := range shape {
		shape[i] = int64(m.u32(x.dims + 4*i))
	}
	if !b.e.outside(x.elements()) {
		b.e.deepest = max(b.e.deepest, b.depth+1)
	}
	data := b.p.blob(x.off, x.size)
	return b.e.constant(rangeKey{x.off, x.size}, "", x.dtype, shape, data)
}

// convertKeeping changes the version of a model that cannot be taken apart. A
// flatbuffer of version 1 becomes the model of version 2 as it is; constants that
// are outside of one of version 2 are put behind it, with new ConstantNodes that
// take the place of the old ones.
func (p *Patch) convertKeeping(o WriterOptions) (*layout, error) {
	m := p.r.model
	if len(p.dropped) > 0 || p.needsRebuild() {
		return nil, fmt.Errorf("%w: rten: the model has content that is newer than this library, and cannot be taken apart without losing it", errors.ErrUnsupported)
	}
	model, err := p.editModel()
	if err != nil {
		return nil, err
	}
	if o.Version == 2 {
		return version2Layout(model.pieces(), model.size, nil, 0, o.Align)
	}
	e := newEncoder(o)
	tables := make([]fb.Offset, len(m.constants))
	for i := len(tables) - 1; i >= 0; i-- {
		c := m.Constant(i)
		var x payload
		if x.read(m, c.pos); x.inline {
			continue
		}
		shape := make(tensor.Shape, x.rank)
		for j := range shape {
			shape[j] = int64(m.u32(x.dims + 4*j))
		}
		if tables[i], err = e.constant(nil, m.tensorName(i), x.dtype, shape, p.blob(x.off, x.size)); err != nil {
			return nil, err
		}
	}
	e.begin()
	added, err := e.model(e.finish())
	if err != nil {
		return nil, err
	}
	base := (model.size + 7) &^ 7
	if base+added.size > maxModel {
		return nil, fmt.Errorf("%w: a file of version 1 is less than 2 GiB long", tensor.ErrLimit)
	}
	end := base + added.pieces[0].data.Size()
	for i, t := range tables {
		if t != 0 {
			field := m.field(m.Constant(i).n.pos, slotNodeData)
			model.patch32(field, uint32(end-int64(t)-int64(field)))
		}
	}
	if model.tangled() {
		return nil, fmt.Errorf("%w: rten: parts of the model overlap, and some are newer than this library", errors.ErrUnsupported)
	}
	for _, x := range added.pieces {
		x.off += base
		model.tail = append(model.tail, x)
	}
	return &layout{pieces: model.pieces(), size: base + added.size}, nil
}
