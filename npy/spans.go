package npy

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields the role of every byte of the file, in the order of offsets: a header, of
// which all after the magic number, the version and the length is metadata, and elements.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	st, _ := r.array.Data.Stored()
	head := int64(10)
	if r.version != "1.0" {
		head = 12
	}
	return format.SpansOf(r, format.HeaderSpan(0, head), format.MetadataSpan(head, st.Offset-head))
}
