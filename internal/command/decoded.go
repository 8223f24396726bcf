package command

import (
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkDecodedTotal fails if the tensors and blobs that pass the filters decode to more
// bytes than the limit. It decodes nothing.
func (a *app) checkDecodedTotal(in *input, l *lister) error {
	size := in.TotalSize()
	return format.CheckDecoded(a.limits, size, func(yield func(tensor.Blob) bool) {
		for r := range in.eachRow() {
			if !l.passes(r.name) {
				continue
			}
			for b := range format.Blobs(r.tensor) {
				if !yield(b) {
					return
				}
			}
		}
		for name, b := range in.Blobs() {
			if l.passes(name) && !yield(b) {
				return
			}
		}
	})
}

// checkDecoded is checkDecodedTotal for one tensor or blob.
func (a *app) checkDecoded(in *input, blobs ...tensor.Blob) error {
	return format.CheckDecoded(a.limits, in.TotalSize(), slices.Values(blobs))
}
