package pte

import (
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/internal/span"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields what every byte of the file is for, in the order of offsets. Constants and
// initial values are tensors; constants, segments and bytes after the end that nothing
// refers to are unused. What a .bpte has around its program is metadata.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return func(yield func(tensor.Span) bool) {
		var list []tensor.Span
		used := make(map[int64]bool)
		for e := range r.Entries() {
			list = span.Add(list, tensor.SpanTensor, e.Name, e.Data)
			if s, ok := e.Data.Stored(); ok && s.Size > 0 {
				used[s.Offset] = true
			}
		}
		for name, b := range r.Blobs() {
			list = span.Add(list, tensor.SpanBlob, name, b)
		}
		list = r.unused(list, used)
		for _, s := range r.Program().Segments() {
			if len(s.Roles) == 0 {
				list = append(list, span.Unused(s.Offset, s.Size))
			}
		}
		span.Cover(r.src.Size(), append(list, r.frame()...))(yield)
	}
}

// frame is what is around the payloads.
func (r *Reader) frame() []tensor.Span {
	head := int64(8)
	if r.header.Length > 0 {
		head += r.header.Length
	}
	end := r.dataEnd()
	return []tensor.Span{
		span.Metadata(0, r.at),
		span.Header(r.at, head),
		span.Metadata(r.at+head, r.header.ProgramSize-head),
		span.Padding(r.at+r.header.ProgramSize, end-r.at-r.header.ProgramSize),
		span.Unused(end, r.size-end),
		span.Metadata(r.size, r.src.Size()-r.size),
	}
}

// dataEnd is where the last segment ends, padding that the header counts included.
func (r *Reader) dataEnd() int64 {
	end := r.at + max(r.header.ProgramSize, r.header.SegmentBase+r.header.SegmentDataSize)
	for _, s := range r.segments {
		if s.size > 0 {
			end = max(end, s.off+s.size)
		}
	}
	return end
}

// unused appends the elements of the lists of constants and initial values that no tensor
// uses.
func (r *Reader) unused(list []tensor.Span, used map[int64]bool) []tensor.Span {
	for _, p := range []*pool{&r.constants, &r.initials} {
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
				list = append(list, span.Unused(p.segment.off+o, end-o))
			}
		}
	}
	return list
}
