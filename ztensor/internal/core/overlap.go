package core

import (
	"cmp"
	"context"
	"slices"

	"github.com/tensorfile/tensorfile/internal/format"
)

// An Extent is a range of bytes of a file.
type Extent struct{ Off, Length int64 }

// A placed extent is the extent of a payload.
type placed struct {
	Extent
	shard, i int32 // of the payload
}

// Overlaps calls report with two payloads that share some of their bytes but are not at
// the same place, each second one at most once, until report returns false.
func (x *index) Overlaps(report func(a, b *Payload) bool) {
	if !x.Jumbled {
		return
	}
	far := make([]placed, 1+len(x.Shards)) // of each file, the one that ends last so far
	for _, e := range x.byOffset() {
		f := &far[e.shard]
		if e.Off < f.Off+f.Length && e.Extent != f.Extent &&
			!report(x.Payloads[f.i], x.Payloads[e.i]) {
			return
		}
		if e.Off+e.Length > f.Off+f.Length {
			*f = e
		}
	}
}

// byOffset returns the extents of the payloads that are not empty, in the order in which
// they begin.
func (x *index) byOffset() []placed {
	all := make([]placed, 0, len(x.Payloads))
	for i, p := range x.Payloads {
		if p.Length > 0 {
			all = append(all, placed{Extent{p.Offset, p.Length}, p.Shard, int32(i)})
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.i, b.i))
	})
	return all
}

// NonZero reports the first byte that is not zero of each gap between the taken extents.
func (r *File) NonZero(ctx context.Context, taken []Extent, report func(at int64)) error {
	slices.SortFunc(taken, func(a, b Extent) int { return cmp.Compare(a.Off, b.Off) })
	found := format.NewFindings(nil)
	in := format.NewScanner(ctx, string(Errs), r.Source, found)
	at := int64(8) // after the magic
	for _, e := range taken {
		first, err := in.Zero(at, e.Off, "")
		if err != nil {
			return Errs.Wrap(at, "", err)
		}
		if first >= 0 {
			report(first)
		}
		at = max(at, e.Off+e.Length)
	}
	return found.Err()
}
