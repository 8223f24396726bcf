package gguf

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields the role of every byte of the file, in the order of offsets.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	head := int64(24) // the magic number, the version, and two counts
	if r.h.version == 1 {
		head = 16
	}
	return format.SpansOf(r, format.HeaderSpan(0, head), format.MetadataSpan(head, r.h.end-head))
}
