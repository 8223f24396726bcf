package v2

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
)

func (l *Layout) Link(w *core.Writer, shard core.ShardID, tensors []core.Object) error {
	if l.canonical {
		return core.Unlinkable(shard, "canonical form has no shards")
	}
	if err := l.addShard(shard); err != nil {
		return err
	}
	for _, o := range tensors {
		l.adopt(o.Name, o.Whole)
	}
	return nil
}

// addShard enters a shard, unless it is there.
func (l *Layout) addShard(s core.ShardID) error {
	value := cbor.AppendHead(nil, cbor.Map, 2)
	value = cbor.AppendHead(cbor.AppendText(value, "size"), cbor.Uint, uint64(s.Size))
	value = cbor.AppendText(cbor.AppendText(value, "digest"), s.Digest)
	for _, old := range l.shards {
		if old.Name != s.Name {
			continue
		}
		if string(old.Value) != string(value) {
			return fmt.Errorf("ztensor: %w: another shard %s", tensor.ErrDuplicate,
				quote.Name(s.Name))
		}
		return nil
	}
	l.shards = append(l.shards, cbor.PairOf(s.Name, value))
	return nil
}

// Linked returns what the manifest says of these tensors, or all, for a file to which
// this one is a shard.
func (c *Container) Linked(shard core.ShardID, names []string) ([]core.Object, error) {
	r := c.r
	_, unknown := core.ParseAlgorithm(shard.Digest)
	switch {
	case c.data:
		return nil, core.Unlinkable(shard, "it has no manifest of version 2")
	case !isShardName([]byte(shard.Name)):
		return nil, fmt.Errorf("ztensor: %w: %s is not the name of a shard", fs.ErrInvalid,
			quote.Name(shard.Name))
	case shard.Size != r.Size() || !isDigest([]byte(shard.Digest)) || unknown != nil:
		return nil, fmt.Errorf("ztensor: shard %s: %w: %d bytes and the digest %s are not "+
			"those of the file", quote.Name(shard.Name), fs.ErrInvalid, shard.Size,
			quote.Name(shard.Digest))
	}
	all := len(names) == 0
	if all {
		for _, t := range r.Tensors {
			names = append(names, t.Name)
		}
	}
	wanted := map[string]bool{}
	for _, name := range names {
		t := r.Tensor(name)
		switch {
		case t == nil:
			return nil, core.OfTensor(name, tensor.ErrNoTensor)
		case wanted[name]:
			return nil, core.Duplicate(name)
		case slices.ContainsFunc(core.PayloadsOf(t),
			func(p *core.Payload) bool { return p.Shard > 0 }):
			return nil, core.OfTensor(name, core.Unsupported("its data is in another shard"))
		}
		wanted[name] = true
	}
	var found []core.Object
	_, err := r.Objects(func(name string, object []byte) {
		if wanted[name] {
			found = append(found, core.Object{Name: name, Whole: r.EditParts(object,
				func(_ string, part []cbor.Pair) []cbor.Pair {
					return append(part, cbor.PairOf("shard", cbor.AppendText(nil, shard.Name)))
				})})
		}
	})
	return found, err
}

// Identity digests the whole file.
func (c *Container) Identity(ctx context.Context, name string, alg core.Digest) (core.ShardID,
	error) {
	if alg != core.SHA256 && alg != core.XXH3 {
		return core.ShardID{}, fmt.Errorf("ztensor: %w: %v as the digest of a shard",
			errors.ErrUnsupported, alg)
	}
	sum, err := sumFile(ctx, c.r.Src, alg.String()+":")
	if err != nil {
		return core.ShardID{}, c.r.Placed(-1, "", err)
	}
	return core.ShardID{Name: name, Size: c.r.Size(), Digest: alg.String() + ":" + sum}, nil
}
