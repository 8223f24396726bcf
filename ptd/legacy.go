package ptd

import (
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
	"github.com/tensorfile/tensorfile/tensor"
)

// The tables of release 0.6 have the same version, identifier and header, and other fields at the same places: only
// verification against both tells them apart. There a tensor lies at an offset inside a segment, which all tensors share,
// and its size is what type and shape say. Blobs have a segment of their own.
const (
	legacyAlignment = 6
	legacyTensors   = 8
	legacySegments  = 10
	legacyNamed     = 12

	legacySegmentIndex = 12
	legacyOffset       = 14
)

// legacy reads a FlatTensor of 0.6.
func (p *parser) legacy(root fb.View) error {
	r := p.r
	ts := &columns{"tensors", ".fully_qualified_name", "", 4, 6, ptdfb.SlotTensorMetadataSizes, ptdfb.SlotTensorMetadataDimOrder}
	bs := &columns{vector: "named_data", key: ".key", keySlot: namedKey}
	r.legacy, r.align = true, int64(root.Uint32(legacyAlignment))
	segments, _ := root.Tables(legacySegments) // there: it is what made us think of 0.6
	if err := p.segments(segments); err != nil {
		return err
	}
	tensors, _ := root.Tables(legacyTensors)
	if err := p.room(tensors.Len(), p.shift+root.Offset(), ts.vector); err != nil {
		return err
	}
	if !p.spend(int64(tensors.Len()) * (segmentCost + 48 + tensorCost)) {
		return p.spent(p.shift+root.Offset(), ts.vector)
	}
	r.tensors = make([]tensor.Tensor, 0, tensors.Len())
	parts := make([]source.Extent, 0, tensors.Len())
	type place struct{ off, size int64 }
	known := map[place]int{} // tensors at the same place share it, also when they are written again
	for i := range tensors.Len() {
		v := tensors.At(i)
		left := tensors.Len() - i
		name, err := p.name(v, ts, i, left)
		if err != nil {
			return err
		}
		s, segment, err := p.segmentOf(v, legacySegmentIndex, ts.vector, i)
		if err != nil {
			return err
		}
		off := v.Uint64(legacyOffset)
		if off > uint64(segment.Size()) {
			return malformed(p.place(v, legacyOffset), at(ts.vector, i)+".offset", "%d, in a segment of %d bytes", off, segment.Size())
		}
		room := segment.Size() - int64(off)
		t, err := p.tensor(v, ts, i, left, room)
		if err != nil {
			return err
		}
		size := room // of what is not known to be smaller
		if t != nil {
			if n, ok := t.DType.Bytes(elements(t.Shape)); ok {
				size = n
			}
		}
		here := place{segment.Offset() + int64(off), size}
		k, ok := known[here]
		if !ok {
			part, err := r.src.Extent(here.off, here.size)
			if err != nil {
				return err
			}
			k = len(parts)
			known[here] = k
			parts = append(parts, part)
		}
		r.entries = append(r.entries, entry{name: name, data: &parts[k], segment: s, tensor: -1})
		if t != nil {
			p.add(t, v, ts, &parts[k])
		}
	}
	named, _ := root.Tables(legacyNamed)
	if err := p.room(named.Len(), p.shift+root.Offset(), bs.vector); err != nil {
		return err
	}
	for i := range named.Len() {
		v := named.At(i)
		name, err := p.name(v, bs, i, named.Len()-i)
		if err != nil {
			return err
		}
		s, segment, err := p.segmentOf(v, namedSegment, bs.vector, i)
		if err != nil {
			return err
		}
		r.entries = append(r.entries, entry{name: name, data: segment, segment: s, tensor: -1})
	}
	return p.index(func(i int) (int64, string) {
		if i < tensors.Len() {
			return p.place(tensors.At(i), ts.keySlot), at(ts.vector, i) + ts.key
		}
		i -= tensors.Len()
		return p.place(named.At(i), bs.keySlot), at(bs.vector, i) + bs.key
	})
}
