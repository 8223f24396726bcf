package ptd

import (
	"cmp"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/executorch"
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// encode writes the metadata and all segments.
func (o *WriterOptions) encode(out *format.Output, items []item) error {
	index, segments, aligns := o.share(items)
	end, largest, ok := o.place(segments, aligns)
	if !ok {
		return errs.New(tensor.ErrLimit, "the segments are beyond 2^63 bytes")
	}
	buf, err := metadata(items, index, segments)
	if err != nil { // it is fb.ErrTooLarge
		return errs.New(tensor.ErrLimit, "the metadata of %d entries: %w", len(items), err)
	}
	// The header takes 40 bytes, which Python's writer rounds up to 16.
	h := header{length: headerSize, flatbufferOffset: 48, flatbufferSize: int64(len(buf)),
		segmentDataSize: end}
	h.segmentBaseOffset, _ = align.Up(h.metadataEnd(), largest)
	size, ok := align.Add(h.segmentBaseOffset, end) // also without segments, as the reference
	if !ok {
		return errs.New(tensor.ErrLimit, "the file is beyond 2^63 bytes")
	}
	head := fb.Splice(buf[:8:8], int(h.flatbufferOffset))
	putHeader(head, h)
	rest := tensor.BlobOf(buf[8:])
	all := []format.Section{{Name: "metadata", Off: int64(len(head)), Size: rest.Size(),
		Data: rest}}
	for _, s := range segments {
		s.Off += h.segmentBaseOffset
		all = append(all, s)
	}
	return format.WriteSections(out, head, all, size)
}

// share decides which entries share a segment. It returns the segment of each, the
// segments, and the alignment that each has for the sake of its entries.
func (o *WriterOptions) share(items []item) (index []int, segments []format.Section,
	aligns []int64) {
	index = make([]int, len(items))
	seen := map[any]int{}
	for i := range items {
		e := &items[i]
		key, wish := e.Data.Identity(), cmp.Or(e.Alignment, o.Alignment, 1)
		s, ok := seen[key]
		if key == nil || !ok {
			s = len(segments)
			segments = append(segments, format.Section{Name: e.Name, Data: e.Data,
				Size: e.Data.Size()})
			aligns = append(aligns, wish)
		}
		if key != nil {
			seen[key] = s
		}
		index[i], aligns[s] = s, max(aligns[s], wish) // of powers of two
	}
	return index, segments, aligns
}

// place lays the segments out and returns where the last one ends, from the base, and
// what the base is aligned to. It is false beyond 2^63 bytes.
func (o *WriterOptions) place(segments []format.Section, aligns []int64) (end, base int64,
	ok bool) {
	base = o.SegmentAlignment
	for i := range segments {
		s := &segments[i]
		var a int64
		s.Off, end, a, ok = executorch.Place(end, s.Size, o.SegmentAlignment, aligns[i])
		if !ok {
			return 0, 0, false
		}
		base = max(base, a)
	}
	return end, base, true
}

// metadata makes the FlatBuffer. Parts are stored in the order of their creation, from
// the end: as in Python's writer all segments come first.
func metadata(items []item, index []int, segments []format.Section) ([]byte, error) {
	var b fb.Builder
	b.Grow(minSize(items, segments))
	refs := make([]fb.Offset, len(segments), max(len(segments), len(items)))
	for i := range segments {
		refs[i] = b.Table(fb.Number(ptdfb.SlotDataSegmentSize, 8, uint64(segments[i].Size)),
			fb.Number(ptdfb.SlotDataSegmentOffset, 8, uint64(segments[i].Off)))
	}
	segmentVector := b.Offsets(refs)
	refs = refs[:0]
	for i := range items {
		e := &items[i]
		key := b.String(e.Name)
		var l fb.Offset
		if e.Layout != nil {
			sizes := int32s(&b, e.Layout.Sizes)
			order := b.Scalars(e.Layout.DimOrder, 1, 0)
			l = b.Table(fb.Ref(ptdfb.SlotTensorLayoutDimOrder, order),
				fb.Ref(ptdfb.SlotTensorLayoutSizes, sizes),
				fb.Number(ptdfb.SlotTensorLayoutScalarType, 1,
					uint64(uint8(e.Layout.ScalarType))))
		}
		refs = append(refs, b.Table(fb.Ref(ptdfb.SlotNamedDataTensorLayout, l),
			fb.Number(ptdfb.SlotNamedDataSegmentIndex, 4, uint64(index[i])),
			fb.Ref(ptdfb.SlotNamedDataKey, key)))
	}
	namedVector := b.Offsets(refs)
	return b.Finish(b.Table(fb.Ref(ptdfb.SlotFlatTensorNamedData, namedVector),
		fb.Ref(ptdfb.SlotFlatTensorSegments, segmentVector)), identifier)
}

// minSize returns what the FlatBuffer takes at least: references, tables and vectors. So
// what cannot be is refused before memory is taken for it.
func minSize(items []item, segments []format.Section) int64 {
	n := 8 * int64(len(segments))
	for i := range items {
		n += 4*4 + int64(len(items[i].Name)) + 1
		if l := items[i].Layout; l != nil {
			n += 6*4 + 5*int64(len(l.Sizes))
		}
	}
	return n
}

func int32s(b *fb.Builder, v []int32) fb.Offset {
	p := make([]byte, 0, 64)
	for _, n := range v {
		p = append(p, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	return b.Scalars(p, 4, 0)
}
