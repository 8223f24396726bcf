package safetensors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/jsonheader"
	"github.com/tensorfile/tensorfile/tensor"
)

const (
	suffix      = ".safetensors"
	indexSuffix = suffix + ".index.json"
	// setKey is where ShardOptions.ID is stored, in __metadata__ of the shards and
	// in "metadata" of the index.
	setKey = "shard_set_id"
)

// ShardOptions control how [WriteShards] divides a model.
type ShardOptions struct {
	// MaxSize is how many bytes of data a file has at most. A tensor is never
	// divided: a larger one gets a file of its own.
	MaxSize int64
	// ID, if not empty, identifies the set, such as by the training step. It is
	// the value of shard_set_id in the metadata of every shard and of the index.
	// Opening an index refuses shards whose IDs differ.
	ID string
	// NoReplace refuses to replace files, with fs.ErrExist.
	NoReplace bool
	// DryRun returns the names, and writes nothing.
	DryRun bool
	// Writer is how each of the files is written; nil is its zero value.
	Writer *WriterOptions
}

// WriteShards writes a model as several files, in the order given, with the names of
// Hugging Face's libraries: for "dir/model.safetensors",
// model-00001-of-00003.safetensors and so on, and model.safetensors.index.json. What
// fits into one file is written to name, without an index. It returns the names, the
// index last.
//
// The files replace those of an earlier call as one set. An error leaves the old set;
// after a crash, opening the index is tensor.ErrUnfinished, or a warning if it is still
// there, and the next WriteShards of that name, or tensorfile.Clean, finishes the set.
func WriteShards(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *ShardOptions) ([]string, error) {
	var o ShardOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxSize <= 0 {
		return nil, fmt.Errorf("safetensors: ShardOptions.MaxSize is %d", o.MaxSize)
	}
	d, err := divide(ctx, ts, o.MaxSize)
	if err != nil {
		return nil, err
	}
	dir, base := filepath.Split(strings.TrimSuffix(name, suffix))
	d.index = base + indexSuffix
	switch n := len(d.shards); n {
	case 1:
		d.files = []string{filepath.Base(name)}
	default:
		for i := range d.shards {
			d.files = append(d.files, fmt.Sprintf("%s-%05d-of-%05d%s", base, i+1, n, suffix))
		}
	}
	old, err := setFiles(dir, base, filepath.Base(name))
	if err != nil {
		return nil, err
	}
	if o.NoReplace && len(old) > 0 {
		return nil, &fs.PathError{Op: "create", Path: dir + old[0], Err: fs.ErrExist}
	}
	if !o.DryRun {
		if err := d.write(ctx, dir, old, &o); err != nil {
			return nil, err
		}
	}
	names := d.files
	if len(d.shards) > 1 {
		names = append(names, d.index)
	}
	for i := range names {
		names[i] = dir + names[i]
	}
	return names, nil
}

// A division says which tensors go to which shard.
type division struct {
	shards [][]*tensor.Tensor // never none
	where  map[string]int
	total  int64
	files  []string
	index  string
}

func divide(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error], maxSize int64) (*division,
	error) {
	d := &division{shards: make([][]*tensor.Tensor, 1), where: map[string]int{}}
	var used int64
	var kept format.Checksums
	for t, err := range ts {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		if err := check(t); err != nil {
			return nil, err
		}
		if _, dup := d.where[t.Name]; dup {
			return nil, refuse(t, tensor.ErrDuplicate, "a second tensor of that name")
		}
		size, last := t.Data.Size(), len(d.shards)-1
		if len(d.shards[last]) > 0 && (used > maxSize || size > maxSize-used) {
			d.shards, used = append(d.shards, nil), 0
			last++
		}
		kept.Add(t.Name, t.Data)
		d.shards[last] = append(d.shards[last], t)
		d.where[t.Name] = last
		used += size
		var ok bool
		if d.total, ok = align.Add(d.total, size); !ok {
			return nil, refuse(t, tensor.ErrLimit, "data beyond 2^63 bytes")
		}
	}
	if err := kept.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", formatName, err)
	}
	return d, nil
}

// setFiles lists the files of a directory that are of the set, or the file, that
// WriteShards wrote under a name.
func setFiles(dir, base, name string) ([]string, error) {
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // creating a file reports it
	}
	var all []string
	for _, e := range entries {
		f := e.Name()
		if f == name || f == base+indexSuffix || isShard(f, base) {
			all = append(all, f)
		}
	}
	return all, err
}

// isShard reports whether a file is named as a shard of base,
// base-00001-of-00002.safetensors.
func isShard(name, base string) bool {
	name, ok := strings.CutPrefix(name, base+"-")
	name, isFile := strings.CutSuffix(name, suffix)
	i, n, isRange := strings.Cut(name, "-of-")
	number := func(s string) bool {
		return len(s) >= 5 && !strings.ContainsFunc(s, func(r rune) bool {
			return r < '0' ||
				r > '9'
		})
	}
	return ok && isFile && isRange && number(i) && number(n)
}

func (d *division) write(ctx context.Context, dir string, old []string, o *ShardOptions) error {
	set, err := atomicfile.NewSet(dir + d.index)
	if err != nil {
		return err
	}
	defer set.Abort()
	var wo WriterOptions
	if o.Writer != nil {
		wo = *o.Writer
	}
	if o.ID != "" {
		wo.Metadata = maps.Clone(wo.Metadata)
		if wo.Metadata == nil {
			wo.Metadata = map[string]string{}
		}
		wo.Metadata[setKey] = o.ID
	}
	for i, shard := range d.shards {
		f, err := set.Create(d.files[i])
		if err != nil {
			return err
		}
		if err := fileWriter(f, &wo).writeAll(ctx, tensor.Of(shard...)); err != nil {
			return err
		}
	}
	if len(d.shards) > 1 {
		f, err := set.Create(d.index)
		if err != nil {
			return err
		}
		if _, err := f.Write(d.marshalIndex(wo.Metadata[setKey])); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	set.Obsolete(old...)
	return set.Commit()
}

// marshalIndex returns the index in the form of Hugging Face's libraries.
func (d *division) marshalIndex(id string) []byte {
	b := []byte("{\n  \"metadata\": {\n")
	if id != "" {
		b = append(b, "    \""+setKey+"\": "...)
		b = append(jsonheader.AppendString(b, id), ",\n"...)
	}
	b = append(b, "    \"total_size\": "+strconv.FormatInt(d.total,
		10)+"\n  },\n  \"weight_map\": {"...)
	for i, key := range slices.Sorted(maps.Keys(d.where)) {
		b = append(jsonheader.Comma(b, i), "\n    "...)
		b = jsonheader.AppendString(b, key)
		b = append(b, ": "...)
		b = jsonheader.AppendString(b, d.files[d.where[key]])
	}
	return append(b, "\n  }\n}\n"...)
}
