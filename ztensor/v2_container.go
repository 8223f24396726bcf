package ztensor

import (
	"encoding/binary"
	"io/fs"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/ztensor/internal/cbor"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// The numbers of the container of version 2 (§2 and §3 of its specification).
const (
	footer2       = 40
	least2        = 8 + footer2 // a file of nothing
	floor2        = 4096        // where blobs and the manifest may begin: at multiples of it
	canonical2    = 65536       // where they do in canonical form
	maxManifest2  = 1 << 30
	maxName2      = 1024
	maxShardName2 = 64
	maxRank2      = 64
)

// nameless is the Scheme of a tensor whose layout is the empty text.
const nameless = "?"

// A container2 is a file of version 2.
type container2 struct {
	r      *file
	list   []shard // in the order of the manifest
	order  []int32 // of them by name
	data   bool    // a data shard: no manifest
	beside folder
}

func (c *container2) stored() (n int64) {
	for b := range c.r.blobs.all() {
		n += b.length
	}
	return n
}

// elsewhere returns the size of all shards.
func (c *container2) elsewhere() (n int64) {
	for i := range c.list {
		var ok bool
		if n, ok = align.Add(n, c.list[i].size); !ok {
			return math.MaxInt64
		}
	}
	return n
}

func (c *container2) window() uint64 {
	if strconv.IntSize < 64 {
		return maxWindow
	}
	return maxFrameWindow
}

// find returns the index of the shard of that name, or -1.
func (c *container2) find(name string) int {
	i, ok := slices.BinarySearchFunc(c.order, name, func(i int32, name string) int { return strings.Compare(c.list[i].name, name) })
	if !ok {
		return -1
	}
	return int(c.order[i])
}

// open2 reads the container of version 2.
func open2(r *file) error {
	c := &container2{r: r}
	r.generation = c
	size := r.src.Size()
	r.version, r.list = "2", "objects"
	if size < least2 {
		return r.bad(size, "", rule.Broken(rule.FileTooSmall, "%d bytes, and the shortest file has %d", size, least2))
	}
	t, err := r.readTail(footer2)
	if err != nil {
		return err
	}
	f, at := t.last(footer2), size-footer2
	off, n, hash := binary.LittleEndian.Uint64(f), binary.LittleEndian.Uint64(f[8:]), binary.LittleEndian.Uint64(f[16:])
	switch version := binary.LittleEndian.Uint32(f[24:]); {
	case string(f[32:]) != magic2:
		return r.bad(size-8, "magic", rule.Broken(rule.FooterMagic, "the file does not end with the magic number (truncated, or an append that was interrupted?)"))
	case version != 2:
		return r.bad(at+24, "version", rule.Broken(rule.Version, "container version %d", version))
	case n == 0 && (off != 0 || hash != 0):
		return r.bad(at, "manifest_offset", rule.Broken(rule.ManifestBounds, "no manifest, and yet a place or a hash for it"))
	case n == 0:
		c.data = true
		return nil
	case n > maxManifest2:
		return r.bad(at+8, "manifest_length", rule.Broken(rule.ManifestTooLarge, "%d bytes of at most %d", n, maxManifest2))
	case off%floor2 != 0 || off < floor2:
		return r.bad(at, "manifest_offset", rule.Broken(rule.BlobAlignment, "the manifest begins at %d, no positive multiple of %d", off, floor2))
	case off > uint64(at) || n > uint64(at)-off:
		return r.bad(at, "manifest_offset", rule.Broken(rule.ManifestBounds, "%d bytes at %d of the %d before the footer", n, off, at))
	}
	return r.readManifest(t, int64(off), int64(n), func(b []byte) error {
		if have := xxh3.Hash(b); have != hash {
			return r.bad(at+16, "manifest_hash", rule.Broken(rule.ManifestHash, "xxh3 is %016x, the footer says %016x", have, hash))
		}
		s := &scan2{two: c, Cursor: cbor.NewStrict(b, r.limits), r: r}
		s.root()
		return s.done()
	})
}

// close gives up the shards that were opened.
func (c *container2) close() (err error) {
	for i := range c.list {
		s := &c.list[i]
		s.once.Do(func() { s.err = fs.ErrClosed })
		if s.file != nil {
			if e := s.file.Close(); err == nil {
				err = e
			}
		}
	}
	return err
}

func (c *container2) footer() int64 { return footer2 }

func (c *container2) shards() iter.Seq[shardID] {
	return func(yield func(shardID) bool) {
		for i := range c.list {
			if s := &c.list[i]; !yield(shardID{s.name, s.size, s.digest}) {
				return
			}
		}
	}
}

func (c *container2) shardName(i int) string { return c.list[i].name }
