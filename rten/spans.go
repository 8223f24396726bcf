package rten

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/span"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields what every byte of the file is for, in the order of offsets. In version 1
// the tensors are inside the metadata.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	h, ok := r.Header()
	if !ok {
		return span.Of(r, span.Metadata(0, r.size))
	}
	return span.Of(r, span.Header(0, headerSize), span.Metadata(h.ModelOffset, h.ModelSize))
}
