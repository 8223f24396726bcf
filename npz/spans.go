package npz

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// Spans yields the role of every byte of the file, in the order of offsets. The bytes of
// an array are the bytes of its member, compressed where it is; the rest of the archive
// is metadata.
func (r *Reader) Spans() iter.Seq[tensor.Span] { return format.SpansOf(r, r.archive.Spans()...) }
