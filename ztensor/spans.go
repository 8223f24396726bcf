package ztensor

import (
	"iter"

	"github.com/tensorfile/tensorfile/internal/span"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// Spans yields what every byte of the file is for, in the order of offsets. Shards are
// other files, whose bytes are not among them.
func (r *Reader) Spans() iter.Seq[tensor.Span] {
	return span.Of(r, span.Header(0, int64(len(core.Magic1))),
		span.Metadata(r.f.ManifestAt, r.f.ManifestSize),
		span.Header(r.Size()-r.f.Footer, r.f.Footer))
}
