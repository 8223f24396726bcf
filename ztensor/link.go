package ztensor

import (
	"context"
	"iter"

	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

// A Shard is another file that a version 2 file keeps some of its parts in.
type Shard struct {
	Name   string
	Size   int64  // of the whole file
	Digest string // of the whole file, algorithm:hexadecimal
}

// Shards yields the shards that the file names, in its order. None is opened.
func (r *Reader) Shards() iter.Seq[Shard] {
	return func(yield func(Shard) bool) {
		for s := range r.f.Generation.Shards() {
			if !yield(Shard(s)) {
				return
			}
		}
	}
}

// Identity describes the file as a shard for others, under that name: its size,
// and the digest of all its bytes, SHA256 or XXH3. A file that names its shards
// by SHA256 commits to every byte of them.
func (r *Reader) Identity(ctx context.Context, name string, alg Digest) (Shard, error) {
	s, err := r.f.Generation.Identity(ctx, name, alg)
	return Shard(s), err
}

// Link adds tensors of r, those of the names that are given or all, without
// their data: it stays in the file that r has open, which is found as shard when
// the one that is written is read. shard is what r.Identity says of it under a
// name of the caller's choice; the name is 1 to 64 of A-Z a-z 0-9 . _ - and
// begins with no dot. Attributes of the tensors come along. Canonical form has no
// shards, and neither has version 1.
func (w *Writer) Link(shard Shard, r *Reader, names ...string) error {
	return w.w.Link(core.ShardID(shard), &r.f, names)
}
