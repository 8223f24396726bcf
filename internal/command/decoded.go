package command

import (
	"fmt"
	"math"

	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/tensor"
)

// checkDecodedTotal compares what is to be decoded with the limit, before anything is.
func (a *app) checkDecodedTotal(in *input, l *lister) error {
	var total, stored int64
	seen := map[tensor.Stored]bool{}
	count := func(b tensor.Blob) bool {
		s, ok := b.Stored()
		if n := b.Size(); ok && s.Encoding != "raw" && n > 0 {
			if total > math.MaxInt64-n {
				return false
			}
			total += n
			if !seen[s] { // those of an index are in its shards
				seen[s] = true
				stored += s.Size
			}
		}
		return true
	}
	fits := true
	for r := range in.eachRow() {
		if !l.wants(r.name) {
			continue
		}
		fits = fits && count(r.tensor.Data)
		for i := range r.tensor.Parts {
			fits = fits && count(r.tensor.Parts[i].Data)
		}
	}
	for name, b := range in.Blobs() {
		fits = fits && (!l.wants(name) || count(b))
	}
	if limit := limit.DecodedTotal(a.limits, max(in.Size(), stored)); !fits || total > limit {
		return fmt.Errorf("%w: %d bytes to decode, and the limit is %d", tensor.ErrLimit, total, limit)
	}
	return nil
}
