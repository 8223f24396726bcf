package rten

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Patch is a changed copy of a file in the making: other weights, metadata or
// names, another version or alignment. What is not changed is kept, operators
// and fields included that this library does not know. The Reader must stay open
// until the copy is written.
type Patch struct {
	r *Reader
	// AllowShared lets [Patch.Set] replace bytes that several constants share.
	AllowShared bool

	metadata map[int]*string // by index into metadataKeys; nil removes
	names    map[int]string  // by index of the constant
	dropped  map[int]bool
	replaced map[int64]overlay // by offset, without overlap
	overlays []overlay         // the same, ascending, while the copy is written

	made         *patchIndex // see index
	sectionSteps int         // overlays visited, for tests
}

// An overlay is new content for a range of the file.
type overlay struct {
	off, size int64
	data      tensor.Blob
}

// NewPatch begins a copy of what r reads.
func NewPatch(r *Reader) *Patch {
	return &Patch{r: r, metadata: make(map[int]*string), names: make(map[int]string), dropped: make(map[int]bool), replaced: make(map[int64]overlay)}
}

// index is made when the first change asks for it.
func (p *Patch) index() *patchIndex {
	if p.made == nil {
		p.made = newPatchIndex(p.r.model)
	}
	return p.made
}

// SetMetadata sets one of the strings that [Model.Metadata] lists; other keys
// cannot be stored.
func (p *Patch) SetMetadata(key, value string) error {
	i := slices.Index(metadataKeys[:], key)
	switch {
	case i < 0:
		return fmt.Errorf("%w: rten: the format has no metadata called %s, only %s", errors.ErrUnsupported, tensor.Quote(key), strings.Join(metadataKeys[:], ", "))
	case !utf8.ValidString(value):
		return fmt.Errorf("%w: rten: the value of %s is not UTF-8", tensor.ErrMalformed, key)
	}
	p.metadata[i] = &value
	return nil
}

// RemoveMetadata removes a string; one that is not there is no error.
func (p *Patch) RemoveMetadata(key string) error {
	i := slices.Index(metadataKeys[:], key)
	if i < 0 {
		return fmt.Errorf("%w: rten: the format has no metadata called %s", errors.ErrUnsupported, tensor.Quote(key))
	}
	p.metadata[i] = nil
	return nil
}

// constant is the constant of that index, which is used in a graph.
func (p *Patch) constant(i int) (Constant, error) {
	if i < 0 || i >= p.r.Len() {
		return Constant{}, fmt.Errorf("rten: constant %d of %d", i, p.r.Len())
	}
	return p.r.model.Constant(i), nil
}

// Set gives the constant of that index the elements of t, whose element type and
// shape must be the same. Where other constants have some of the same bytes, it
// fails and names them, unless AllowShared.
func (p *Patch) Set(i int, t *tensor.Tensor) error {
	c, err := p.constant(i)
	if err != nil {
		return err
	}
	if err := checkConstant(t); err != nil {
		return fmt.Errorf("rten: %w", err)
	}
	m := p.r.model
	var at payload
	at.read(m, c.pos)
	name := tensor.Quote(m.tensorName(i))
	if old := c.Tensor(); t.DType != at.dtype || !t.Shape.Equal(old.Shape) {
		return fmt.Errorf("%w: rten: %s is %v %v, not %v %v", tensor.ErrDType, name, at.dtype, old.Shape, t.DType, t.Shape)
	}
	if at.size == 0 {
		return nil
	}
	fresh := overlay{at.off, at.size, t.Data}
	if shared := p.index().sharing[i]; shared != nil {
		if err := p.setShared(i, shared, fresh); err != nil {
			return err
		}
	}
	p.replaced[at.off] = fresh
	return nil
}

// setShared reports why bytes that other constants have too cannot be replaced.
func (p *Patch) setShared(i int, shared *sharedBytes, fresh overlay) error {
	name := tensor.Quote(p.r.model.tensorName(i))
	if !p.AllowShared {
		var others []string
		for _, x := range shared.constants {
			if x.constant != i && x.off < fresh.off+fresh.size && fresh.off < x.end && len(others) < 10 {
				others = append(others, tensor.Quote(p.r.model.tensorName(x.constant)))
			}
		}
		if len(others) > 0 {
			return fmt.Errorf("%w: rten: %s shares bytes with %s: see AllowShared", errors.ErrUnsupported, name, strings.Join(others, ", "))
		}
	}
	for _, x := range shared.distinct {
		o, ok := p.replaced[x.off]
		if ok && (o.off != fresh.off || o.size != fresh.size) && o.off < fresh.off+fresh.size && fresh.off < o.off+o.size {
			return fmt.Errorf("%w: rten: some bytes of %s were replaced before", errors.ErrUnsupported, name)
		}
	}
	return nil
}

// Rename gives the constant of that index another name, without the path of its
// graph. It fails where a name has a meaning: a graph inside captures the old
// one or the new one, or the graph has another constant or value of that name.
func (p *Patch) Rename(i int, name string) error {
	c, err := p.constant(i)
	if err != nil {
		return err
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%w: rten: the name %s is not UTF-8", tensor.ErrMalformed, tensor.Quote(name))
	}
	m := p.r.model
	if other := p.index().names[nameKey{c.n.graph, name}]; other.n > 1 || other.n == 1 && other.node != c.n.index {
		return fmt.Errorf("%w: rten: another constant or value is called %s already", errors.ErrUnsupported, tensor.Quote(name))
	}
	if other, ok := p.index().capturedIn(m, c.n, name); ok {
		return fmt.Errorf("%w: rten: %s captures another tensor called %s", errors.ErrUnsupported, other, tensor.Quote(name))
	}
	if old, named := c.n.Name(); named {
		if other, ok := p.index().capturedIn(m, c.n, old); ok {
			return fmt.Errorf("%w: rten: %s captures %s by its name", errors.ErrUnsupported, other, tensor.Quote(m.tensorName(i)))
		}
	}
	p.names[i] = name
	return nil
}

// Drop leaves out the constant of that index, which nothing may use.
func (p *Patch) Drop(i int) error {
	c, err := p.constant(i)
	if err != nil {
		return err
	}
	name := tensor.Quote(p.r.model.tensorName(i))
	if use := p.index().uses[nodeKey{c.n.graph, c.n.index}]; use != "" {
		return fmt.Errorf("%w: rten: %s is %s", errors.ErrUnsupported, name, use)
	}
	if old, named := c.n.Name(); named {
		if other, ok := p.index().capturedIn(p.r.model, c.n, old); ok {
			return fmt.Errorf("%w: rten: %s captures %s by its name", errors.ErrUnsupported, other, name)
		}
	}
	p.dropped[i] = true
	return nil
}

// WriteFile writes the changed copy. The file appears whole, or not at all, and
// may take the place of the one that is read.
func (p *Patch) WriteFile(name string, opts *WriterOptions) error {
	l, err := p.layout(opts)
	if err != nil {
		return err
	}
	return l.writeFile(name)
}

// Write writes the changed copy to w, from the start to the end.
func (p *Patch) Write(w io.Writer, opts *WriterOptions) error {
	l, err := p.layout(opts)
	if err != nil {
		return err
	}
	return l.write(w)
}

func (p *Patch) layout(opts *WriterOptions) (*layout, error) {
	p.overlays = slices.SortedFunc(maps.Values(p.replaced), func(a, b overlay) int { return cmp.Compare(a.off, b.off) })
	if p.r.model.compact != nil { // where the parts of the model stand says what a copy looks like
		whole, err := p.r.whole()
		if err != nil {
			return nil, err
		}
		copied := *p
		copied.r = whole
		return copied.layout(opts)
	}
	var given WriterOptions
	if opts != nil {
		given = *opts
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	version := 1
	if p.r.v2 {
		version = 2
	}
	if given.Version == 0 {
		o.Version = version
	}
	unknown := p.r.model.unknown()
	switch {
	case o.Version != version:
		if unknown == "" {
			return p.rebuild(o)
		}
		return p.convertKeeping(o)
	case version == 2 && given.InlineElements != 0, len(p.dropped) > 0, p.needsRebuild():
		if unknown == "" {
			return p.rebuild(o)
		}
		return nil, fmt.Errorf("%w: rten: the model has content that is newer than this library, %s, and cannot be taken apart without losing it", errors.ErrUnsupported, unknown)
	}
	model, err := p.editModel()
	if err != nil {
		return nil, err
	}
	// What cannot be changed in place is written anew.
	again := func() (*layout, error) {
		if unknown != "" {
			return nil, fmt.Errorf("%w: rten: parts of the model overlap, and some are newer than this library", errors.ErrUnsupported)
		}
		return p.rebuild(o)
	}
	h := p.r.header
	if version == 1 {
		if model.tangled() {
			return again()
		}
		return &layout{pieces: model.pieces(), size: model.size}, nil
	}
	l, err := p.shift(model), error(nil)
	if given.Align != 0 || model.grown > 0 && h.TensorOffset < h.ModelOffset+h.ModelSize {
		l, err = p.realign(model, o.Align)
	}
	if err == nil && model.tangled() {
		return again()
	}
	return l, err
}

// shift is the same file with a model that may have grown: what comes behind it
// moves by a multiple of the alignment that it may have.
func (p *Patch) shift(model *editedModel) *layout {
	h := p.r.header
	end := h.ModelOffset + h.ModelSize
	by := int64(0)
	if model.grown > 0 {
		unit := int64(64)
		for unit < 4096 && h.TensorOffset%(2*unit) == 0 {
			unit *= 2
		}
		by, _ = align.Up(model.grown, unit)
		h.TensorOffset += by
	}
	h.ModelSize = model.size
	l := &layout{size: p.r.size + by}
	l.pieces = append(l.pieces, piece{0, tensor.BlobOf(h.append(nil)), "the header"})
	l.pieces = append(l.pieces, p.section(headerSize, h.ModelOffset-headerSize, headerSize)...)
	for _, x := range model.pieces() {
		x.off += h.ModelOffset
		l.pieces = append(l.pieces, x)
	}
	l.pieces = append(l.pieces, p.section(end, p.r.size-end, end+by)...)
	return l
}

// realign gives the tensors new places, in the order that they have. Constants
// that share bytes still do.
func (p *Patch) realign(model *editedModel, alignment int64) (*layout, error) {
	m := p.r.model
	var ranges []fileRange
	for i := range m.constants {
		var x payload
		if x.read(m, m.Constant(i).pos); !x.inline && x.size > 0 {
			ranges = append(ranges, fileRange{x.off, x.off + x.size, i})
		}
	}
	sortRanges(ranges)
	var external []piece
	at := int64(0) // where the next range goes
	for i := 0; i < len(ranges); {
		from, to := ranges[i].off, ranges[i].end
		j := i + 1
		for ; j < len(ranges) && ranges[j].off < to; j++ {
			to = max(to, ranges[j].end)
		}
		var ok bool
		if at, ok = align.Up(at, alignment); !ok || to-from > math.MaxInt64-at {
			return nil, fmt.Errorf("%w: rten: more than 2^63 bytes", tensor.ErrLimit)
		}
		for ; i < j; i++ {
			field := m.field(m.Constant(ranges[i].constant).pos, slotConstantOffset)
			model.patch64(field, uint64(at+ranges[i].off-from))
		}
		external = append(external, p.section(from, to-from, at)...)
		at += to - from
	}
	for i := range m.constants {
		var x payload
		c := m.Constant(i)
		if x.read(m, c.pos); !x.inline && x.size == 0 {
			model.patch64(m.field(c.pos, slotConstantOffset), 0)
		}
	}
	return version2Layout(model.pieces(), model.size, external, at, alignment)
}

// section is a range of the file, changed as asked, as pieces that begin at to.
func (p *Patch) section(off, size, to int64) []piece {
	var list []piece
	original := func(from, end int64) {
		if from < end {
			if e, err := p.r.src.Extent(from, end-from); err == nil {
				list = append(list, piece{to + from - off, tensor.NewBlob(&e), "what is kept"})
			}
		}
	}
	at, end := off, off+size
	first, _ := slices.BinarySearchFunc(p.overlays, off, func(o overlay, off int64) int { return cmp.Compare(o.off+o.size, off+1) })
	for _, o := range p.overlays[first:] {
		p.sectionSteps++
		from, till := max(o.off, off), min(o.off+o.size, end)
		if from >= till {
			break
		}
		original(at, from)
		if part, err := o.data.Section(from-o.off, till-from); err == nil {
			list = append(list, piece{to + from - off, part, "a replaced constant"})
		}
		at = till
	}
	original(at, end)
	return list
}

// An editedModel is the bytes of a flatbuffer with some offsets led elsewhere and
// tables behind it.
type editedModel struct {
	p       *Patch
	patches map[int][]byte // by position; of four or eight bytes
	tail    []piece        // behind, by position
	size    int64
	grown   int64
}

func (e *editedModel) patch32(pos int, x uint32) {
	e.patches[pos] = binary.LittleEndian.AppendUint32(nil, x)
}

func (e *editedModel) patch64(pos int, x uint64) {
	e.patches[pos] = binary.LittleEndian.AppendUint64(nil, x)
}

// tangled reports whether a patch would change more than it should.
func (e *editedModel) tangled() bool {
	if len(e.patches) == 0 {
		return false
	}
	var words []int
	for pos, b := range e.patches {
		for i := 0; i < len(b); i += 4 {
			words = append(words, pos+i)
		}
	}
	return e.p.r.model.tangled(words, func(table string, slot int) bool {
		switch table {
		case "Model":
			return slot == slotModelMetadata
		case "Node":
			return slot == slotNodeName || slot == slotNodeData
		case "ConstantNode":
			return slot == slotConstantOffset
		}
		return false
	})
}

// pieces are the model's bytes, counted from its start.
func (e *editedModel) pieces() []piece {
	m := e.p.r.model
	var list []piece
	at := int64(0)
	for _, pos := range slices.Sorted(mapKeys(e.patches)) {
		b := e.patches[pos]
		list = append(list, e.p.section(m.base+at, int64(pos)-at, at)...)
		list = append(list, piece{int64(pos), tensor.BlobOf(b), "the model"})
		at = int64(pos + len(b))
	}
	list = append(list, e.p.section(m.base+at, int64(len(m.buf))-at, at)...)
	return append(list, e.tail...)
}

// needsRebuild reports whether the edits ask for fields that the tables of this
// flatbuffer have no room for.
func (p *Patch) needsRebuild() bool {
	m := p.r.model
	if len(p.metadata) > 0 && m.field(m.root(), slotModelMetadata) == 0 {
		return true
	}
	for i := range p.names {
		if m.field(m.Constant(i).n.pos, slotNodeName) == 0 {
			return true
		}
	}
	return false
}

// editModel puts new metadata and names behind the flatbuffer and leads the
// offsets there.
func (p *Patch) editModel() (*editedModel, error) {
	m := p.r.model
	out := &editedModel{p: p, patches: make(map[int][]byte), size: int64(len(m.buf))}
	if len(p.metadata) == 0 && len(p.names) == 0 {
		return out, nil
	}
	e := newEncoder(WriterOptions{Version: 1})
	type link struct {
		field int
		to    int64 // from the end of what is encoded
	}
	var links []link
	if len(p.metadata) > 0 {
		if t := m.child(m.root(), slotModelMetadata); t != 0 {
			var newer string
			m.newer(t, metadataTable(), func(_ int, field string) { newer = field })
			if newer != "" {
				return nil, fmt.Errorf("%w: rten: the metadata has content that is newer than this library: %s", errors.ErrUnsupported, newer)
			}
		}
		e.begin() // even if nothing is left: the offset must lead to a table
		empty := e.finish()
		table := encodeMetadata(e, p.merged())
		if table == 0 {
			table = empty
		}
		links = append(links, link{m.field(m.root(), slotModelMetadata), int64(table)})
	}
	for _, i := range slices.Sorted(mapKeys(p.names)) {
		links = append(links, link{m.field(m.Constant(i).n.pos, slotNodeName), int64(e.b.String(p.names[i]))})
	}
	e.begin()
	b, err := e.b.Finish(e.finish(), "")
	if err != nil {
		return nil, err
	}
	base, _ := align.Up(out.size, 8)
	end := base + int64(len(b))
	if end > maxModel {
		return nil, fmt.Errorf("%w: rten: the model takes more than 2 GiB", tensor.ErrLimit)
	}
	for _, l := range links {
		out.patch32(l.field, uint32(end-l.to-int64(l.field)))
	}
	out.tail = append(out.tail, piece{base, tensor.BlobOf(b), "the model"})
	out.grown = end - out.size
	out.size = end
	return out, nil
}

// merged is the metadata after the edits.
func (p *Patch) merged() *[len(metadataKeys)]*string {
	var values [len(metadataKeys)]*string
	for key, s := range p.r.model.Metadata() {
		values[slices.Index(metadataKeys[:], key)] = &s
	}
	for i, s := range p.metadata {
		values[i] = s
	}
	return &values
}
