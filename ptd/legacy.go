package ptd

import (
	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/schema/ptdfb"
)

// The tables of release 0.6 have the same version, identifier and header, and other fields at the same places: only
// verification against both tells them apart. There a tensor lies at an offset inside a segment, which all tensors share,
// and its size is what type and shape say. Blobs have a segment of their own.
const (
	legacyAlignment = 1
	legacyTensors   = 2
	legacySegments  = 3
	legacyNamed     = 4

	legacySegmentIndex = 4
	legacyOffset       = 5
)

// legacy reads a FlatTensor of 0.6.
func (p *parser) legacy(root fb.Row) error {
	r := p.r
	ts := &columns{"tensors", ".fully_qualified_name", "", 0, 1, 2, 3}
	bs := &columns{vector: "named_data", key: ".key", name: namedKey}
	r.legacy, r.align = true, int64(p.cursor.Uint32(root.At(legacyAlignment)))
	// Whoever writes the entries again aligns them like this: no file of a few bytes shall make gigabytes of padding.
	if r.align&(r.align-1) != 0 || r.align > 1<<20 {
		if err := p.warn(p.place(root, legacyAlignment), "tensor_alignment", "%d is no power of two up to 2^20", r.align); err != nil {
			return err
		}
		r.align = 0
	}
	segments, _, err := p.list(root, legacySegments, "segments") // there: it is what made us think of 0.6
	if err != nil {
		return err
	}
	tensors, _, err := p.list(root, legacyTensors, ts.vector)
	if err != nil {
		return err
	}
	named, _, err := p.list(root, legacyNamed, bs.vector)
	if err != nil {
		return err
	}
	where := p.shift + int64(root.Pos)
	if err := p.roomForSegments(segments); err != nil {
		return err
	}
	if err := p.segments(segments); err != nil {
		return err
	}
	if err := p.room(tensors.n, named.n, where, ts.vector); err != nil {
		return err
	}
	for i := range tensors.n {
		row, e := p.cursor.Table(tensors.first+4*uint32(i), ptdfb.TableTensorMetadata)
		if e != nil {
			return p.refused(e, at(ts.vector, i))
		}
		name, err := p.name(row, ts, i, tensors.n-i)
		if err != nil {
			return err
		}
		s := p.cursor.Uint32(row.At(legacySegmentIndex))
		if uint64(s) >= uint64(len(r.segments)) {
			return p.noSegment(row, legacySegmentIndex, s, ts.vector, i)
		}
		segment := &r.segments[s]
		off := p.cursor.Uint64(row.At(legacyOffset))
		if off > uint64(segment.Size()) {
			return malformed(p.place(row, legacyOffset), at(ts.vector, i)+".offset", "%d, in a segment of %d bytes", off, segment.Size())
		}
		room := segment.Size() - int64(off)
		t, size, err := p.tensor(row, ts, i, tensors.n-i, room)
		if err != nil {
			return err
		}
		if t.Scheme == stray {
			size = room // of what is not known to be smaller
		}
		part := p.part(segment.Offset()+int64(off), size, tensors.n-i)
		if part == nil {
			return p.spent(p.shift+int64(row.Pos), at(ts.vector, i))
		}
		p.add(i, t, name, s, part)
	}
	for i := range named.n {
		row, e := p.cursor.Table(named.first+4*uint32(i), ptdfb.TableLegacyNamedData)
		if e != nil {
			return p.refused(e, at(bs.vector, i))
		}
		name, err := p.name(row, bs, i, named.n-i)
		if err != nil {
			return err
		}
		s := p.cursor.Uint32(row.At(namedSegment))
		if uint64(s) >= uint64(len(r.segments)) {
			return p.noSegment(row, namedSegment, s, bs.vector, i)
		}
		p.blob(tensors.n+i, name, s)
	}
	return p.finish(func(i int) (int64, string) {
		v, c, table := tensors, ts, ptdfb.TableTensorMetadata
		if i >= tensors.n {
			i, v, c, table = i-tensors.n, named, bs, ptdfb.TableLegacyNamedData
		}
		row, _ := p.cursor.Table(v.first+4*uint32(i), table)
		return p.place(row, c.name), at(c.vector, i) + c.key
	})
}
