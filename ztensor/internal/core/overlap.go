package core

import (
	"cmp"
	"context"
	"slices"
)

// An Extent is a range of bytes of a file.
type Extent struct{ Off, Length int64 }

func (e Extent) compare(o Extent) int {
	if e.Off != o.Off {
		return cmp.Compare(e.Off, o.Off)
	}
	return cmp.Compare(e.Length, o.Length)
}

// Overlaps calls report with two payloads that share some of their bytes but are not at
// the same place, each second one at most once, until report returns false.
func (x *Index) Overlaps(report func(a, b *Payload) bool) {
	if !x.Jumbled {
		return
	}
	type placed struct {
		Extent
		shard, i int32
	}
	order := make([]placed, 0, len(x.Payloads))
	for i, p := range x.Payloads {
		if p.Length > 0 {
			order = append(order, placed{Extent{p.Offset, p.Length}, p.Shard, int32(i)})
		}
	}
	slices.SortFunc(order, func(a, b placed) int {
		switch {
		case a.shard != b.shard:
			return cmp.Compare(a.shard, b.shard)
		case a.Off != b.Off:
			return cmp.Compare(a.Off, b.Off)
		}
		return cmp.Compare(a.i, b.i)
	})
	far := 0 // the one that ends last so far
	for k, e := range order {
		f := order[far]
		if e.shard != f.shard || e.Off >= f.Off+f.Length {
			far = k
			continue
		}
		if e.Extent != f.Extent && !report(x.Payloads[f.i], x.Payloads[e.i]) {
			return
		}
		if e.Off+e.Length > f.Off+f.Length {
			far = k
		}
	}
}

// NonZero reports the first byte that is not zero of each gap between the taken extents.
func (r *File) NonZero(ctx context.Context, taken []Extent, report func(at int64)) error {
	slices.SortFunc(taken, Extent.compare)
	buf := make([]byte, 64<<10)
	at := int64(len(Magic2))
	for _, e := range taken {
		for at < e.Off {
			if err := ctx.Err(); err != nil {
				return err
			}
			p := buf[:min(int64(len(buf)), e.Off-at)]
			if _, err := r.Src.ReadAt(p, at); err != nil {
				return r.Bad(at, "", err)
			}
			if i := slices.IndexFunc(p, func(b byte) bool { return b != 0 }); i >= 0 {
				report(at + int64(i))
				break
			}
			at += int64(len(p))
		}
		at = max(at, e.Off+e.Length)
	}
	return nil
}
