package gguf

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// The keys of a shard, as gguf-split writes them.
const (
	splitNo      = "split.no"            // from 0
	splitCount   = "split.count"         // of shards
	splitTensors = "split.tensors.count" // in all shards
	splitID      = "split.shard_set_id"  // ShardOptions.ID, which gguf-split does not know
)

// ShardOptions control how [WriteShards] divides a model.
type ShardOptions struct {
	// MaxSize is the maximum number of bytes of data, padding included, in a file; 0 is
	// no limit. A tensor is never divided: a larger one gets a file of its own.
	MaxSize int64
	// MaxTensors is the maximum number of tensors in a file; 0 is no limit.
	MaxTensors int
	// ID, if not empty, identifies the set, for example by the training step. It is
	// stored as split.shard_set_id in every file. Merge refuses shards whose IDs differ.
	ID string
	// NoReplace makes WriteShards fail with fs.ErrExist if a file of the set exists.
	NoReplace bool
	// DryRun makes WriteShards return the names and write nothing.
	DryRun bool
	// Writer has the options for each file; nil is the zero value. Its Metadata, without
	// the keys of an earlier split, is in the first file. The other files have the keys
	// of the split only.
	Writer *WriterOptions
}

// ShardName returns the name of shard i of n of a model, as gguf-split and llama.cpp have
// it. i counts from 0: PREFIX-00001-of-00003.gguf is shard 0 of 3.
func ShardName(prefix string, i, n int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, n)
}

// WriteShards writes a model as several files, in the order given, and returns their
// names: for "dir/model.gguf" these are the names of [ShardName] for "dir/model". The
// files appear together; the first shard, which llama.cpp opens, appears last.
func WriteShards(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *ShardOptions) ([]string, error) {
	var o ShardOptions
	if opts != nil {
		o = *opts
	}
	var writerOptions WriterOptions
	if o.Writer != nil {
		writerOptions = *o.Writer
	}
	metadata, alignment, err := writerOptions.metadata(carriesNothing)
	if err != nil {
		return nil, err
	}
	id, err := NewValue(o.ID)
	if err != nil {
		return nil, fmt.Errorf("%w in ShardOptions.ID", err)
	}
	division := format.Division{Format: errs, MaxSize: o.MaxSize, MaxTensors: o.MaxTensors,
		Check: NewWriter(nil, nil).Check,
		Size: func(t *tensor.Tensor) int64 {
			n, _ := align.Up(t.Size(), alignment)
			return n
		}}
	shards, err := division.Divide(ctx, ts)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, shard := range shards {
		total += len(shard)
	}
	if len(shards) > math.MaxUint16 || total > math.MaxInt32 {
		return nil, errs.Limit(-1, "", "%d shards of %d tensors", len(shards), total)
	}
	prefix := strings.TrimSuffix(name, ".gguf")
	var names []string
	for i := range shards {
		names = append(names, ShardName(prefix, i, len(shards)))
		if _, err := os.Lstat(names[i]); err == nil && o.NoReplace {
			return nil, &fs.PathError{Op: "create", Path: names[i], Err: fs.ErrExist}
		}
	}
	if o.DryRun {
		return names, nil
	}
	set, err := atomicfile.NewSet(names[0])
	if err != nil {
		return nil, err
	}
	defer set.Abort()
	metadata = slices.DeleteFunc(slices.Clone(metadata),
		func(kv KeyValue) bool { return isSplitKey(kv.Key) })
	for i, shard := range shards {
		f, err := set.Create(filepath.Base(names[i]))
		if err != nil {
			return nil, err
		}
		shardOptions := WriterOptions{Alignment: alignment}
		if i == 0 {
			shardOptions.Metadata = slices.Clip(metadata)
		}
		shardOptions.Metadata = append(shardOptions.Metadata,
			entryOf(splitNo, uint16(i)), entryOf(splitTensors, int32(total)),
			entryOf(splitCount, uint16(len(shards))))
		if o.ID != "" {
			shardOptions.Metadata = append(shardOptions.Metadata, KeyValue{splitID, id})
		}
		w := format.OfFile(f, shardOptions.encoding(carriesNothing))
		if err := format.WriteAll(ctx, &w, tensor.Of(shard...)); err != nil {
			return nil, err
		}
	}
	return names, set.Commit()
}

// entryOf returns a metadata entry of a value that NewValue accepts.
func entryOf(key string, x any) KeyValue {
	v, _ := NewValue(x)
	return KeyValue{key, v}
}

func isSplitKey(key string) bool {
	return key == splitNo || key == splitCount || key == splitTensors || key == splitID
}

// Split returns the number of the shard that the file is, from 0, and how many shards the
// model has. ok is false if the file is not a shard, or the only one.
func (r *Reader) Split() (no, count int, ok bool) {
	c, ok1 := valueOf[uint16](r, splitCount)
	k, ok2 := valueOf[uint16](r, splitNo)
	if !ok1 || !ok2 || c < 2 {
		return 0, 0, false
	}
	return int(k), int(c), true
}

// SetID returns the ShardOptions.ID that the file was written with; "" if it has none.
// All shards of a model have the same ID.
func (r *Reader) SetID() string {
	id, _ := r.String(splitID)
	return id
}

// Merge joins the shards of a model, which may be given in any order. It returns the
// metadata of the first shard, without the keys of the split, and all tensors in order.
// It fails with tensor.ErrMalformed if shards are of different models, or one is missing.
// The Readers must stay open while the tensors are read.
func Merge(shards ...*Reader) ([]KeyValue, iter.Seq2[*tensor.Tensor, error], error) {
	if len(shards) == 0 {
		return nil, nil, refuseKey(splitCount, tensor.ErrMalformed, "no shards")
	}
	sorted := make([]*Reader, len(shards))
	total := 0
	for _, r := range shards {
		no, count, ok := r.Split()
		switch {
		case !ok:
			return nil, nil, refuseKey(splitCount, tensor.ErrMalformed,
				"a file is not a shard of several")
		case count != len(shards):
			return nil, nil, refuseKey(splitCount, tensor.ErrMalformed, "%d shards of %d",
				len(shards), count)
		case no >= count:
			return nil, nil, refuseKey(splitNo, tensor.ErrMalformed, "shard %d of %d", no, count)
		case sorted[no] != nil:
			return nil, nil, refuseKey(splitNo, tensor.ErrMalformed,
				"two shards have the number %d", no)
		}
		sorted[no] = r
		total += r.Len()
	}
	names := map[string]struct{}{}
	for i, r := range sorted {
		if id, first := r.SetID(), sorted[0].SetID(); id != first {
			return nil, nil, refuseKey(splitID, tensor.ErrMalformed,
				"shard %d is of the set %s, not of %s: files of two models are mixed", i,
				naming.Quote(id), naming.Quote(first))
		}
		v, _ := r.Value(splitTensors)
		if n, ok := valueOf[int32](r, splitTensors); !ok || int(n) != total {
			return nil, nil, refuseKey(splitTensors, tensor.ErrMalformed, "%s, the shards have %d",
				naming.Quote(v.String()), total)
		}
		for t := range r.Tensors() {
			if _, dup := names[t.Name]; dup {
				return nil, nil, errs.Tensor(t.Name, tensor.ErrMalformed, "it is in two shards")
			}
			names[t.Name] = struct{}{}
		}
	}
	var metadata []KeyValue
	for k, v := range sorted[0].Metadata() {
		if !isSplitKey(k) {
			metadata = append(metadata, KeyValue{k, v})
		}
	}
	return metadata, func(yield func(*tensor.Tensor, error) bool) {
		for _, r := range sorted {
			for t := range r.Tensors() {
				if !yield(t, nil) {
					return
				}
			}
		}
	}, nil
}
