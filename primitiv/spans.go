package primitiv

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/span"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields what every byte of the file is for, in the order of offsets: the data of
// tensors, metadata around them, and what follows the end.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	end := r.Size() - r.trailing
	return span.Of(r, span.Metadata(0, end), span.Unused(end, r.trailing))
}
