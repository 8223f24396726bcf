package pte

import (
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/schema/ptefb"
	"github.com/tensorfile/tensorfile/tensor"
)

// extent is a byte range of the file.
type extent struct{ off, size int64 }

// A segment is the byte range of a segment of the program.
type segment struct {
	extent
	// outside is set for an empty segment beyond the end of the file. The runtime's
	// loaders fail there even if they read no bytes.
	outside bool
}

// segment returns the byte range of segment i. s is the location of the index, for the
// error if it is out of range.
func (r *Reader) segment(i uint32, s location) (extent, error) {
	if n := len(r.segments); int64(i) >= int64(n) {
		return extent{}, r.malformed(s, "%d of %d segments", i, n)
	}
	return r.segments[i].extent, nil
}

// A Segment is a range of bytes after the flatbuffer: the constants, the initial values
// of mutable tensors, the payload of a delegate or a named blob.
type Segment struct {
	Index int
	// Offset is counted from the start of the file.
	Offset int64
	// Size leaves out the padding up to the next segment.
	Size int64
	// Roles say what refers to the segment, in the order of the program: constants,
	// mutable, delegate/METHOD/INDEX, named/KEY. It is empty if nothing does.
	Roles []string
	Data  tensor.Blob
}

// Segments returns the program's segments in the order of the file's table.
func (p *Program) Segments() []Segment {
	r := (*Reader)(p)
	all := make([]Segment, len(r.segments))
	for i, s := range r.segments {
		all[i] = Segment{Index: i, Offset: s.off, Size: s.size, Data: r.blob(s.off, s.size)}
	}
	role := func(i uint32, name string) {
		if int64(i) < int64(len(all)) {
			all[i].Roles = append(all[i].Roles, name)
		}
	}
	if c := r.root.ConstantSegment(nil); c != nil && c.OffsetsLength() > 0 {
		role(c.SegmentIndex(), "constants")
	}
	for _, c := range fb.Each(r.root.MutableDataSegmentsLength(), r.root.MutableDataSegments) {
		role(c.SegmentIndex(), "mutable")
	}
	for m := range p.Methods() {
		for i, d := range fb.Each(m.t.DelegatesLength(), m.t.Delegates) {
			if x := d.Processed(nil); x != nil && x.Location() == ptefb.DataLocationSEGMENT {
				role(x.Index(), delegateName(m.Name(), i))
			}
		}
	}
	for _, t := range fb.Each(r.root.NamedDataLength(), r.root.NamedData) {
		role(t.SegmentIndex(), blobPrefix+string(t.Key()))
	}
	return all
}

// Spans yields the role of every byte of the file, in the order of offsets. Constants and
// initial values are tensors. Constants and segments that nothing refers to are unused,
// as are bytes after the end. In a .bpte the bytes around the program are metadata.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return func(yield func(tensor.Span) bool) {
		var list []tensor.Span
		used := make(map[int64]bool)
		for e := range r.Entries() {
			list = format.AppendSpan(list, tensor.SpanTensor, e.Name, e.Data)
			if s, ok := e.Data.Stored(); ok && s.Size > 0 {
				used[s.Offset] = true
			}
		}
		for name, b := range r.Blobs() {
			list = format.AppendSpan(list, tensor.SpanBlob, name, b)
		}
		list = r.appendUnused(list, used)
		for _, s := range r.Program().Segments() {
			if len(s.Roles) == 0 {
				list = append(list, format.UnusedSpan(s.Offset, s.Size))
			}
		}
		format.CoverSpans(r.in.Size(), append(list, r.metadataSpans()...))(yield)
	}
}

// metadataSpans returns the spans outside the segments.
func (r *Reader) metadataSpans() []tensor.Span {
	head := int64(8)
	if r.header.Length > 0 {
		head += r.header.Length
	}
	end := r.dataEnd()
	return []tensor.Span{
		format.MetadataSpan(0, r.at),
		format.HeaderSpan(r.at, head),
		format.MetadataSpan(r.at+head, r.header.ProgramSize-head),
		format.PaddingSpan(r.at+r.header.ProgramSize, end-r.at-r.header.ProgramSize),
		format.UnusedSpan(end, r.end-end),
		format.MetadataSpan(r.end, r.in.Size()-r.end),
	}
}

// dataEnd returns the offset in the file where the last segment ends, including padding
// that the header counts.
func (r *Reader) dataEnd() int64 {
	end := r.at + max(r.header.ProgramSize, r.header.SegmentBase+r.header.SegmentDataSize)
	for _, s := range r.segments {
		if s.size > 0 {
			end = max(end, s.off+s.size)
		}
	}
	return end
}

// appendUnused appends the spans of constants and initial values that no tensor uses.
func (r *Reader) appendUnused(list []tensor.Span, used map[int64]bool) []tensor.Span {
	for _, p := range []*subsegments{&r.constants, &r.initials} {
		if !p.found {
			continue
		}
		offsets := make([]int64, 0, p.len())
		for k := 1; k < p.len(); k++ {
			if o := u64s(p.offsets, k); o <= uint64(p.segment.size) {
				offsets = append(offsets, int64(o))
			}
		}
		slices.Sort(offsets)
		for k, o := range offsets {
			end := p.segment.size
			if k+1 < len(offsets) {
				end = offsets[k+1]
			}
			if !used[p.segment.off+o] {
				list = append(list, format.UnusedSpan(p.segment.off+o, end-o))
			}
		}
	}
	return list
}
