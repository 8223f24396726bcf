package ztensor

import (
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
	"github.com/tensorfile/tensorfile/internal/quote"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/v2"
)

// ShardOptions control how [WriteShards] divides a model.
type ShardOptions struct {
	// Max is how many bytes of data a shard has at most. A tensor is never
	// divided: a larger one gets a shard of its own.
	Max int64
	// Store names the shards by their digests, blobs/sha256/DIGEST beside the
	// root, as stores of content do, where equal shards of several models are one
	// file. Else they are called as the root, with -00001 and so on behind it.
	Store bool
	// Digest is that of whole shards in the root: SHA256, which is NoDigest too,
	// or XXH3.
	Digest Digest
	// ID, if not empty, identifies the set, such as by the training step. It is
	// the attribute shard_set_id of the root and of every shard; a shard with
	// another ID than the root's is refused.
	ID string
	// TensorAttributes, if not nil, describes a tensor. Its result may be nil.
	TensorAttributes func(t *tensor.Tensor) map[string]any
	// Writer is how each of the files is written; nil is its zero value. The
	// Version is 2 whatever it says, and the Attributes are the root's.
	Writer *WriterOptions
}

// WriteShards writes a model of version 2 as several files: shards, each of them
// a complete file with a manifest of its own, in canonical form as far as
// Writer.Level, Alignment and KeepOrder let it; and the root called name, which
// has no data but says what is where. Opened, the root is the model. Tensors are
// divided in the order given. Where everything fits into one shard, name is an
// ordinary file with all of it. WriteShards returns the names of the files, the
// root last.
//
// Root and shards replace those that WriteShards wrote under that name before,
// together: while there is a root, it and its shards are of one set. Everything is
// written under temporary names first; an error until then, or a crash, leaves the
// old set as it was (a crash also temporary files, .NAME.tmp-…). The renames
// themselves, in which the old root goes first and the new one comes last, are
// listed in a journal, .NAME.journal. A crash in the middle leaves that, and
// opening the root reports it; the next WriteShards of that name, or 'tensorfile
// clean', finishes the work. In a Store no file that is there changes, and the
// root is replaced last. Links that lead to a shard are an error: no reader
// follows them out of the directory.
func WriteShards(ctx context.Context, name string, ts iter.Seq2[*tensor.Tensor, error], opts *ShardOptions) ([]string, error) {
	d, err := newDivision(name, opts)
	if err != nil {
		return nil, err
	}
	shards, err := divide(ctx, ts, d.Max)
	if err != nil {
		return nil, err
	}
	if d.Store {
		return d.store(ctx, shards)
	}
	return d.set(ctx, shards)
}

// set replaces the root and its shards together.
func (d *division) set(ctx context.Context, shards [][]*tensor.Tensor) ([]string, error) {
	dir, base := filepath.Split(d.name)
	set, err := atomicfile.NewSet(d.name)
	if err != nil {
		return nil, err
	}
	defer set.Abort()
	obsolete := d.shardsOf(dir)
	set.Obsolete(obsolete...)
	o := d.writer
	if len(shards) == 1 {
		f, err := set.Create(base)
		if err == nil {
			err = d.write(ctx, fileWriter(f, &o), shards[0])
		}
		if err != nil {
			return nil, err
		}
		return []string{d.name}, set.Commit()
	}
	o.Attributes, o.Canonical = d.rootAttributes(), false
	f, err := set.Create(base)
	if err != nil {
		return nil, err
	}
	root := fileWriter(f, &o)
	defer root.Abort()
	var files []string
	for i, shard := range shards {
		name := filepath.Base(d.shardName(i))
		if err := d.free(dir, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
		f, err := set.Create(name)
		if err != nil {
			return nil, err
		}
		o := d.shardOptions()
		if err := d.write(ctx, fileWriter(f, &o), shard); err != nil {
			return nil, err
		}
		if _, err := d.link(ctx, root, f.Temp(), fmt.Sprintf("%05d", i+1)); err != nil {
			return nil, err
		}
		files = append(files, filepath.Join(dir, name))
	}
	if err := root.Close(); err != nil {
		return nil, err
	}
	return append(files, d.name), set.Commit()
}

// shardsOf lists the shards of the root that is replaced, by the names that
// WriteShards gives them.
func (d *division) shardsOf(dir string) []string {
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

// store writes shards that are named by their digests, so that no file that is
// there is changed, and then the root.
func (d *division) store(ctx context.Context, shards [][]*tensor.Tensor) ([]string, error) {
	o := d.writer
	if len(shards) == 1 {
		w, err := Create(d.name, &o)
		if err != nil {
			return nil, err
		}
		defer w.Abort()
		return []string{d.name}, d.write(ctx, w, shards[0])
	}
	files := make([]string, len(shards), len(shards)+1)
	for i := range shards {
		files[i] = d.shardName(i)
		if err := d.free(filepath.Dir(d.name), files[i]); err != nil {
			return nil, err
		}
	}
	o.Attributes, o.Canonical = d.rootAttributes(), false
	root, err := Create(d.name, &o)
	if err != nil {
		return nil, err
	}
	defer root.Abort()
	for i, shard := range shards {
		o := d.shardOptions()
		w, err := Create(files[i], &o)
		if err != nil {
			return nil, err
		}
		written := files[i]
		if err = d.write(ctx, w, shard); err == nil {
			files[i], err = d.link(ctx, root, written, fmt.Sprintf("%05d", i+1))
		}
		if w.Abort(); err != nil {
			os.Remove(written) // nobody would look for it under this name
			return nil, err
		}
	}
	return append(files, d.name), root.Close()
}

func (d *division) rootAttributes() map[string]any {
	if d.ID == "" {
		return d.writer.Attributes
	}
	all := maps.Clone(d.writer.Attributes)
	if all == nil {
		all = map[string]any{}
	}
	all[v2.SetKey] = d.ID
	return all
}

// shardOptions are those of a shard, whose only attribute is the ID of the set.
func (d *division) shardOptions() WriterOptions {
	o := d.writer
	o.Attributes = nil
	if d.ID != "" {
		o.Attributes = map[string]any{v2.SetKey: d.ID}
	}
	return o
}

// A division is a call of WriteShards.
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
	d.writer = d.Writer.orZero()
	d.writer.Version = "2"
	d.writer = *d.writer.WholeFile()
	if d.Digest == NoDigest {
		d.Digest = SHA256
	}
	switch {
	case d.Max <= 0:
		return nil, fmt.Errorf("ztensor: ShardOptions.Max is %d", d.Max)
	case d.Digest != SHA256 && d.Digest != XXH3:
		return nil, fmt.Errorf("ztensor: %w: ShardOptions.Digest is %v", errors.ErrUnsupported, d.Digest)
	}
	return d, d.writer.Check()
}

// divide deals the tensors out; there is always one shard, if an empty one.
func divide(ctx context.Context, ts iter.Seq2[*tensor.Tensor, error], most int64) ([][]*tensor.Tensor, error) {
	shards := make([][]*tensor.Tensor, 1)
	names := map[string]bool{}
	room := most
	for t, err := range ts {
		switch {
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case t == nil:
			return nil, core.ErrNil
		case names[t.Name]:
			return nil, fmt.Errorf("ztensor: tensor %s: %w: a second tensor of that name", quote.Name(t.Name), tensor.ErrDuplicate)
		}
		names[t.Name] = true
		t, err := core.Measured(ctx, t)
		if err != nil {
			return nil, err
		}
		last := len(shards) - 1
		size := max(0, t.Size())
		if size > room && len(shards[last]) > 0 {
			shards, room = append(shards, nil), most
			last++
		}
		room -= min(size, room)
		shards[last] = append(shards[last], t)
	}
	return shards, nil
}

// shardName is where shard i is written, which is not yet its name where that is
// its digest.
func (d *division) shardName(i int) string {
	dir, base := filepath.Split(d.name)
	file := fmt.Sprintf("%s-%05d.zt", strings.TrimSuffix(base, filepath.Ext(base)), i+1)
	if d.Store {
		return filepath.Join(dir, "blobs", d.Digest.String(), ".new-"+file)
	}
	return filepath.Join(dir, file)
}

// free wants no links between dir and the file.
func (d *division) free(dir, file string) error {
	within, err := filepath.Rel(dir, file)
	if err != nil {
		return err
	}
	at := dir
	for _, element := range strings.Split(within, string(filepath.Separator)) {
		at = filepath.Join(at, element)
		if fi, err := os.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return &fs.PathError{Op: "create", Path: at, Err: fmt.Errorf("%w: it is a link, and shards lie beside their root", fs.ErrInvalid)}
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.MkdirAll(filepath.Dir(file), 0o777)
}

// write writes a whole file.
func (d *division) write(ctx context.Context, w *Writer, ts []*tensor.Tensor) error {
	defer w.Abort()
	if d.TensorAttributes != nil {
		for _, t := range ts {
			if own := d.TensorAttributes(t); len(own) > 0 {
				if err := w.TensorAttributes(t.Name, own); err != nil {
					return err
				}
			}
		}
	}
	if err := w.AddAll(ctx, tensor.Of(ts...)); err != nil {
		return err
	}
	return w.Close()
}

// link makes the root refer to a shard that has been written, and returns the
// shard's name.
func (d *division) link(ctx context.Context, root *Writer, file, name string) (string, error) {
	r, err := Open(file, nil)
	if err != nil {
		return "", err
	}
	defer r.Close()
	s, err := r.Identity(ctx, name, d.Digest)
	if err == nil {
		err = root.Link(s, r)
	}
	if err == nil {
		err = r.Close() // before it is renamed: Windows wants it so
	}
	if err != nil || !d.Store {
		return file, err
	}
	_, sum, _ := strings.Cut(s.Digest, ":")
	stored := filepath.Join(filepath.Dir(file), sum)
	return stored, atomicfile.Rename(file, stored)
}
