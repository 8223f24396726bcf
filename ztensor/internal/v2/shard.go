package v2

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/internal/source"
	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/core"
	"github.com/tensorfile/tensorfile/ztensor/internal/digest"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
	"github.com/tensorfile/tensorfile/ztensor/internal/writer"
)

// A shard is a file that is opened when its bytes are first read.
type shard struct {
	core.ShardID
	once    sync.Once
	src     *source.Source
	foundAs string    // the name under which it was found
	file    io.Closer // what is closed with the Reader; nil if nothing is
	err     error
}

// siblings are the files in the directory of a root, among which shards of other names
// are found by their content.
type siblings struct {
	mu    sync.Mutex
	files map[int64][]string // by size
	Sums  map[string]string  // digests by algorithm:file; nil until files is filled
}

// Known yields the names of the files of the size and digest of s. It reads files of that
// size, once.
func (f *siblings) Known(root *format.Input, s *shard) iter.Seq[string] {
	return func(yield func(string) bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.Sums == nil {
			f.files, f.Sums = root.Siblings(), make(map[string]string)
		}
		algorithm, want, _ := strings.Cut(s.Digest, ":")
		for _, name := range f.files[s.Size] {
			have, ok := f.Sums[algorithm+":"+name]
			if !ok {
				if src, closer, err := companion(root, name); err == nil {
					have, _ = sumFile(context.Background(), src, s.Digest)
					closer.Close()
				}
				f.Sums[algorithm+":"+name] = have
			}
			if have == want && !yield(name) {
				return
			}
		}
	}
}

// companion opens another file; see format.Input.Companion.
func companion(root *format.Input, name string) (*source.Source, io.Closer, error) {
	file, size, err := root.Companion(name)
	if err != nil {
		return nil, nil, err
	}
	closer, ok := file.(io.Closer)
	if !ok {
		closer = io.NopCloser(nil)
	}
	src, ok := file.(*source.Source)
	if !ok {
		src, err = source.OfReaderAt(file, size)
	}
	return src, closer, err
}

// isShardName reports whether name is valid (§3.6): 1 to 64 of A-Z a-z 0-9 . _ -, the
// first not a dot. It is never a path.
func isShardName(name []byte) bool {
	if len(name) == 0 || len(name) > maxShardName || name[0] == '.' {
		return false
	}
	return !slices.ContainsFunc(name, func(c byte) bool {
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		return !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	})
}

// Shard opens a shard, the first time, and checks its size, its index and the ID of its
// set. It returns the name of the file.
func (c *Container) Shard(i int) (src *source.Source, name string, err error) {
	s := &c.List[i]
	s.once.Do(func() { s.err = c.openShard(s) })
	if s.err != nil {
		return nil, "", fmt.Errorf("shard %s: %w", naming.Quote(s.Name), s.err)
	}
	return s.src, s.foundAs, nil
}

// shardNames returns the names that a shard may have, relative to the directory of the
// root: next to it, or in a store by digest.
func (c *Container) shardNames(s *shard) []string {
	algorithm, sum, _ := strings.Cut(s.Digest, ":")
	all := []string{s.Name + ".zt"}
	if base := c.r.Name(); base != "" {
		all[0] = strings.TrimSuffix(base, path.Ext(base)) + "-" + s.Name + ".zt"
	}
	return append(all, path.Join("store", "blobs", algorithm, sum),
		path.Join("blobs", algorithm, sum))
}

func (c *Container) openShard(s *shard) error {
	var first error
	for _, name := range c.shardNames(s) {
		err := c.tryShard(s, name)
		if err == nil {
			return nil
		}
		if first == nil || errors.Is(first, fs.ErrNotExist) && !errors.Is(err, fs.ErrNotExist) {
			first = err
		}
	}
	// A renamed file is found by its content.
	for name := range c.Siblings.Known(c.r.Input, s) {
		if c.tryShard(s, name) == nil {
			return nil
		}
	}
	return first
}

// tryShard opens the file of that name as the shard if checkShard accepts it. Verify
// checks its digest.
func (c *Container) tryShard(s *shard, name string) error {
	src, closer, err := companion(c.r.Input, name)
	if err != nil {
		return err
	}
	if err := c.checkShard(s, src); err != nil {
		closer.Close()
		return fmt.Errorf("%s: %w", naming.Quote(name), err)
	}
	s.src, s.foundAs, s.file = src, name, closer
	return nil
}

func (c *Container) checkShard(s *shard, src *source.Source) error {
	if size := src.Size(); size != s.Size {
		return rule.Broken(rule.ShardIdentity, "%d bytes, not %d", size, s.Size)
	}
	r := &core.File{Input: c.r.Shard(src)}
	if err := openShard(r); err != nil {
		return rule.New(rule.ShardIdentity, err)
	}
	if have, want := setID(r), setID(c.r); have != want && have != "" {
		return rule.Broken(rule.ShardIdentity,
			"of the set %s, not %s", naming.Quote(have), naming.Quote(want))
	}
	return nil
}

// openShard reads the index of a file, which must be of version 2.
func openShard(r *core.File) error {
	head := make([]byte, len(Magic2))
	if r.Size() >= int64(len(head)) {
		if _, err := r.ReadAt(head, 0); err != nil {
			return core.Errs.Wrap(0, "magic", err)
		}
		if string(head) != Magic2 {
			return core.Errs.Wrap(0, "magic", rule.Broken(rule.HeaderMagic,
				"not a file of version 2"))
		}
	}
	return Open(r)
}

// SetKey is the attribute of a root and its shards with the ID of their set.
const SetKey = "shard_set_id"

// setID returns the ID of the set of a file; "" if it has none.
func setID(r *core.File) string {
	v := cbor.Find(r.Attributes, SetKey)
	if s, ok := cbor.TextOf(v); ok || v == nil {
		return s
	}
	c := cbor.Cursor{B: v, DepthLeft: cbor.MaxNesting}
	return string(c.AppendJSON(nil))
}

// linked returns the entries of the named tensors, or of all if names is empty, for a
// file that has this file as a shard.
func (c *Container) linked(shard core.ShardID, names []string) ([]writer.Item, error) {
	r := c.r
	_, unknown := digest.AlgorithmOf(shard.Digest)
	switch {
	case c.data:
		return nil, unlinkable(shard, "it has no manifest of version 2")
	case !isShardName([]byte(shard.Name)):
		return nil, fmt.Errorf("ztensor: %w: %s is not the name of a shard", fs.ErrInvalid,
			naming.Quote(shard.Name))
	case shard.Size != r.Size() || !digest.IsWellFormed([]byte(shard.Digest)) || unknown != nil:
		return nil, fmt.Errorf("ztensor: shard %s: %w: the file does not have %d bytes "+
			"and the digest %s", naming.Quote(shard.Name), fs.ErrInvalid, shard.Size,
			naming.Quote(shard.Digest))
	}
	wanted := map[string]bool{} // by name; false once it is found
	for _, name := range names {
		if wanted[name] {
			return nil, core.Errs.Tensor(name, tensor.ErrDuplicate, "it is named twice")
		}
		wanted[name] = true
	}
	for _, t := range r.Tensors {
		if _, ok := wanted[t.Name]; !ok && len(names) > 0 {
			continue
		}
		if slices.ContainsFunc(core.PayloadsOf(t),
			func(p *core.Payload) bool { return p.Shard > 0 }) {
			return nil, core.Errs.Tensor(t.Name, errors.ErrUnsupported,
				"its data is in another shard")
		}
		wanted[t.Name] = false
	}
	for _, name := range names {
		if wanted[name] {
			return nil, core.Errs.Tensor(name, tensor.ErrNoTensor, "the shard does not have it")
		}
	}
	var found []writer.Item
	_, err := writer.Objects(r, func(name string, object []byte) {
		if _, ok := wanted[name]; ok {
			found = append(found, writer.Item{Name: name, Object: writer.EditParts(r, object,
				func(_ string, part []cbor.Pair) []cbor.Pair {
					return append(part, cbor.PairOf("shard", cbor.AppendText(nil, shard.Name)))
				})})
		}
	})
	return found, err
}

// sumFile digests a whole file by the algorithm of text, a digest, and returns the result
// in hexadecimal.
func sumFile(ctx context.Context, src *source.Source, text string) (string, error) {
	a, err := digest.AlgorithmOf(text)
	if err != nil {
		return "", err
	}
	h := digest.New(a)
	whole, err := src.Extent(0, src.Size())
	if err == nil {
		_, err = tensor.NewBlob(&whole).WriteTo(format.Until(ctx, h))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// Identity returns the file as a shard of that name. It digests the whole file.
func (c *Container) Identity(ctx context.Context, name string, alg digest.Algorithm) (core.ShardID,
	error) {
	if alg != digest.SHA256 && alg != digest.XXH3 {
		return core.ShardID{}, fmt.Errorf("ztensor: %w: %v as the digest of a shard",
			errors.ErrUnsupported, alg)
	}
	sum, err := sumFile(ctx, c.r.Source, alg.String()+":")
	if err != nil {
		return core.ShardID{}, c.r.Locate(-1, "", err)
	}
	return core.ShardID{Name: name, Size: c.r.Size(), Digest: alg.String() + ":" + sum}, nil
}
