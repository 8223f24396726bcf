package ptd

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// firstRead is how much opening asks for before it knows how long the metadata is.
const firstRead = 64 << 10

// read reads the metadata, which is copied unless it is in memory that nobody changes.
func read(in *format.Input) (r *Reader, err error) {
	p := parser{r: new(Reader), in: in, limits: in.Options.Limits}
	format.InitBase(&p.r.Base, errs, in)
	// A fault of a file is an error before it can panic: this is for a bug of
	// ours.
	defer func() {
		if e := recover(); e != nil {
			r, err = nil, errs.Malformed(-1, "", "a bug in tensorfile: %v", e)
		}
	}()
	head := in.Memory
	if head == nil {
		n := int64(firstRead)
		if in.Mapped() {
			n = headSize // another read costs nothing
		}
		if head, err = in.Metadata(0, min(in.Size(), n)); err != nil {
			return nil, err
		}
	}
	h, err := parseHeader(head[:min(headSize, len(head))], in.Size(), p.limits)
	if err != nil {
		return nil, err
	}
	if end := h.metadataEnd(); end > int64(len(head)) {
		if head, err = in.Extend(head, end); err != nil {
			return nil, err
		}
	}
	if err := p.metadata(h, head[:h.metadataEnd()]); err != nil {
		return nil, err
	}
	p.r.setEntries()
	return p.r, nil
}

// A parser fills a Reader from verified metadata.
type parser struct {
	in     *format.Input
	limits tensor.Limits
	r      *Reader
	shift  int64 // from a position in the FlatBuffer to one in the file
	names  int64 // bytes of names so far
	memory int64 // bytes so far

	payloads format.Arena[payload]
	dims     format.Arena[int64]
	orders   format.Arena[int]
}

// metadata parses the bytes of the file up to the end of the FlatBuffer.
func (p *parser) metadata(h header, head []byte) error {
	p.r.header, p.shift = h, h.flatbufferOffset
	root := binary.LittleEndian.Uint32(head)
	if int64(root) < h.flatbufferOffset+8 {
		return errs.Malformed(0, "root",
			"the root table at byte %d is not after the header, which ends at %d",
			root, h.flatbufferOffset+8)
	}
	if int64(root) > int64(len(head))-4 {
		return errs.Malformed(0, "root",
			"the root table at byte %d is not in the metadata, which ends at %d", root, len(head))
	}
	if h.flatbufferOffset%8 != 0 {
		p.warn(16, "header.flatbuffer_offset",
			"%d is not a multiple of 8 and takes the flatbuffer out of alignment",
			h.flatbufferOffset)
	}
	over := p.in.Size() - h.segmentBaseOffset - h.segmentDataSize
	if over > 0 && h.segmentBaseOffset > 0 {
		p.warn(h.segmentBaseOffset+h.segmentDataSize, "", "%d bytes after the last segment", over)
	}
	table := flatbuffers.Table{Bytes: head[h.flatbufferOffset:],
		Pos: flatbuffers.UOffsetT(root) - flatbuffers.UOffsetT(h.flatbufferOffset)}
	err := verify(table, ptdfb.TableFlatTensor)
	// Only verification against both separates the generations.
	isLegacy := func() bool { return fb.FieldPos(table, ptdfb.SlotLegacyFlatTensorSegments) != 0 }
	parse := p.current
	if (err != nil || isLegacy()) && verify(table, ptdfb.TableLegacyFlatTensor) == nil &&
		isLegacy() {
		parse = p.legacy
	} else if err != nil {
		return executorch.Unverified(string(errs), err, p.shift)
	}
	const slot = ptdfb.SlotFlatTensorVersion // in both
	if v := table.GetUint32Slot(slot, 0); v != 0 {
		return errs.At(p.at(table, slot), "version", errors.ErrUnsupported,
			"version %d, only 0 is known", v)
	}
	return parse(table)
}

// verify checks all that is reachable from the root table, as one of that type.
func verify(root flatbuffers.Table, table int) error {
	return fb.VerifySpliced(root.Bytes, uint32(root.Pos), &ptdfb.Schema, table,
		fb.Limits{MaxTables: math.MaxInt32})
}

// current reads a FlatTensor of 0.7 and later.
func (p *parser) current(table flatbuffers.Table) error {
	var root ptdfb.FlatTensor
	root.Init(table.Bytes, table.Pos)
	for _, f := range []struct {
		slot int
		name string
	}{{ptdfb.SlotFlatTensorSegments, "segments"}, {ptdfb.SlotFlatTensorNamedData, "named_data"}} {
		if fb.FieldPos(table, f.slot) == 0 {
			return errs.Malformed(p.at(table, f.slot), f.name, "absent")
		}
	}
	n := root.NamedDataLength()
	at := p.at(table, ptdfb.SlotFlatTensorNamedData)
	if err := p.begin(&root, at, "named_data", n); err != nil {
		return err
	}
	var nd ptdfb.NamedData
	var l ptdfb.TensorLayout
	x := row{vector: "named_data", key: ptdfb.SlotNamedDataKey, keyName: ".key",
		segment: ptdfb.SlotNamedDataSegmentIndex, layoutName: ".tensor_layout",
		scalar: ptdfb.SlotTensorLayoutScalarType, sizes: ptdfb.SlotTensorLayoutSizes,
		order: ptdfb.SlotTensorLayoutDimOrder}
	for i := range n {
		root.NamedData(&nd, i)
		x.index, x.table = i, nd.Table()
		segment, err := p.named(i, &x, nd.Key(), nd.SegmentIndex())
		switch {
		case err != nil:
			return err
		case nd.TensorLayout(&l) == nil:
			p.r.entries[i].Data = tensor.NewBlob(segment)
			continue
		}
		x.layout = l.Table()
		if err := p.tensor(i, &x, ScalarType(l.ScalarType()), segment, 0); err != nil {
			return err
		}
	}
	return nil
}

// legacy reads a FlatTensor of 0.6, of the same version, identifier and header. There all
// tensors are at offsets in one segment, of the size that their shapes say, and blobs are
// in a vector of their own.
func (p *parser) legacy(table flatbuffers.Table) error {
	var root ptdfb.LegacyFlatTensor
	root.Init(table.Bytes, table.Pos)
	r := p.r
	r.legacy, r.align = true, int64(root.TensorAlignment())
	// Whoever writes the entries again aligns them like this: a small file must not
	// make gigabytes of padding.
	if r.align&(r.align-1) != 0 || r.align > 1<<20 {
		p.warn(p.at(table, ptdfb.SlotLegacyFlatTensorTensorAlignment), "tensor_alignment",
			"%d is not a power of two up to 2^20", r.align)
		r.align = 0
	}
	tensors, blobs := root.TensorsLength(), root.NamedDataLength()
	if err := p.begin(&root, p.shift+int64(table.Pos), "tensors", tensors+blobs); err != nil {
		return err
	}
	var m ptdfb.TensorMetadata
	x := row{vector: "tensors", key: ptdfb.SlotTensorMetadataFullyQualifiedName,
		keyName: ".fully_qualified_name", segment: ptdfb.SlotTensorMetadataSegmentIndex,
		scalar: ptdfb.SlotTensorMetadataScalarType, sizes: ptdfb.SlotTensorMetadataSizes,
		order: ptdfb.SlotTensorMetadataDimOrder}
	for i := range tensors {
		root.Tensors(&m, i)
		x.index, x.table, x.layout = i, m.Table(), m.Table()
		segment, err := p.named(i, &x, m.FullyQualifiedName(), m.SegmentIndex())
		if err == nil && m.Offset() > uint64(segment.Size()) {
			err = errs.Malformed(p.at(x.table, ptdfb.SlotTensorMetadataOffset), x.field(".offset"),
				"%d, in a segment of %d bytes", m.Offset(), segment.Size())
		}
		if err == nil {
			err = p.tensor(i, &x, ScalarType(m.ScalarType()), segment, int64(m.Offset()))
		}
		if err != nil {
			return err
		}
	}
	var nd ptdfb.LegacyNamedData
	x = row{vector: "named_data", key: ptdfb.SlotLegacyNamedDataKey, keyName: ".key",
		segment: ptdfb.SlotLegacyNamedDataSegmentIndex}
	for i := range blobs {
		root.NamedData(&nd, i)
		x.index, x.table = i, nd.Table()
		segment, err := p.named(tensors+i, &x, nd.Key(), nd.SegmentIndex())
		if err != nil {
			return err
		}
		r.entries[tensors+i].Data = tensor.NewBlob(segment)
	}
	return nil
}

// A segmentList is the root table of either generation.
type segmentList interface {
	Segments(obj *ptdfb.DataSegment, j int) bool
	SegmentsLength() int
}

// begin makes memory for n entries, of which the vector at that place has the first, and
// reads the segments.
func (p *parser) begin(root segmentList, at int64, vector string, n int) error {
	r, segments := p.r, root.SegmentsLength()
	if int64(n) > p.limits.MaxTensors {
		return errs.Limit(at, vector, "%d entries, the limit is %d", n, p.limits.MaxTensors)
	}
	err := p.take(int64(n)*(sizeOf[entry]()+naming.Each) + int64(segments)*sizeOf[source.Extent]())
	if err != nil {
		return err
	}
	r.entries, r.segments = make([]entry, n), make([]source.Extent, segments)
	r.table = naming.New(n, func(i int) string { return r.entries[i].Name })
	return p.segments(root)
}

// segments reads where the segments are and compares them with the header.
func (p *parser) segments(root segmentList) error {
	h := p.r.header
	var s ptdfb.DataSegment
	limit, end := uint64(h.segmentDataSize), uint64(0)
	for i := range p.r.segments {
		root.Segments(&s, i)
		off, size := s.Offset(), s.Size()
		offsetAt := func() int64 { return p.at(s.Table(), ptdfb.SlotDataSegmentOffset) }
		switch {
		case off > limit:
			return errs.Malformed(offsetAt(), element("segments", i)+".offset",
				"%d bytes at %d of the %d that header.segment_data_size counts", size, off, limit)
		case size > limit-off:
			return errs.Malformed(p.at(s.Table(), ptdfb.SlotDataSegmentSize),
				element("segments", i)+".size",
				"%d bytes at %d of the %d that header.segment_data_size counts", size, off, limit)
		case off < end:
			p.warn(offsetAt(), element("segments", i)+".offset",
				"%d, before the end of the segment listed before it, %d", off, end)
		}
		end = max(end, off+size)
		var err error
		p.r.segments[i], err = p.in.Extent(h.segmentBaseOffset+int64(off), int64(size))
		if err != nil {
			return err
		}
	}
	return nil
}

// take counts memory for entries: a file could refer to one table again and again. A
// valid one stays below 8 times its metadata, which is in memory too, and 1 MiB.
func (p *parser) take(n int64) error {
	size := p.r.header.flatbufferSize
	if p.memory += n; p.memory > 7*size+1<<19 {
		return errs.Limit(p.shift, "",
			"more entries than %d bytes of metadata can describe without sharing them", size)
	}
	return nil
}

// at is where a field of a table is in the file, or the table where the field is absent.
func (p *parser) at(t flatbuffers.Table, slot int) int64 {
	return p.shift + int64(fb.FieldPosOr(t, slot))
}

// element names an element of a vector.
func element(vector string, i int) string { return vector + "[" + strconv.Itoa(i) + "]" }

// warn notes a deviation from the format that does not prevent reading.
func (p *parser) warn(offset int64, field, text string, args ...any) {
	if !format.WarningsFull(&p.r.Base) {
		format.Warn(&p.r.Base, errs.Malformed(offset, field, text, args...))
	}
}
