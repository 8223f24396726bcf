package ztensor

import (
	"context"
	"iter"
	"slices"

	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A Shard is another file that has some of the parts of a version 2 file: its Name in
// the file, the Size of all its bytes, and their Digest as algorithm:hexadecimal.
type Shard = core.ShardID

// Shards yields the shards that the file names, in its order. None is opened.
func (r *Reader) Shards() iter.Seq[Shard] { return slices.Values(r.f.Shards) }

// Identity describes the file as a shard of that name for other files, with the digest
// of all its bytes, SHA256 or XXH3.
func (r *Reader) Identity(ctx context.Context, name string, alg Digest) (Shard, error) {
	return r.f.Generation.Identity(ctx, name, alg)
}

// Link adds tensors of r, those of the names or all, with their attributes and without
// their data: that stays in the file that r has open, which readers find as shard.
// shard is what r.Identity returns for a name of 1 to 64 of A-Z a-z 0-9 . _ - that does
// not begin with a dot. Canonical form and version 1 have no shards.
func (w *Writer) Link(shard Shard, r *Reader, names ...string) error {
	return w.w.Link(shard, &r.f, names)
}
