package ptd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/le"
	"github.com/tensorfile/tensorfile/internal/names"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// firstRead is how much opening asks for before it knows how long the metadata is.
const firstRead = 64 << 10

// newReader reads the metadata of src and takes src over if it succeeds.
func newReader(src *source.Source, opts *ReaderOptions) (r *Reader, err error) {
	if opts == nil {
		opts = new(ReaderOptions)
	}
	if err := opts.Limits.Check(); err != nil {
		return nil, err
	}
	// Whatever is wrong in a file is an error before it can panic. What is left is a file that somebody changes while it is
	// being read from a mapping, and a bug of ours.
	defer func() {
		if e := recover(); e != nil {
			r, err = nil, failure(-1, "", fmt.Errorf("%w: changed while it was read, or a bug in tensorfile: %v", tensor.ErrMalformed, e))
		}
	}()
	p := parser{opts: opts, limits: opts.Limits.WithDefaults(), r: &Reader{src: src}}
	if mapped, err := src.Scan(p.file); mapped {
		return p.r, err
	}
	head, err := src.Metadata(0, min(src.Size(), firstRead))
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(head[:min(headSize, len(head))], src.Size(), p.limits)
	if err != nil {
		return nil, err
	}
	if end := h.metadataEnd(); end > int64(len(head)) {
		rest, err := src.Metadata(int64(len(head)), end-int64(len(head)))
		if err != nil {
			return nil, err
		}
		head = append(head, rest...)
	}
	p.alias = true
	return p.r, p.metadata(h, head[:h.metadataEnd()])
}

type parser struct {
	opts   *ReaderOptions
	limits tensor.Limits
	r      *Reader
	shift  int64 // from a position in the FlatBuffer to one in the file
	budget int64 // bytes that the index may still take
	names  int64 // bytes of names so far
	alias  bool  // the metadata is ours, so that names can stay where they are

	// Where the names, shapes and orders of many entries are kept together.
	text   []byte
	dims   []int64
	orders []int
}

// What entries cost in the index at most, for the budget; a test holds the numbers against the types.
const (
	entryCost   = 40 + 16 // with its place in the table of names
	tensorCost  = 136
	segmentCost = 24
)

// spend takes n bytes of the budget. A file that refers to the same table again and again could make the index many times
// as large as itself; for a genuine one it takes two or three times the metadata.
func (p *parser) spend(n int64) bool {
	p.budget -= n
	return p.budget >= 0
}

func (p *parser) spent(offset int64, field string) error {
	return failure(offset, field, fmt.Errorf("%w: more entries than %d bytes of metadata can describe without sharing them",
		tensor.ErrLimit, p.r.header.FlatbufferSize))
}

// file parses all bytes of a file, of which it keeps none.
func (p *parser) file(all []byte) error {
	h, err := parseHeader(all[:min(headSize, len(all))], int64(len(all)), p.limits)
	if err != nil {
		return err
	}
	return p.metadata(h, all[:h.metadataEnd()])
}

// metadata parses the bytes of the file up to the end of the FlatBuffer.
func (p *parser) metadata(h Header, head []byte) error {
	p.r.header, p.shift = h, h.FlatbufferOffset
	p.budget = h.FlatbufferSize*4 + 1<<19
	root := binary.LittleEndian.Uint32(head)
	if int64(root) < h.FlatbufferOffset+8 {
		return malformed(0, "root", "the root table at byte %d is not behind the header, which ends at %d", root, h.FlatbufferOffset+8)
	}
	if int64(root) > int64(len(head))-4 {
		return malformed(0, "root", "the root table at byte %d is not in the metadata, which ends at %d", root, len(head))
	}
	if h.FlatbufferOffset%8 != 0 {
		if err := p.warn(16, "header.flatbuffer_offset", "%d is no multiple of 8 and takes the flatbuffer out of alignment", h.FlatbufferOffset); err != nil {
			return err
		}
	}
	if over := p.r.src.Size() - h.SegmentBaseOffset - h.SegmentDataSize; over > 0 && h.SegmentBaseOffset > 0 {
		if err := p.warn(h.SegmentBaseOffset+h.SegmentDataSize, "", "%d bytes behind the last segment", over); err != nil {
			return err
		}
	}
	buf := head[h.FlatbufferOffset:]
	pos := root - uint32(h.FlatbufferOffset)
	limits := fb.Limits{MaxTables: math.MaxInt32, UTF8: true}
	legacy := hasField(buf, pos, legacySegments) &&
		fb.VerifySpliced(buf, pos, &ptdfb.Schema, ptdfb.TableLegacyFlatTensor, limits) == nil
	if !legacy {
		if err := fb.VerifySpliced(buf, pos, &ptdfb.Schema, ptdfb.TableFlatTensor, limits); err != nil {
			return p.refused(err)
		}
	}
	view := fb.ViewAt(buf, pos)
	if v := view.Uint32(flatTensorVersion); v != 0 {
		return failure(p.shift+view.At(flatTensorVersion), "version", fmt.Errorf("%w: version %d, only 0 is known", errors.ErrUnsupported, v))
	}
	if legacy {
		return p.legacy(view)
	}
	return p.entries(view)
}

// index makes the table of names and refuses a name that stands twice: ExecuTorch's readers disagree about which of the
// two it means. place tells the offset and the field of an entry's name.
func (p *parser) index(place func(i int) (int64, string)) error {
	r := p.r
	table, dup := names.Build(len(r.entries), func(i int) string { return r.entries[i].name })
	if dup >= 0 {
		name := r.entries[dup].name
		off, field := place(dup)
		_, first := place(table.Lookup(name))
		return malformed(off, field, "the name %s stands twice, first in %s", tensor.Quote(name), first)
	}
	r.table = table
	return nil
}

// Slots of the tables, as generated code has them.
const (
	flatTensorVersion  = 4
	flatTensorSegments = 6
	flatTensorNamed    = 8

	namedKey     = 4
	namedSegment = 6
	namedLayout  = 8

	layoutType     = 4
	layoutSizes    = ptdfb.SlotTensorLayoutSizes
	layoutDimOrder = ptdfb.SlotTensorLayoutDimOrder

	segmentOffset = 4
	segmentSize   = 6
)

// A shape of entry tables: in which vector they stand, and where in them, or in a table below, the name and layout are.
type columns struct {
	vector, key, layout                     string
	keySlot, typeSlot, sizesSlot, orderSlot uint32
}

// hasField looks for a field of the root before anything is verified.
func hasField(buf []byte, pos uint32, slot int64) bool {
	vt := int64(pos) - int64(int32(binary.LittleEndian.Uint32(buf[pos:])))
	if vt < 0 || vt > int64(len(buf))-slot-2 {
		return false
	}
	return int64(binary.LittleEndian.Uint16(buf[vt:])) >= slot+2 && binary.LittleEndian.Uint16(buf[vt+slot:]) != 0
}

// refused turns what the verifier says into an error of the file.
func (p *parser) refused(err error) error {
	var e *fb.Error
	if !errors.As(err, &e) {
		return err
	}
	class := tensor.ErrMalformed
	if e.Limit {
		class = tensor.ErrLimit
	}
	return failure(p.shift+e.Offset, e.Path, fmt.Errorf("%w: %s", class, e.Reason))
}

func (p *parser) warn(offset int64, field, format string, args ...any) error {
	return p.r.warn(p.opts, malformed(offset, field, format, args...))
}

// entries reads a FlatTensor of 0.7 and later.
func (p *parser) entries(root fb.View) error {
	r := p.r
	segments, ok := root.Tables(flatTensorSegments)
	if !ok {
		return malformed(p.shift+root.Offset(), "segments", "absent")
	}
	named, ok := root.Tables(flatTensorNamed)
	if !ok {
		return malformed(p.shift+root.Offset(), "named_data", "absent")
	}
	if err := p.segments(segments); err != nil {
		return err
	}
	if err := p.room(named.Len(), p.shift+root.At(flatTensorNamed), "named_data"); err != nil {
		return err
	}
	c := &columns{"named_data", ".key", ".tensor_layout", namedKey, layoutType, layoutSizes, layoutDimOrder}
	tensors := 0
	for i := range named.Len() {
		if named.At(i).At(namedLayout) != 0 {
			tensors++
		}
	}
	if !p.spend(int64(tensors) * tensorCost) {
		return p.spent(p.shift+root.At(flatTensorNamed), "named_data")
	}
	r.tensors = make([]tensor.Tensor, 0, tensors)
	for i := range named.Len() {
		v := named.At(i)
		name, err := p.name(v, c, i, named.Len()-i)
		if err != nil {
			return err
		}
		s, data, err := p.segmentOf(v, namedSegment, c.vector, i)
		if err != nil {
			return err
		}
		r.entries = append(r.entries, entry{name: name, data: data, segment: s, tensor: -1})
		layout, ok := v.Child(namedLayout)
		if !ok {
			continue
		}
		t, err := p.tensor(layout, c, i, named.Len()-i, data.Size())
		if err != nil {
			return err
		}
		if t == nil {
			continue // its layout is no good, and that is tolerated
		}
		if n, ok := t.DType.Bytes(elements(t.Shape)); ok && n < data.Size() {
			part, err := r.src.Extent(data.Offset(), n)
			if err != nil {
				return err
			}
			data = &part
		}
		p.add(t, layout, c, data)
	}
	return p.index(func(i int) (int64, string) {
		return p.place(named.At(i), c.keySlot), at(c.vector, i) + c.key
	})
}

// elements is for shapes that were counted before.
func elements(s tensor.Shape) int64 {
	n, _ := s.Elements()
	return n
}

// add completes the last entry with its tensor.
func (p *parser) add(t *tensor.Tensor, v fb.View, c *columns, data *source.Extent) {
	e := &p.r.entries[len(p.r.entries)-1]
	e.tensor, e.scalar = int32(len(p.r.tensors)-1), ScalarType(v.Uint8(c.typeSlot))
	t.Name, t.Data = e.name, tensor.NewBlob(data)
	if t.DType == tensor.Unknown {
		t.Data = tensor.NewBlob(&untyped{data, e.scalar.String()})
	}
}

// untyped is the data of a tensor whose type has no name: it tells the file's own word.
type untyped struct {
	*source.Extent
	word string
}

// Stored tells where the data is, and its type in the file's word.
func (u *untyped) Stored() tensor.Stored {
	return tensor.Stored{Offset: u.Offset(), Size: u.Size(), Encoding: "raw", Type: u.word}
}

// room makes room for n more entries.
func (p *parser) room(n int, offset int64, field string) error {
	if have := len(p.r.entries); int64(have)+int64(n) > p.limits.MaxTensors {
		return failure(offset, field, fmt.Errorf("%w: %d entries, Limits.MaxTensors is %d", tensor.ErrLimit, have+n, p.limits.MaxTensors))
	}
	if !p.spend(int64(n) * entryCost) {
		return p.spent(offset, field)
	}
	p.r.entries = slices.Grow(p.r.entries, n)
	return nil
}

// place is where a field of a table is, or the table where the field is absent.
func (p *parser) place(v fb.View, slot uint32) int64 {
	if at := v.At(slot); at != 0 {
		return p.shift + at
	}
	return p.shift + v.Offset()
}

// segments reads where the segments are and holds them against the header.
func (p *parser) segments(all fb.Views) error {
	r, h := p.r, p.r.header
	if !p.spend(int64(all.Len()) * segmentCost) {
		return p.spent(p.shift+all.Offset(), "segments")
	}
	r.segments = make([]source.Extent, all.Len())
	var end int64
	for i := range all.Len() {
		v := all.At(i)
		off, size := v.Uint64(segmentOffset), v.Uint64(segmentSize)
		if off > uint64(h.SegmentDataSize) || size > uint64(h.SegmentDataSize)-off {
			field, slot := "offset", uint32(segmentOffset)
			if off <= uint64(h.SegmentDataSize) {
				field, slot = "size", segmentSize
			}
			return malformed(p.place(v, slot), at("segments", i)+"."+field, "%d bytes at %d of the %d that header.segment_data_size counts", size, off, h.SegmentDataSize)
		}
		if int64(off) < end {
			if err := p.warn(p.place(v, segmentOffset), at("segments", i)+".offset", "%d, before the end of the segment listed before it, %d", off, end); err != nil {
				return err
			}
		}
		end = max(end, int64(off+size))
		var err error
		if r.segments[i], err = r.src.Extent(h.SegmentBaseOffset+int64(off), int64(size)); err != nil {
			return failure(p.place(v, segmentOffset), at("segments", i), err)
		}
	}
	return nil
}

// segmentOf answers the segment that entry i of a vector names.
func (p *parser) segmentOf(v fb.View, slot uint32, vector string, i int) (int32, *source.Extent, error) {
	s := v.Uint32(slot)
	if int64(s) >= int64(len(p.r.segments)) {
		return 0, nil, malformed(p.place(v, slot), at(vector, i)+".segment_index", "%d, there are %d segments", s, len(p.r.segments))
	}
	return int32(s), &p.r.segments[s], nil
}

// at names an element of a vector.
func at(vector string, i int) string { return vector + "[" + strconv.Itoa(i) + "]" }

// name copies and checks the name of entry i; with it, left are to come.
func (p *parser) name(v fb.View, c *columns, i, left int) (string, error) {
	key, ok := v.Scalars(c.keySlot, 1)
	if !ok {
		return "", malformed(p.shift+v.Offset(), at(c.vector, i)+c.key, "absent")
	}
	var err error
	switch p.names += int64(len(key)); {
	case int64(len(key)) > p.limits.MaxName:
		err = fmt.Errorf("%w: a name of %d bytes, Limits.MaxName is %d", tensor.ErrLimit, len(key), p.limits.MaxName)
	case p.names > p.r.header.FlatbufferSize:
		err = fmt.Errorf("%w: the names share their bytes: together they are longer than the metadata", tensor.ErrLimit)
	}
	if err != nil {
		return "", failure(p.place(v, c.keySlot), at(c.vector, i)+c.key, err)
	}
	if !p.alias {
		if !p.spend(int64(len(key))) {
			return "", p.spent(p.place(v, c.keySlot), at(c.vector, i)+c.key)
		}
		if len(key) > cap(p.text)-len(p.text) {
			p.text = make([]byte, 0, max(len(key), min((len(key)+4)*left, 1<<18)))
		}
		start := len(p.text)
		p.text = append(p.text, key...)
		key = p.text[start:]
	}
	name := le.String(key)
	// In the copy, not in what may be a mapping of a file that somebody changes.
	if strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name) {
		return "", malformed(p.place(v, c.keySlot), at(c.vector, i)+c.key, "the name %s has a NUL or is not UTF-8", tensor.Quote(name))
	}
	return name, nil
}

// tensor reads the layout of entry i, which has size bytes, into a new tensor at the end of the list. Where the layout makes
// no sense it answers an error or, if the caller of Open tolerates that, nil.
func (p *parser) tensor(v fb.View, c *columns, i, left int, size int64) (*tensor.Tensor, error) {
	sizes, ok1 := v.Scalars(c.sizesSlot, 4)
	order, ok2 := v.Scalars(c.orderSlot, 1)
	rank := len(sizes) / 4
	bad := func(slot uint32, field string, err error) (*tensor.Tensor, error) {
		err = failure(p.place(v, slot), at(c.vector, i)+c.layout+field, err)
		if p.opts.Lenient && !p.opts.Strict && !errors.Is(err, tensor.ErrLimit) {
			return nil, p.r.warn(p.opts, err)
		}
		return nil, err
	}
	malformed := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{tensor.ErrMalformed}, args...)...)
	}
	switch {
	case !ok1:
		return bad(c.sizesSlot, ".sizes", malformed("absent"))
	case !ok2:
		return bad(c.orderSlot, ".dim_order", malformed("absent"))
	case int64(rank) > p.limits.MaxRank:
		return bad(c.sizesSlot, ".sizes", fmt.Errorf("%w: %d dimensions, Limits.MaxRank is %d", tensor.ErrLimit, rank, p.limits.MaxRank))
	case len(order) != rank:
		return bad(c.orderSlot, ".dim_order", malformed("%d dimensions for %d sizes", len(order), rank))
	}
	// What the index takes must stay in proportion to the metadata, which may refer to the same layout again and again.
	if !p.spend(int64(rank) * 8) {
		return nil, p.spent(p.shift+v.Offset(), at(c.vector, i)+c.layout)
	}
	if rank > cap(p.dims)-len(p.dims) {
		p.dims = make([]int64, 0, max(rank, min(rank*left, 1<<16)))
	}
	start := len(p.dims)
	for d := range rank {
		p.dims = append(p.dims, int64(int32(binary.LittleEndian.Uint32(sizes[4*d:]))))
	}
	shape := tensor.Shape(p.dims[start:len(p.dims):len(p.dims)])
	for d, n := range shape {
		if n < 0 {
			return bad(c.sizesSlot, at(".sizes", d), malformed("%d", n))
		}
	}
	dimOrder, ok := p.order(order, left)
	if !ok {
		return bad(c.orderSlot, ".dim_order", malformed("%v is no permutation", order))
	}
	t := tensor.Tensor{DType: ScalarType(v.Uint8(c.typeSlot)).DType(), Shape: shape, Order: dimOrder}
	n, ok := shape.Elements()
	if ok && t.DType != tensor.Unknown {
		n, ok = t.DType.Bytes(n)
	}
	switch {
	case !ok:
		return bad(c.sizesSlot, ".sizes", malformed("%v of %v is beyond 2^63 bytes", shape, t.DType))
	case t.DType == tensor.Unknown:
		if err := p.warn(p.place(v, c.typeSlot), at(c.vector, i)+c.layout+".scalar_type", "%d stands for no type", int8(v.Uint8(c.typeSlot))); err != nil {
			return nil, err
		}
	case n > size:
		return bad(c.sizesSlot, ".sizes", malformed("%v of %v takes %d bytes, and there are %d", shape, t.DType, n, size))
	}
	if rank > runtimeRank {
		if err := p.warn(p.place(v, c.sizesSlot), at(c.vector, i)+c.layout+".sizes", "%d dimensions, the runtime makes no tensor of more than %d", rank, runtimeRank); err != nil {
			return nil, err
		}
	}
	p.r.tensors = append(p.r.tensors, t)
	return &p.r.tensors[len(p.r.tensors)-1], nil
}

// runtimeRank is ExecuTorch's kTensorDimensionLimit.
const runtimeRank = 16

// order copies a dim_order; row-major is nil. It answers false for what is no permutation.
func (p *parser) order(o []byte, left int) (tensor.Order, bool) {
	plain := true
	for i, d := range o {
		plain = plain && int(d) == i
	}
	if plain {
		return nil, true
	}
	if !p.spend(int64(len(o)) * 8) {
		return nil, true
	}
	if len(o) > cap(p.orders)-len(p.orders) {
		p.orders = make([]int, 0, max(len(o), min(len(o)*left, 1<<16)))
	}
	start := len(p.orders)
	for _, d := range o {
		p.orders = append(p.orders, int(d))
	}
	out := tensor.Order(p.orders[start:len(p.orders):len(p.orders)])
	return out, out.Valid(len(o))
}
