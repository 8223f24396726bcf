package ptd

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/span"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields what every byte of the file is for, in the order of offsets. A segment
// that no entry refers to is unused.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	h := r.header
	head := 8 + int64(h.Length)
	frame := []tensor.Span{
		span.Header(0, head), span.Padding(head, 8+h.FlatbufferOffset-head),
		span.Metadata(8+h.FlatbufferOffset, h.FlatbufferSize-8),
		span.Padding(h.metadataEnd(), h.SegmentBaseOffset+h.SegmentDataSize-h.metadataEnd()),
	}
	for i := range r.segments {
		if r.legacy { // one segment has all tensors, and padding between them
			break
		}
		frame = append(frame, span.Unused(r.segments[i].Offset(), r.segments[i].Size()))
	}
	return span.Of(r, frame...)
}
