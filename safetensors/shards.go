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
// The files replace the files of an earlier call as one set. An error leaves the old set;
// after a crash, opening the index is tensor.ErrUnfinished, or a warning if it is still
// there, and the next WriteShards of that name, or tensorfile.Clean, finishes the set.
func WriteShards(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *ShardOptions) ([]string, error) {
	var o ShardOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxSize == 0 {
		return nil, errs.New(fs.ErrInvalid, "ShardOptions.MaxSize is 0")
	}
	d := &division{}
	var err error
	if d.shards, err = (&format.Division{Format: errs, MaxSize: o.MaxSize,
		Check: NewWriter(nil, nil).Check}).Divide(ctx, ts); err != nil {
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
	files  []string
	index  string
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
		wo.Attributes = maps.Clone(wo.Attributes)
		if wo.Attributes == nil {
			wo.Attributes = map[string]string{}
		}
		wo.Attributes[setKey] = o.ID
	}
	for i, shard := range d.shards {
		f, err := set.Create(d.files[i])
		if err != nil {
			return err
		}
		w := format.OfFile(f, wo.encoding())
		if err := format.WriteAll(ctx, &w, tensor.Of(shard...)); err != nil {
			return err
		}
	}
	if len(d.shards) > 1 {
		f, err := set.Create(d.index)
		if err != nil {
			return err
		}
		if _, err := f.Write(d.marshalIndex(wo.Attributes[setKey])); err != nil {
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
	files, total := map[string]string{}, int64(0)
	for i, shard := range d.shards {
		for _, t := range shard {
			files[t.Name] = d.files[i]
			total += t.Data.Size()
		}
	}
	b := []byte("{\n  \"metadata\": {\n")
	if id != "" {
		b = append(b, "    \""+setKey+"\": "...)
		b = append(jsonheader.AppendString(b, id), ",\n"...)
	}
	b = append(b, "    \"total_size\": "+strconv.FormatInt(total,
		10)+"\n  },\n  \"weight_map\": {"...)
	for i, key := range slices.Sorted(maps.Keys(files)) {
		b = append(jsonheader.Comma(b, i), "\n    "...)
		b = jsonheader.AppendString(b, key)
		b = append(b, ": "...)
		b = jsonheader.AppendString(b, files[key])
	}
	return append(b, "\n  }\n}\n"...)
}
