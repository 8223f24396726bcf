package ztensor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tensorfile/tensorfile/internal/limit"
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
)

func (l *layout2) link(w *writer, shard shardID, tensors []object) error {
	if l.canonical {
		return unlinkable(shard, "canonical form has no shards")
	}
	if err := l.addShard(shard); err != nil {
		return err
	}
	for _, o := range tensors {
		l.objects = append(l.objects, entry2{object: o})
	}
	return nil
}

// addShard enters a shard, unless it is there.
func (l *layout2) addShard(s shardID) error {
	value := cbor.AppendHead(nil, cbor.Map, 2)
	value = cbor.AppendHead(cbor.AppendText(value, "size"), cbor.Uint, uint64(s.Size))
	value = cbor.AppendText(cbor.AppendText(value, "digest"), s.Digest)
	key := cbor.AppendText(nil, s.Name)
	for _, old := range l.shards {
		if string(old.Key) != string(key) {
			continue
		}
		if string(old.Value) != string(value) {
			return fmt.Errorf("ztensor: %w: another shard %s", tensor.ErrDuplicate, quote.Name(s.Name))
		}
		return nil
	}
	l.shards = append(l.shards, cbor.Pair{Key: key, Value: value})
	return nil
}

// shardedObject says of each part of an object that it is in a shard.
func shardedObject(c *cbor.Cursor, shard string) []cbor.Pair {
	return editParts(c, func(part []cbor.Pair) []cbor.Pair {
		return append(part, cbor.Pair{Key: cbor.AppendText(nil, "shard"), Value: cbor.AppendText(nil, shard)})
	})
}

// editParts returns the fields of an object with other fields in its parts.
func editParts(c *cbor.Cursor, edit func(part []cbor.Pair) []cbor.Pair) []cbor.Pair {
	limits := limit.Defaults()
	fields := c.Pairs()
	for i, f := range fields {
		if string(f.Key) != "\x65parts" {
			continue
		}
		in := cbor.NewStrict(f.Value, limits)
		parts := in.Pairs()
		for k := range parts {
			in := cbor.NewStrict(parts[k].Value, limits)
			parts[k].Value = cbor.AppendPairs(nil, edit(in.Pairs()))
		}
		fields[i].Value = cbor.AppendPairs(nil, parts)
	}
	return fields
}

// linked returns what the manifest says of these tensors, or all, for a file to which this
// one is a shard.
func (c *container2) linked(shard shardID, names []string) ([]object, error) {
	r := c.r
	switch {
	case c.data:
		return nil, unlinkable(shard, "it has no manifest of version 2")
	case !isShardName([]byte(shard.Name)):
		return nil, fmt.Errorf("ztensor: %w: %s is not the name of a shard", fs.ErrInvalid, quote.Name(shard.Name))
	case shard.Size != r.Size() || !isDigest([]byte(shard.Digest)) || newDigest2(shard.Digest).err != nil:
		return nil, fmt.Errorf("ztensor: shard %s: %w: %d bytes and the digest %s are not those of the file", quote.Name(shard.Name), fs.ErrInvalid, shard.Size, quote.Name(shard.Digest))
	}
	all := len(names) == 0
	if all {
		for t := range r.tensors.all() {
			names = append(names, t.Name)
		}
	}
	wanted := map[string]bool{}
	for _, name := range names {
		t := r.Tensor(name)
		fail := func(err error) ([]object, error) {
			return nil, fmt.Errorf("ztensor: tensor %s: %w", quote.Name(name), err)
		}
		switch {
		case t == nil:
			return fail(tensor.ErrNoTensor)
		case wanted[name]:
			return fail(fmt.Errorf("%w: a second tensor of that name", tensor.ErrDuplicate))
		case slices.ContainsFunc(partsOf(t), func(p role2) bool { return p.blob.shard > 0 }):
			return fail(fmt.Errorf("%w: its data is in another shard", errors.ErrUnsupported))
		}
		wanted[name] = true
	}
	fields, err := manifestFields(r)
	if err != nil {
		return nil, err
	}
	var found []object
	for _, f := range fields {
		if string(f.Key) != "\x67objects" {
			continue
		}
		objects := cbor.NewStrict(f.Value, r.limits)
		for _, o := range objects.Pairs() {
			name := cbor.Cursor{B: o.Key}
			if n := string(name.Text()); wanted[n] {
				in := cbor.NewStrict(o.Value, r.limits)
				found = append(found, object{n, cbor.AppendPairs(nil, shardedObject(&in, shard.Name))})
			}
		}
	}
	return found, nil
}

// identity digests the whole file.
func (c *container2) identity(ctx context.Context, name string, alg Digest) (shardID, error) {
	if alg != SHA256 && alg != XXH3 {
		return shardID{}, fmt.Errorf("ztensor: %w: %v as the digest of a shard", errors.ErrUnsupported, alg)
	}
	sum, err := sumFile(c.r.src, alg.String()+":", func(int64) error { return ctx.Err() })
	if err != nil {
		return shardID{}, c.r.placed(-1, "", err)
	}
	return shardID{name, c.r.Size(), alg.String() + ":" + sum}, nil
}
