package safetensors

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/internal/span"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields what every byte of the file is for, in the order of offsets. All of an
// index is metadata: a shard has spans of its own where it is opened by itself.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	if r.dataAt == 0 {
		return span.Cover(r.Size(), []tensor.Span{span.Metadata(0, r.Size())})
	}
	return span.Of(r, span.Header(0, jsonheader.Start),
		span.Metadata(jsonheader.Start, r.dataAt-jsonheader.Start))
}
