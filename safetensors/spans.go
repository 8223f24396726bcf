package safetensors

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields what every byte of the file is for, in the order of offsets. All of an
// index is metadata: a shard has spans of its own where it is opened by itself.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	if r.dataAt == 0 {
		return format.CoverSpans(r.Size(), []tensor.Span{format.MetadataSpan(0, r.Size())})
	}
	return format.SpansOf(r, format.HeaderSpan(0, jsonheader.Start),
		format.MetadataSpan(jsonheader.Start, r.dataAt-jsonheader.Start))
}
