package ptd

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
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
	src, all := in.Source, in.Memory
	p := parser{r: &Reader{src: src}, limits: in.Options.Limits}
	p.r.warnings = format.Warnings{Format: "ptd"}
	// Whatever is wrong in a file is an error before it can panic: this is for a bug of
	// ours.
	defer func() {
		if e := recover(); e != nil {
			r, err = nil, malformed(-1, "", "a bug in tensorfile: %v", e)
		}
	}()
	head := all
	if all == nil {
		n := int64(firstRead)
		if src.Mapped() {
			n = headSize // another read costs nothing
		}
		if head, err = src.Metadata(0, min(src.Size(), n)); err != nil {
			return nil, err
		}
	}
	h, err := parseHeader(head[:min(headSize, len(head))], src.Size(), p.limits)
	if err != nil {
		return nil, err
	}
	if end := h.metadataEnd(); end > int64(len(head)) {
		if head, err = src.Extend(head, end); err != nil {
			return nil, err
		}
	}
	if err := p.metadata(h, head[:h.metadataEnd()]); err != nil {
		return nil, err
	}
	return p.r, nil
}

// A parser fills a Reader from verified metadata.
type parser struct {
	opts   ReaderOptions
	limits tensor.Limits
	r      *Reader
	shift  int64 // from a position in the FlatBuffer to one in the file
	names  int64 // bytes of names so far
	taken  int64 // bytes of memory so far

	payloads format.Arena[payload]
	dims     format.Arena[int64]
	orders   format.Arena[int]
}

// metadata parses the bytes of the file up to the end of the FlatBuffer.
func (p *parser) metadata(h Header, head []byte) error {
	p.r.header, p.shift = h, h.FlatbufferOffset
	root := binary.LittleEndian.Uint32(head)
	if int64(root) < h.FlatbufferOffset+8 {
		return malformed(0, "root",
			"the root table at byte %d is not after the header, which ends at %d",
			root, h.FlatbufferOffset+8)
	}
	if int64(root) > int64(len(head))-4 {
		return malformed(0, "root",
			"the root table at byte %d is not in the metadata, which ends at %d", root, len(head))
	}
	if h.FlatbufferOffset%8 != 0 {
		err := p.warn(16, "header.flatbuffer_offset",
			"%d is not a multiple of 8 and takes the flatbuffer out of alignment",
			h.FlatbufferOffset)
		if err != nil {
			return err
		}
	}
	over := p.r.src.Size() - h.SegmentBaseOffset - h.SegmentDataSize
	if over > 0 && h.SegmentBaseOffset > 0 {
		if err := p.warn(h.SegmentBaseOffset+h.SegmentDataSize, "",
			"%d bytes after the last segment", over); err != nil {
			return err
		}
	}
	table := flatbuffers.Table{Bytes: head[h.FlatbufferOffset:],
		Pos: flatbuffers.UOffsetT(root) - flatbuffers.UOffsetT(h.FlatbufferOffset)}
	err := verify(table, ptdfb.TableFlatTensor)
	// Only verification against both separates the generations.
	legacy := func() bool { return fb.FieldPos(table, ptdfb.SlotLegacyFlatTensorSegments) != 0 }
	parse := p.current
	if (err != nil || legacy()) && verify(table, ptdfb.TableLegacyFlatTensor) == nil && legacy() {
		parse = p.legacy
	} else if err != nil {
		return executorch.Unverified("ptd", err, p.shift)
	}
	const slot = ptdfb.SlotFlatTensorVersion // in both
	if v := table.GetUint32Slot(slot, 0); v != 0 {
		return fail(errors.ErrUnsupported, p.at(table, slot), "version",
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
			return malformed(p.at(table, f.slot), f.name, "absent")
		}
	}
	var nd ptdfb.NamedData
	var l ptdfb.TensorLayout
	return p.entries(&root, p.at(table, ptdfb.SlotFlatTensorNamedData), vector{
		name: "named_data", key: ".key", layout: ".tensor_layout", n: root.NamedDataLength(),
		slots: slots{
			key: ptdfb.SlotNamedDataKey, segment: ptdfb.SlotNamedDataSegmentIndex,
			scalar: ptdfb.SlotTensorLayoutScalarType, sizes: ptdfb.SlotTensorLayoutSizes,
			order: ptdfb.SlotTensorLayoutDimOrder,
		},
		read: func(i int, x *row) {
			root.NamedData(&nd, i)
			*x = row{table: nd.Table(), key: nd.Key(), segment: nd.SegmentIndex()}
			if nd.TensorLayout(&l) != nil {
				x.isTensor, x.layout, x.scalar = true, l.Table(), ScalarType(l.ScalarType())
			}
		},
	})
}

// A segmentList is the root table of either generation.
type segmentList interface {
	Segments(obj *ptdfb.DataSegment, j int) bool
	SegmentsLength() int
}

// entries reads segments and entries. at is where the first vector is in the file.
func (p *parser) entries(root segmentList, at int64, vectors ...vector) error {
	r, n := p.r, 0
	for _, v := range vectors {
		n += v.n
	}
	if int64(n) > p.limits.MaxTensors {
		return fail(tensor.ErrLimit, at, vectors[0].name, "%d entries, the limit is %d", n,
			p.limits.MaxTensors)
	}
	err := p.take(int64(n)*(sizeOf[entry]()+naming.Each) +
		int64(root.SegmentsLength())*sizeOf[source.Extent]())
	if err != nil {
		return err
	}
	r.entries, r.segments = make([]entry, n), make([]source.Extent, root.SegmentsLength())
	if err := p.segments(root); err != nil {
		return err
	}
	var x row
	rest := r.entries
	for k := range vectors {
		v := &vectors[k]
		for i := range v.n {
			v.read(i, &x)
			if err := p.entry(&rest[i], v, i, &x); err != nil {
				return err
			}
			if rest[i].isTensor {
				r.tensors++
			}
		}
		rest = rest[v.n:]
	}
	if p.names > r.header.FlatbufferSize {
		return fail(tensor.ErrLimit, at, "",
			"the names share their bytes: together they are longer than the metadata")
	}
	return p.index(vectors)
}

// index makes the table of names, and refuses a duplicate: ExecuTorch's readers
// disagree about which of the two it means.
func (p *parser) index(vectors []vector) error {
	r, dup := p.r, -1
	r.table, dup = naming.Build(len(r.entries), func(i int) string { return r.entries[i].Name })
	if dup < 0 {
		return nil
	}
	key := func(i int) (int64, string) {
		v := &vectors[0]
		if i >= v.n {
			i, v = i-v.n, &vectors[1]
		}
		var x row
		v.read(i, &x)
		return p.at(x.table, v.slots.key), v.field(i, v.key)
	}
	name := r.entries[dup].Name
	_, first := key(r.table.Lookup(name))
	off, field := key(dup)
	return malformed(off, field, "duplicate name %s, first in %s", naming.Quote(name), first)
}

func sizeOf[T any]() int64 { return int64(reflect.TypeFor[T]().Size()) }

// take counts memory for entries: a file could refer to one table again and again. That
// of a genuine one stays below 8 times its metadata, which is kept too, and 1 MiB.
func (p *parser) take(n int64) error {
	size := p.r.header.FlatbufferSize
	if p.taken += n; p.taken > 7*size+1<<19 {
		return fail(tensor.ErrLimit, p.shift, "",
			"more entries than %d bytes of metadata can describe without sharing them", size)
	}
	return nil
}

// segments reads where the segments are and compares them with the header.
func (p *parser) segments(root segmentList) error {
	r, h := p.r, p.r.header
	var s ptdfb.DataSegment
	limit, end := uint64(h.SegmentDataSize), uint64(0)
	for i := range r.segments {
		root.Segments(&s, i)
		off, size := s.Offset(), s.Size()
		offsetAt := func() int64 { return p.at(s.Table(), ptdfb.SlotDataSegmentOffset) }
		switch {
		case off > limit:
			return malformed(offsetAt(), element("segments", i)+".offset",
				"%d bytes at %d of the %d that header.segment_data_size counts", size, off, limit)
		case size > limit-off:
			return malformed(p.at(s.Table(), ptdfb.SlotDataSegmentSize),
				element("segments", i)+".size",
				"%d bytes at %d of the %d that header.segment_data_size counts", size, off, limit)
		case off < end:
			if err := p.warn(offsetAt(), element("segments", i)+".offset",
				"%d, before the end of the segment listed before it, %d", off, end); err != nil {
				return err
			}
		}
		end = max(end, off+size)
		var err error
		if r.segments[i], err = r.src.Extent(h.SegmentBaseOffset+int64(off),
			int64(size)); err != nil {
			return err
		}
	}
	return nil
}

// at is where a field of a table is in the file, or the table where the field is absent.
func (p *parser) at(t flatbuffers.Table, slot int) int64 {
	return p.shift + int64(fb.FieldPosOr(t, slot))
}

// element names an element of a vector.
func element(vector string, i int) string { return vector + "[" + strconv.Itoa(i) + "]" }

// warn notes a departure from the format; it is an error if Strict.
func (p *parser) warn(offset int64, field, format string, args ...any) error {
	if p.r.warnings.Full() {
		return nil
	}
	return p.r.warnings.Add(malformed(offset, field, format, args...))
}

// legacy reads a FlatTensor of 0.6, of the same version, identifier and header. There all
// tensors are at offsets in one segment, of the size that their shapes say.
func (p *parser) legacy(table flatbuffers.Table) error {
	var root ptdfb.LegacyFlatTensor
	root.Init(table.Bytes, table.Pos)
	r := p.r
	r.legacy, r.align = true, int64(root.TensorAlignment())
	// Whoever writes the entries again aligns them like this: a small file must not
	// make gigabytes of padding.
	if r.align&(r.align-1) != 0 || r.align > 1<<20 {
		if err := p.warn(p.at(table, ptdfb.SlotLegacyFlatTensorTensorAlignment),
			"tensor_alignment", "%d is not a power of two up to 2^20", r.align); err != nil {
			return err
		}
		r.align = 0
	}
	var m ptdfb.TensorMetadata
	var nd ptdfb.LegacyNamedData
	return p.entries(&root, p.shift+int64(table.Pos), vector{
		name: "tensors", key: ".fully_qualified_name", n: root.TensorsLength(),
		slots: slots{
			key:     ptdfb.SlotTensorMetadataFullyQualifiedName,
			segment: ptdfb.SlotTensorMetadataSegmentIndex,
			scalar:  ptdfb.SlotTensorMetadataScalarType, sizes: ptdfb.SlotTensorMetadataSizes,
			order: ptdfb.SlotTensorMetadataDimOrder,
		},
		read: func(i int, x *row) {
			root.Tensors(&m, i)
			*x = row{table: m.Table(), key: m.FullyQualifiedName(), segment: m.SegmentIndex(),
				offset: m.Offset(), isTensor: true, layout: m.Table(),
				scalar: ScalarType(m.ScalarType())}
		},
	}, vector{
		name: "named_data", key: ".key", n: root.NamedDataLength(),
		slots: slots{key: ptdfb.SlotLegacyNamedDataKey,
			segment: ptdfb.SlotLegacyNamedDataSegmentIndex},
		read: func(i int, x *row) {
			root.NamedData(&nd, i)
			*x = row{table: nd.Table(), key: nd.Key(), segment: nd.SegmentIndex()}
		},
	})
}
