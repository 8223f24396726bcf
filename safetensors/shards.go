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
	// MaxSize is the maximum number of bytes of data in a file. It must be set: 0 is
	// fs.ErrInvalid. A tensor is never divided: a larger one gets a file of its own.
	MaxSize int64
	// ID, if not empty, identifies the set, for example by the training step. It is
	// stored as shard_set_id in the metadata of every shard and of the index. An index
	// whose shards have other IDs does not open.
	ID string
	// NoReplace makes WriteShards fail with fs.ErrExist if a file of the set exists.
	NoReplace bool
	// DryRun makes WriteShards return the names and write nothing.
	DryRun bool
	// Writer has the options for each file; nil is the zero value.
	Writer *WriterOptions
}

// WriteShards writes a model as several files, in the order given, with the names of
// Hugging Face's libraries: for "dir/model.safetensors", model-00001-of-00003.safetensors
// and so on, and model.safetensors.index.json. A model that fits into one file is written
// to name, without an index. WriteShards returns the names, the index last. It reads the
// data after the last tensor of ts, as [WriteFile] does.
//
// The files replace the files of an earlier call as one set. After an error the old set
// is still there. After a crash the next WriteShards of that name, or tensorfile.Clean,
// finishes the set; until then [Open] reports that the set is unfinished.
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
	if n := len(d.shards); n > 1 {
		for i := range d.shards {
			d.files = append(d.files, fmt.Sprintf("%s-%05d-of-%05d%s", base, i+1, n, suffix))
		}
	} else {
		d.files = []string{filepath.Base(name)}
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

// A division says which tensors go to which file.
type division struct {
	shards [][]*tensor.Tensor // one at least
	files  []string           // names of the shards
	index  string             // name of the index, which several shards have
}

// setFiles lists the files of a directory that an earlier WriteShards of the same name
// may have written.
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
	number := func(s string) bool { return len(s) >= 5 && strings.Trim(s, "0123456789") == "" }
	return ok && isFile && isRange && number(i) && number(n)
}

// write writes the shards and the index as a set, which replaces the old files.
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
	b = fmt.Appendf(b, "    \"total_size\": %d\n  },\n  \"weight_map\": {", total)
	for i, key := range slices.Sorted(maps.Keys(files)) {
		b = append(jsonheader.Comma(b, i), "\n    "...)
		b = jsonheader.AppendString(b, key)
		b = append(b, ": "...)
		b = jsonheader.AppendString(b, files[key])
	}
	return append(b, "\n  }\n}\n"...)
}
