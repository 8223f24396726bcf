package ztensor

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
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

// ShardOptions control how [WriteShards] divides a model.
type ShardOptions struct {
	// MaxSize is the maximum number of bytes of data in a shard. It must be set:
	// WriteShards fails with fs.ErrInvalid for 0. A tensor is never divided: a larger one
	// gets a shard of its own.
	MaxSize int64
	// Digest is the algorithm of the digests in the root of whole shards: SHA256 or XXH3.
	// NoDigest means SHA256.
	Digest Digest
	// ID, if not empty, identifies the set, for example by the training step. It becomes
	// the attribute shard_set_id of the root and of every shard. Reading from a shard
	// whose ID is not the ID of the root fails.
	ID string
	// NoReplace makes WriteShards fail with fs.ErrExist if a file of the set exists.
	NoReplace bool
	// DryRun makes WriteShards return the names and write nothing.
	DryRun bool
	// TensorAttributes, if not nil, returns the attributes of a tensor, or nil.
	TensorAttributes func(t *tensor.Tensor) map[string]any
	// Writer has the options for each file; nil is the zero value. Its Version must be 2
	// or "". Its Attributes are the attributes of the root.
	Writer *WriterOptions
}

// WriteShards writes a model of version 2 as several files, in the order given: shards,
// each a complete file named ROOT-00001.zt and so on, and the root, name, which has no
// data and is the model when it is opened. A model that fits into one shard is one
// ordinary file, name. It returns the names, the root last.
//
// The files replace the files of an earlier call as one set. After an error the old set
// is still there. After a crash the next WriteShards of that name, or tensorfile.Clean,
// finishes the set; until then [Open] reports that the set is unfinished. WriteShards
// fails with fs.ErrInvalid if a shard would replace a symbolic link, because readers do
// not follow links.
func WriteShards(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error],
	opts *ShardOptions) ([]string, error) {
	d, err := newDivision(name, opts)
	if err != nil {
		return nil, err
	}
	shards, err := d.divide(ctx, ts)
	if err != nil {
		return nil, err
	}
	names := d.names(len(shards))
	for i, name := range names {
		fi, err := os.Lstat(name)
		isLink := err == nil && fi.Mode()&fs.ModeSymlink != 0
		switch {
		case d.NoReplace && !errors.Is(err, fs.ErrNotExist):
			err = cmp.Or(err, fs.ErrExist)
		case isLink && i < len(names)-1:
			err = fmt.Errorf("%w: it is a link, and shards are next to their root", fs.ErrInvalid)
		default:
			continue
		}
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	if d.DryRun {
		return names, nil
	}
	return names, d.writeSet(ctx, names, shards)
}

// names returns the names of the files: shards, then the root; if there is one shard,
// only the root.
func (d *division) names(shards int) (names []string) {
	for i := range shards {
		if shards > 1 {
			names = append(names, d.shardName(i))
		}
	}
	return append(names, d.name)
}

// writeSet writes the shards and the root as a set.
func (d *division) writeSet(ctx context.Context, names []string, shards [][]*tensor.Tensor) error {
	set, err := atomicfile.NewSet(d.name)
	if err != nil {
		return err
	}
	defer set.Abort()
	set.Obsolete(d.oldShards()...)
	// create begins a file, which has the name temp until the set is complete.
	create := func(name string, o WriterOptions) (w *Writer, temp string, err error) {
		f, err := set.Create(filepath.Base(name))
		if err != nil {
			return nil, "", err
		}
		return newWriter(f, true, &o), f.Temp(), nil
	}
	o := d.writer
	if len(shards) > 1 {
		o.Attributes, o.Canonical = d.withID(o.Attributes), false
	}
	root, _, err := create(d.name, o)
	if err != nil {
		return err
	}
	defer root.Abort()
	if len(shards) == 1 {
		if err := d.write(ctx, root, shards[0]); err != nil {
			return err
		}
		return set.Commit()
	}
	for i, shard := range shards {
		shardOptions := d.writer
		shardOptions.Attributes = d.withID(nil)
		w, temp, err := create(names[i], shardOptions)
		if err == nil {
			err = d.write(ctx, w, shard)
		}
		if err == nil {
			err = d.link(ctx, root, temp, fmt.Sprintf("%05d", i+1))
		}
		if err != nil {
			return err
		}
	}
	if err := root.Close(); err != nil {
		return err
	}
	return set.Commit()
}

// oldShards returns the names of the shards that an earlier WriteShards wrote for the
// root that is replaced.
func (d *division) oldShards() []string {
	r, err := Open(d.name, nil)
	if err != nil {
		return nil
	}
	defer r.Close()
	var names []string
	for s := range r.Shards() {
		if i, err := strconv.Atoi(s.Name); err == nil && len(s.Name) == 5 && i > 0 {
			names = append(names, filepath.Base(d.shardName(i-1)))
		}
	}
	return names
}

// withID returns attributes with the ID of the set.
func (d *division) withID(attributes map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, attributes)
	if d.ID != "" {
		all[v2.SetKey] = d.ID
	}
	return all
}

// A division is the state of a call of WriteShards.
type division struct {
	ShardOptions
	writer WriterOptions
	name   string
}

func newDivision(name string, opts *ShardOptions) (*division, error) {
	d := &division{name: name}
	if opts != nil {
		d.ShardOptions = *opts
	}
	d.writer = *d.Writer.WholeFile()
	d.Digest = cmp.Or(d.Digest, SHA256)
	switch v := d.writer.Version; {
	case v != Version2:
		return nil, core.Errs.New(errors.ErrUnsupported, "shards of version %s", naming.Quote(v))
	case d.MaxSize <= 0:
		return nil, core.Errs.New(fs.ErrInvalid, "ShardOptions.MaxSize is %d", d.MaxSize)
	case d.Digest != SHA256 && d.Digest != XXH3:
		return nil, core.Errs.New(errors.ErrUnsupported, "ShardOptions.Digest is %v", d.Digest)
	}
	return d, d.writer.Check()
}

// divide returns the tensors of each shard. There is at least one shard.
func (d *division) divide(ctx context.Context,
	ts iter.Seq2[*tensor.Tensor, error]) ([][]*tensor.Tensor, error) {
	by := format.Division{Format: core.Errs, MaxSize: d.MaxSize,
		Check: func(t *tensor.Tensor) error { return core.Errs.Wrap(-1, "", t.Check()) },
		Size:  func(t *tensor.Tensor) int64 { return max(0, t.Size()) }}
	return by.Divide(ctx, func(yield func(*tensor.Tensor, error) bool) {
		for t, err := range ts {
			if err == nil && t != nil {
				t, err = writer.Measure(ctx, t)
			}
			if !yield(t, err) {
				return
			}
		}
	})
}

// shardName returns the file name of shard i, from 0.
func (d *division) shardName(i int) string {
	return fmt.Sprintf("%s-%05d.zt", strings.TrimSuffix(d.name, filepath.Ext(d.name)), i+1)
}

// write adds ts and their attributes to w, and completes the file.
func (d *division) write(ctx context.Context, w *Writer, ts []*tensor.Tensor) error {
	defer w.Abort()
	if d.TensorAttributes != nil {
		for _, t := range ts {
			if attributes := d.TensorAttributes(t); len(attributes) > 0 {
				if err := w.TensorAttributes(t.Name, attributes); err != nil {
					return err
				}
			}
		}
	}
	return w.writeAll(ctx, tensor.Of(ts...))
}

// link makes the root refer to the shard of that name, which is complete, in the file
// temp.
func (d *division) link(ctx context.Context, root *Writer, temp, name string) error {
	r, err := Open(temp, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	s, err := r.Identity(ctx, name, d.Digest)
	if err != nil {
		return err
	}
	return root.Link(s, r)
}
